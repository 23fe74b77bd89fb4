//! The hosts that tunnels lead to, as a table below that of ports.

use model::{BfdState, PeerState, PeerStatus, SessionStatus, WayStatus};
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
        column("BFD", 4, Left, |peer, _| vec![bfd(peer)]),
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
    match pace.peers().map(|(peer, _)| 1 + ways(peer).len()).sum() {
        0 => 0,
        lines => lines + 2,
    }
}

/// The table, without the empty line and so many of the first peers.
pub fn table(pace: &Pace, scroll: usize) -> Table<'_> {
    let peers = pace.peers();
    let scroll = scroll.min(peers.len().saturating_sub(1));
    let cell =
        |column: &Column, cell| Line::from(abridged(cell, column.width.into())).alignment(column.alignment);
    let rows = peers.skip(scroll).flat_map(|(peer, rates)| {
        let own = Row::new(COLUMNS.iter().map(|column| cell(column, (column.show)(peer, rates))));
        let way = |way| COLUMNS.iter().zip(way_cells(way)).map(|(column, span)| cell(column, vec![span]));
        let ways: Vec<_> = ways(peer).iter().map(|it| Row::new(way(it))).collect();
        std::iter::once(own).chain(ways)
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

/// What BFD finds of the only way to a peer, or of how many out of several it finds that they work.
fn bfd(peer: &PeerStatus) -> Span<'static> {
    match &peer.ways[..] {
        [way] => found(way),
        ways if ways.iter().all(|way| way.bfd.is_none()) => "–".dim(),
        ways => {
            let up = ways.iter().filter(|way| state_of(way) == Some(BfdState::Up)).count();
            let text = format!("{up}/{}", ways.len());
            if up == ways.len() { text.green() } else { text.yellow() }
        }
    }
}

/// What BFD finds of a way.
fn found(way: &WayStatus) -> Span<'static> {
    match state_of(way) {
        None => "–".dim(),
        Some(BfdState::Up) => "up".green(),
        Some(BfdState::Init) => "init".yellow(),
        Some(BfdState::Down) => "down".yellow(),
        Some(BfdState::AdminDown) => "off".dim(),
    }
}

fn state_of(way: &WayStatus) -> Option<BfdState> {
    way.bfd.as_ref().map(|bfd| bfd.state)
}

/// The lines below a peer: its ways, if it has several.
fn ways(peer: &PeerStatus) -> &[WayStatus] {
    if peer.ways.len() > 1 { &peer.ways } else { &[] }
}

/// The cells of such a line.
fn way_cells(way: &WayStatus) -> [Span<'static>; 3] {
    let used = if way.is_used { "used".green() } else { "–".dim() };
    [format!(" {}", way.remote).into(), used, found(way)]
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

    fn way(number: u8, is_used: bool, state: BfdState) -> WayStatus {
        let [local, remote] = [1, 2].map(|host| [192, 0, number, host].into());
        let [diagnostic, remote_diagnostic] = ["none"; 2].map(str::to_owned);
        let bfd = model::BfdStatus { state, diagnostic, remote_diagnostic, since: Span::from_secs(1) };
        WayStatus { local, remote, is_used, bfd: Some(bfd), large_segments: None }
    }

    #[test]
    fn a_peer_with_several_ways_has_a_line_for_each() {
        let mut peer = PeerStatus {
            vtep: [192, 0, 2, 2].into(),
            networks: Vec::new(),
            state: PeerState::Up,
            ways: vec![way(2, false, BfdState::Down), way(3, true, BfdState::Up)],
            session: None,
            ingress: model::Ledgers::default(),
            egress: model::Ledgers::default(),
            ingress_bytes: 0,
            egress_bytes: 0,
            held_flows: 0,
            refused: std::collections::BTreeMap::new(),
        };
        assert_eq!(bfd(&peer).content, "1/2");
        let lines = ways(&peer).iter().map(|way| way_cells(way).map(|cell| cell.content.trim().to_owned()));
        assert_eq!(lines.collect::<Vec<_>>(), [["192.0.2.2", "–", "down"], ["192.0.3.2", "used", "up"]]);
        peer.ways.truncate(1);
        assert_eq!((bfd(&peer).content.as_ref(), ways(&peer).len()), ("down", 0));
    }

    #[test]
    fn a_time_keeps_its_cell() {
        for (us, text) in [(7, "7 µs"), (999, "999 µs"), (1_500, "1 ms"), (2_000_000, "2 s")] {
            assert_eq!(seconds(Span::from_micros(us)), text);
        }
    }
}
