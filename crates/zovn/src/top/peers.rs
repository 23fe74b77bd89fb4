//! The hosts that tunnels lead to, as a table below that of ports.

use model::{BfdState, PathStatus, PeerState, PeerStatus, SessionStatus};
use ratatui::style::Stylize;
use ratatui::text::Span;
use ratatui::widgets::{Row, Table};

use super::cells::{figure, si};
use super::columns::{self, Column};
use super::pace::{Pace, PeerRates};

const COLUMNS: [Column<PeerStatus, PeerRates>; 10] = [
    Column::left("PEER", 15, 0, |peer, _| vec![peer.vtep.to_string().bold()]),
    Column::left("STATE", 9, 0, |peer, _| vec![state(peer.state)]),
    Column::left("BFD", 4, 0, |peer, _| vec![bfd(peer)]),
    Column::right("IN bit/s", 8, 6, |_, rates| figure(rates.in_bits)),
    Column::right("OUT bit/s", 9, 7, |_, rates| figure(rates.out_bits)),
    Column::right("RTT", 6, 4, |peer, _| {
        vec![session(peer).and_then(|it| it.rtt).map_or("–".dim(), |rtt| seconds(rtt).into())]
    }),
    Column::right("CWND", 6, 2, |peer, _| {
        session(peer).map_or(nothing(), |it| figure(it.congestion_window_bytes as f64))
    }),
    Column::right("RETX", 6, 3, |peer, rates| match session(peer) {
        None => nothing(),
        Some(it) if rates.retransmitted > 0.0 => vec![si(it.retransmitted as f64).yellow()],
        Some(it) => figure(it.retransmitted as f64),
    }),
    Column::right("CREDIT", 6, 1, |peer, _| figure(peer.held_flows.into())),
    Column::right("HELD", 5, 5, |peer, _| figure(peer.egress.held as f64)),
];

/// How wide the table is.
pub const WIDTH: u16 = columns::width(&COLUMNS);

/// How many lines the table takes, with an empty one above it.
pub fn height(pace: &Pace) -> usize {
    match pace.peers().map(|(peer, _)| 1 + paths(peer).len()).sum() {
        0 => 0,
        lines => lines + 2,
    }
}

/// The table as wide as this, without the empty line and so many of the first peers.
pub fn table(pace: &Pace, scroll: usize, width: u16) -> Table<'_> {
    let shown = columns::fitting(&COLUMNS, width);
    let peers = pace.peers();
    let scroll = scroll.min(peers.len().saturating_sub(1));
    let rows = peers.skip(scroll).flat_map(|(peer, rates)| {
        // A path's cells are those of the first columns, which stay.
        let path = |path| {
            let cells = COLUMNS.iter().zip(path_cells(path));
            Row::new(cells.map(|(column, span)| column.cell(vec![span])))
        };
        let own = columns::row(&shown, peer, &rates);
        std::iter::once(own).chain(paths(peer).iter().map(path))
    });
    columns::table(&shown, rows)
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
        columns::tests::assert_fits(&COLUMNS, 40, &["PEER", "STATE", "BFD", "OUT bit/s"]);
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
