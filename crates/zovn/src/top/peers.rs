//! The hosts that tunnels lead to, as a table below that of ports.

use model::{PeerState, PeerStatus, SessionStatus, WayState};
use ratatui::layout::{Constraint, HorizontalAlignment};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};

use super::pace::{Pace, PeerRates};
use super::view::{abridged, figure, si};

/// A column of the table.
struct Column {
    title: &'static str,
    width: u16,
    alignment: HorizontalAlignment,
    show: fn(&PeerStatus, PeerRates) -> Vec<Span<'static>>,
}

const COLUMNS: [Column; 10] = {
    use HorizontalAlignment::{Left, Right};
    const fn column(
        title: &'static str,
        width: u16,
        alignment: HorizontalAlignment,
        show: fn(&PeerStatus, PeerRates) -> Vec<Span<'static>>,
    ) -> Column {
        Column { title, width, alignment, show }
    }
    [
        column("PEER", 15, Left, |peer, _| vec![peer.vtep.to_string().bold()]),
        column("STATE", 7, Left, |peer, _| vec![state(peer.state)]),
        column("BFD", 4, Left, |peer, _| vec![way(peer)]),
        column("IN bit/s", 8, Right, |_, rates| figure(rates.in_bits)),
        column("OUT bit/s", 9, Right, |_, rates| figure(rates.out_bits)),
        column("RTT", 6, Right, |peer, _| {
            vec![session(peer).and_then(|it| it.round_trip).map_or("–".dim(), |rtt| seconds(rtt).into())]
        }),
        column("WINDOW", 6, Right, |peer, _| {
            session(peer).map_or(nothing(), |it| figure(it.window_bytes as f64))
        }),
        column("RESENT", 6, Right, |peer, rates| match session(peer) {
            None => nothing(),
            Some(it) if rates.resent > 0.0 => vec![si(it.resent as f64).yellow()],
            Some(it) => figure(it.resent as f64),
        }),
        column("CREDIT", 6, Right, |peer, _| figure(peer.held_flows.into())),
        column("HELD", 5, Right, |peer, _| figure(peer.egress.total.held as f64)),
    ]
};

/// How wide the table is with a space between two columns.
pub const WIDTH: u16 = {
    let (mut width, mut place) = (COLUMNS.len() as u16 - 1, 0);
    while place < COLUMNS.len() {
        width += COLUMNS[place].width;
        place += 1;
    }
    width
};

/// How many lines the table takes, with an empty one above it.
pub fn height(pace: &Pace) -> usize {
    match pace.peers().len() {
        0 => 0,
        peers => peers + 2,
    }
}

/// The table, without the empty line and so many of the first peers.
pub fn table(pace: &Pace, scroll: usize) -> Table<'_> {
    let peers = pace.peers();
    let scroll = scroll.min(peers.len().saturating_sub(1));
    let rows = peers.skip(scroll).map(|(peer, rates)| {
        Row::new(COLUMNS.iter().map(|column| {
            let cell = abridged((column.show)(peer, rates), column.width.into());
            Line::from(cell).alignment(column.alignment)
        }))
    });
    let titles = COLUMNS.iter().map(|column| Line::from(column.title.dim()).alignment(column.alignment));
    let widths = COLUMNS.iter().map(|column| Constraint::Length(column.width));
    Table::new(rows, widths).header(Row::new(titles)).column_spacing(1)
}

fn session(peer: &PeerStatus) -> Option<&SessionStatus> {
    peer.session.as_ref()
}

fn nothing() -> Vec<Span<'static>> {
    vec!["–".dim()]
}

fn state(state: PeerState) -> Span<'static> {
    match state {
        PeerState::Up => state.name().green(),
        PeerState::Waiting => state.name().yellow(),
        PeerState::Down | PeerState::Stalled => state.name().red().bold(),
    }
}

fn way(peer: &PeerStatus) -> Span<'static> {
    match peer.way.as_ref().map(|way| way.state) {
        None => "–".dim(),
        Some(WayState::Up) => "up".green(),
        Some(WayState::Init) => "init".yellow(),
        Some(WayState::Down) => "down".yellow(),
        Some(WayState::AdminDown) => "off".dim(),
    }
}

/// A time in three digits.
fn seconds(span: units::Span) -> String {
    let ns = span.as_nanos();
    match ns {
        ..1_000_000 => format!("{} µs", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;

    #[test]
    fn it_fits_a_terminal_of_eighty_and_three() {
        const { assert!(WIDTH <= 83) };
    }

    #[test]
    fn a_time_keeps_its_cell() {
        for (us, text) in [(7, "7 µs"), (999, "999 µs"), (1_500, "1 ms"), (2_000_000, "2 s")] {
            assert_eq!(seconds(Span::from_micros(us)), text);
        }
    }
}
