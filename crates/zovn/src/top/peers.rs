//! The hosts that tunnels lead to, as a table below that of ports.

use model::{BfdState, PathStatus, PeerState, PeerStatus, SessionStatus};
use ratatui::layout::{Constraint, HorizontalAlignment};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};

use super::cells::{abridged, figure, si};
use super::pace::{Pace, PeerRates};

/// A column of the table.
struct Column {
    title: &'static str,
    width: u16,
    alignment: HorizontalAlignment,
    /// Where room is short, columns go in the order of this number; those of 0 stay.
    goes: u8,
    show: fn(&PeerStatus, PeerRates) -> Vec<Span<'static>>,
}

const COLUMNS: [Column; 10] = {
    use HorizontalAlignment::{Left, Right};
    const fn column(
        title: &'static str,
        width: u16,
        alignment: HorizontalAlignment,
        goes: u8,
        show: fn(&PeerStatus, PeerRates) -> Vec<Span<'static>>,
    ) -> Column {
        Column { title, width, alignment, goes, show }
    }
    [
        column("PEER", 15, Left, 0, |peer, _| vec![peer.vtep.to_string().bold()]),
        column("STATE", 9, Left, 0, |peer, _| vec![state(peer.state)]),
        column("BFD", 4, Left, 0, |peer, _| vec![bfd(peer)]),
        column("IN bit/s", 8, Right, 6, |_, rates| figure(rates.in_bits)),
        column("OUT bit/s", 9, Right, 7, |_, rates| figure(rates.out_bits)),
        column("RTT", 6, Right, 4, |peer, _| {
            vec![session(peer).and_then(|it| it.rtt).map_or("–".dim(), |rtt| seconds(rtt).into())]
        }),
        column("CWND", 6, Right, 2, |peer, _| {
            session(peer).map_or(nothing(), |it| figure(it.congestion_window_bytes as f64))
        }),
        column("RETX", 6, Right, 3, |peer, rates| match session(peer) {
            None => nothing(),
            Some(it) if rates.retransmitted > 0.0 => vec![si(it.retransmitted as f64).yellow()],
            Some(it) => figure(it.retransmitted as f64),
        }),
        column("CREDIT", 6, Right, 1, |peer, _| figure(peer.held_flows.into())),
        column("HELD", 5, Right, 5, |peer, _| figure(peer.egress.held as f64)),
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
    match pace.peers().map(|(peer, _)| 1 + paths(peer).len()).sum() {
        0 => 0,
        lines => lines + 2,
    }
}

/// The columns that fit.
fn columns(width: u16) -> impl Iterator<Item = &'static Column> + Clone {
    let (mut left, mut gone) = (WIDTH, 0);
    while left > width && gone < COLUMNS.len() as u8 {
        gone += 1;
        let going = COLUMNS.iter().filter(|column| column.goes == gone);
        left -= going.map(|column| column.width + 1).sum::<u16>();
    }
    COLUMNS.iter().filter(move |column| column.goes == 0 || column.goes > gone)
}

/// The table as wide as this, without the empty line and so many of the first peers.
pub fn table(pace: &Pace, scroll: usize, width: u16) -> Table<'_> {
    let columns = columns(width);
    let peers = pace.peers();
    let scroll = scroll.min(peers.len().saturating_sub(1));
    let cell = |column: &Column, cell| {
        Line::from(abridged(cell, column.width.into())).alignment(column.alignment)
    };
    let shown = columns.clone();
    let rows = peers.skip(scroll).flat_map(move |(peer, rates)| {
        let own = Row::new(shown.clone().map(|column| cell(column, (column.show)(peer, rates))));
        // Its cells are those of the first columns, which stay.
        let path = |path| {
            COLUMNS.iter().zip(path_cells(path)).map(|(column, span)| cell(column, vec![span]))
        };
        let paths: Vec<_> = paths(peer).iter().map(|it| Row::new(path(it))).collect();
        std::iter::once(own).chain(paths)
    });
    let title = |column: &Column| Line::from(column.title.dim()).alignment(column.alignment);
    let titles = columns.clone().map(title);
    let widths = columns.map(|column| Constraint::Length(column.width));
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
        PeerState::Handshake => state.name().yellow(),
        PeerState::Down | PeerState::Stalled => state.name().red().bold(),
    }
}

/// What BFD finds of the only path to a peer, or of how many out of several it finds that they
/// work.
fn bfd(peer: &PeerStatus) -> Span<'static> {
    match &peer.paths[..] {
        [path] => found(path),
        paths if paths.iter().all(|path| path.bfd.is_none()) => "–".dim(),
        paths => {
            let up = paths.iter().filter(|path| state_of(path) == Some(BfdState::Up)).count();
            let text = format!("{up}/{}", paths.len());
            if up == paths.len() { text.green() } else { text.yellow() }
        }
    }
}

/// What BFD finds of a path.
fn found(path: &PathStatus) -> Span<'static> {
    match state_of(path) {
        None => "–".dim(),
        Some(BfdState::Up) => "up".green(),
        Some(BfdState::Init) => "init".yellow(),
        Some(BfdState::Down) => "down".yellow(),
        Some(BfdState::AdminDown) => "off".dim(),
    }
}

fn state_of(path: &PathStatus) -> Option<BfdState> {
    path.bfd.as_ref().map(|bfd| bfd.state)
}

/// The lines below a peer: its paths, if it has several.
fn paths(peer: &PeerStatus) -> &[PathStatus] {
    if peer.paths.len() > 1 { &peer.paths } else { &[] }
}

/// The cells of such a line.
fn path_cells(path: &PathStatus) -> [Span<'static>; 3] {
    let used = if path.is_active { "active".green() } else { "–".dim() };
    [format!(" {}", path.remote).into(), used, found(path)]
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
    fn a_narrow_terminal_has_fewer_columns() {
        for width in 30..100 {
            let total: u16 = columns(width).map(|column| column.width + 1).sum();
            assert!(total - 1 <= width, "{width}");
        }
        let titles: Vec<_> = columns(40).map(|column| column.title).collect();
        assert_eq!(titles, ["PEER", "STATE", "BFD", "OUT bit/s"]);
    }

    fn path(number: u8, is_active: bool, state: BfdState) -> PathStatus {
        let [local, remote] = [1, 2].map(|host| [192, 0, number, host].into());
        let [diagnostic, remote_diagnostic] = ["none"; 2].map(str::to_owned);
        let bfd =
            model::BfdStatus { state, diagnostic, remote_diagnostic, since: Span::from_secs(1) };
        PathStatus { local, remote, is_active, bfd: Some(bfd), large_segments: None }
    }

    #[test]
    fn a_peer_with_several_paths_has_a_line_for_each() {
        let mut peer = PeerStatus {
            vtep: [192, 0, 2, 2].into(),
            networks: Vec::new(),
            state: PeerState::Up,
            paths: vec![path(2, false, BfdState::Down), path(3, true, BfdState::Up)],
            channel: None,
            session: None,
            ingress: model::LedgerStatus::default(),
            egress: model::LedgerStatus::default(),
            ingress_bytes: 0,
            egress_bytes: 0,
            held_flows: 0,
            refused: std::collections::BTreeMap::new(),
        };
        assert_eq!(bfd(&peer).content, "1/2");
        let lines = paths(&peer)
            .iter()
            .map(|path| path_cells(path).map(|cell| cell.content.trim().to_owned()));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [["192.0.2.2", "–", "down"], ["192.0.3.2", "active", "up"]]
        );
        peer.paths.truncate(1);
        assert_eq!((bfd(&peer).content.as_ref(), paths(&peer).len()), ("down", 0));
    }

    #[test]
    fn a_time_keeps_its_cell() {
        for (us, text) in [(7, "7 µs"), (999, "999 µs"), (1_500, "1 ms"), (2_000_000, "2 s")] {
            assert_eq!(seconds(Span::from_micros(us)), text);
        }
    }
}
