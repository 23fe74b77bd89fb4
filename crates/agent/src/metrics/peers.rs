//! This host's tunnels and the hosts that they lead to. A peer's label is its tunnel address.

use std::fmt;

use model::{
    BfdState, LedgerStatus, Ledgers, PausesStatus, PeerState, PeerStatus, SessionStatus, UplinkStatus,
    WayStatus,
};
use prometheus_client::registry::Unit;
use tunnel::outer::Refusal;

use super::{Labels, Page, reasons};
use crate::pump::REASONS;

/// A count or a figure of a session: its name, what it says, and where it is.
type Figure<T> = (&'static str, &'static str, fn(&SessionStatus) -> T);

const COUNTS: [Figure<u64>; 8] = [
    ("peer_sent_frames", "Frames sent for the first time.", |session| session.sent),
    ("peer_sent_large_frames", "Large segments that were sent whole.", |session| session.sent_large),
    ("peer_resent_frames", "Frames sent again.", |session| session.resent),
    ("peer_lost_packets", "Packets that were found lost.", |session| session.lost),
    ("peer_marked_packets", "Packets that the fabric marked for congestion.", |session| session.marked),
    ("peer_repeated_frames", "Frames that came again.", |session| session.repeated),
    ("peer_turned_away_frames", "Frames that found no memory, and come again.", |session| {
        session.turned_away
    }),
    ("peer_resets", "How often the far end began anew.", |session| session.resets),
];

const GAUGES: [Figure<u64>; 3] = [
    ("peer_in_flight_bytes", "Bytes underway.", |session| session.in_flight_bytes),
    ("peer_window_bytes", "The most bytes that may be underway.", |session| session.window_bytes),
    ("peer_kept_frames", "Frames sent and not known to be taken.", |session| session.kept),
];

pub(super) fn encode(uplink: &UplinkStatus, page: &mut Page<'_>) -> fmt::Result {
    encode_own(uplink, page)?;
    encode_peers(&uplink.peers, page)?;
    encode_sessions(&uplink.peers, page)
}

/// This host's own end.
fn encode_own(uplink: &UplinkStatus, page: &mut Page<'_>) -> fmt::Result {
    let unlabelled = |count| [(vec![], count)];
    let help = "Datagrams from hosts that no network has a member at.";
    page.counter("uplink_stranger_datagrams", help, None, unlabelled(uplink.strangers))?;
    let refused = reasons(vec![], Refusal::ALL.map(Refusal::name), &uplink.refused);
    page.counter("uplink_refused_datagrams", "Datagrams refused, by reason.", None, refused)?;
    let help = "Datagrams that the kernel did not send.";
    page.counter("uplink_unsent_datagrams", help, None, unlabelled(uplink.unsent))?;
    let pauses = |count: fn(&PausesStatus) -> u64| {
        uplink.pauses.iter().map(move |pauses| (vec![("vtep", pauses.vtep.to_string())], count(pauses)))
    };
    let help = "Pauses of the link below that came.";
    page.counter("uplink_received_pauses", help, None, pauses(|pauses| pauses.received))?;
    let help = "Pauses of the link below that were sent.";
    page.counter("uplink_sent_pauses", help, None, pauses(|pauses| pauses.sent))?;
    let help = "Answers that machines had in the stead of others.";
    page.counter("answers", help, None, unlabelled(uplink.answers.given))?;
    let help = "Answers that machines did not have, as they asked too often.";
    page.counter("limited_answers", help, None, unlabelled(uplink.answers.limited))?;
    page.gauge("peers", "Hosts that tunnels lead to.", None, [(vec![], uplink.peers.len() as i64)])
}

fn encode_peers(peers: &[PeerStatus], page: &mut Page<'_>) -> fmt::Result {
    let states = peers.iter().flat_map(|peer| {
        PeerState::ALL.map(|state| (with(peer, "state", state.name()), i64::from(peer.state == state)))
    });
    page.gauge("peer_state", "1 for the state that the peer is in.", None, states)?;
    let up = |way: &WayStatus| way.bfd.as_ref().map(|bfd| bfd.state == BfdState::Up);
    page.gauge("peer_way_up", "1: BFD finds that the way works.", None, ways(peers, up))?;
    let help = "1: frames go by the way; those of a session go by one.";
    page.gauge("peer_way_used", help, None, ways(peers, |way| Some(way.is_used)))?;
    let flows = peers.iter().map(|peer| (name(peer), i64::from(peer.held_flows)));
    page.gauge("peer_held_flows", "Flows that wait for credit.", None, flows)?;
    let bytes = peers.iter().flat_map(|peer| {
        [("ingress", peer.ingress_bytes), ("egress", peer.egress_bytes)]
            .map(|(direction, bytes)| (with(peer, "direction", direction), bytes))
    });
    page.counter("peer", "Bytes that came and went.", Some(Unit::Bytes), bytes)?;
    let counted = |count: fn(&LedgerStatus) -> u64| {
        sides(peers).map(move |(labels, side)| (labels, count(&side.total)))
    };
    let help = "Frames that came from the peer (ingress), or were meant for it (egress).";
    page.counter("peer_accepted_frames", help, None, counted(|ledger| ledger.accepted))?;
    let help = "Frames handed to a receiver.";
    page.counter("peer_delivered_frames", help, None, counted(|ledger| ledger.delivered))?;
    let refused = sides(peers).flat_map(|(labels, side)| {
        reasons(labels, lossless::Reason::ALL.map(lossless::Reason::name), &side.total.refused)
    });
    page.counter("peer_refused_frames", "Frames refused, by reason.", None, refused)?;
    let held =
        sides(peers).map(|(labels, side)| (labels, i64::try_from(side.total.held).unwrap_or(i64::MAX)));
    page.gauge("peer_held_frames", "Frames that wait now.", None, held)?;
    let refused = peers.iter().flat_map(|peer| reasons(name(peer), REASONS, &peer.refused));
    let help = "What came from the peer and was not taken, by reason.";
    page.counter("peer_refused_packets", help, None, refused)
}

fn encode_sessions(peers: &[PeerStatus], page: &mut Page<'_>) -> fmt::Result {
    let sessions = || peers.iter().filter_map(|peer| Some((name(peer), peer.session.as_ref()?)));
    let trips = sessions().filter_map(|(labels, it)| Some((labels, it.round_trip?.as_secs_f64())));
    page.gauge("peer_round_trip", "The smoothed round trip.", Some(Unit::Seconds), trips)?;
    let silent =
        sessions().map(|(labels, it)| (labels, it.silent.map_or(0.0, |silent| silent.as_secs_f64())));
    let help = "For how long a peer that owes an answer has not been heard.";
    page.gauge("peer_silent", help, Some(Unit::Seconds), silent)?;
    let missed = sessions().map(|(labels, it)| (labels, it.missed_bytes));
    let help = "What the peer sent, does not send again, and did not come.";
    page.counter("peer_missed", help, Some(Unit::Bytes), missed)?;
    for (family, help, figure) in COUNTS {
        page.counter(family, help, None, sessions().map(|(labels, it)| (labels, figure(it))))?;
    }
    for (family, help, figure) in GAUGES {
        let figures = sessions().map(|(labels, it)| (labels, i64::try_from(figure(it)).unwrap_or(i64::MAX)));
        page.gauge(family, help, None, figures)?;
    }
    Ok(())
}

/// What there is to say of each way to each peer. A way's label is the peer's address at its end.
fn ways(peers: &[PeerStatus], said: fn(&WayStatus) -> Option<bool>) -> impl Iterator<Item = (Labels, i64)> {
    peers.iter().flat_map(move |peer| {
        let said =
            move |way: &WayStatus| Some((with(peer, "way", &way.remote.to_string()), said(way)?.into()));
        peer.ways.iter().filter_map(said)
    })
}

/// Each direction of each peer.
fn sides(peers: &[PeerStatus]) -> impl Iterator<Item = (Labels, &Ledgers)> {
    peers.iter().flat_map(|peer| {
        [("ingress", &peer.ingress), ("egress", &peer.egress)]
            .map(|(direction, side)| (with(peer, "direction", direction), side))
    })
}

fn name(peer: &PeerStatus) -> Labels {
    vec![("peer", peer.vtep.to_string())]
}

fn with(peer: &PeerStatus, label: &'static str, value: &str) -> Labels {
    vec![("peer", peer.vtep.to_string()), (label, value.to_owned())]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use std::net::IpAddr;

    use model::{AgentStatus, AnswersStatus, BfdStatus, Encapsulation, GateStatus};
    use units::Span;

    use super::*;

    /// A status with a peer that has a session, and one that has none.
    fn uplink() -> UplinkStatus {
        let plain = PeerStatus {
            vtep: [192, 0, 2, 2].into(),
            networks: Vec::new(),
            state: PeerState::Up,
            ways: Vec::new(),
            session: None,
            ingress: Ledgers::default(),
            egress: Ledgers::default(),
            ingress_bytes: 0,
            egress_bytes: 7,
            held_flows: 0,
            refused: BTreeMap::new(),
        };
        let session = SessionStatus {
            is_met: true,
            silent: Some(Span::from_millis(1500)),
            round_trip: Some(Span::from_millis(500)),
            in_flight_bytes: 1,
            window_bytes: 2,
            kept: 3,
            sent: 4,
            sent_large: 12,
            resent: 5,
            lost: 6,
            marked: 7,
            repeated: 8,
            turned_away: 11,
            missed_bytes: 9,
            resets: 10,
        };
        let bfd = BfdStatus {
            state: BfdState::Down,
            diagnostic: "detection_time_expired".into(),
            remote_diagnostic: "none".into(),
            since: Span::from_secs(1),
        };
        let way = |network, bfd| WayStatus {
            local: [192, 0, network, 1].into(),
            remote: [192, 0, network, 3].into(),
            is_used: false,
            bfd,
            large_segments: None,
        };
        let cut = PeerStatus {
            vtep: [192, 0, 2, 3].into(),
            state: PeerState::Down,
            ways: vec![way(2, Some(bfd)), WayStatus { is_used: true, ..way(3, None) }],
            session: Some(session),
            held_flows: 2,
            refused: [("stale".into(), 4)].into(),
            ..plain.clone()
        };
        UplinkStatus {
            vtep: IpAddr::from([192, 0, 2, 1]).into(),
            encapsulation: Encapsulation::Geneve,
            strangers: 1,
            refused: [("runt".into(), 2)].into(),
            unsent: 3,
            last_error: None,
            pauses: vec![PausesStatus { vtep: [192, 0, 2, 1].into(), received: 8, sent: 9 }],
            answers: AnswersStatus { given: 4, limited: 5 },
            peers: vec![plain, cut],
            notes: Vec::new(),
        }
    }

    fn agent() -> AgentStatus {
        AgentStatus {
            version: String::new(),
            uptime_ns: 0,
            busy_ns: 0,
            udp_gate: GateStatus::On,
            ports: Vec::new(),
            uplink: Some(uplink()),
            ledger: LedgerStatus::default(),
            balanced: true,
        }
    }

    #[test]
    fn every_figure_of_the_tunnels_is_on_the_page() {
        let page = crate::metrics::render(agent());
        let cut = "peer=\"192.0.2.3\"";
        for line in [
            "zovn_uplink_stranger_datagrams_total 1",
            "zovn_uplink_refused_datagrams_total{reason=\"runt\"} 2",
            "zovn_uplink_refused_datagrams_total{reason=\"malformed\"} 0",
            "zovn_uplink_unsent_datagrams_total 3",
            "zovn_uplink_received_pauses_total{vtep=\"192.0.2.1\"} 8",
            "zovn_uplink_sent_pauses_total{vtep=\"192.0.2.1\"} 9",
            "zovn_answers_total 4",
            "zovn_limited_answers_total 5",
            "zovn_peers 2",
            "zovn_peer_state{peer=\"192.0.2.2\",state=\"up\"} 1",
            &format!("zovn_peer_state{{{cut},state=\"down\"}} 1"),
            &format!("zovn_peer_way_up{{{cut},way=\"192.0.2.3\"}} 0"),
            &format!("zovn_peer_way_used{{{cut},way=\"192.0.3.3\"}} 1"),
            &format!("zovn_peer_held_flows{{{cut}}} 2"),
            "zovn_peer_bytes_total{peer=\"192.0.2.2\",direction=\"egress\"} 7",
            &format!("zovn_peer_refused_packets_total{{{cut},reason=\"stale\"}} 4"),
            &format!(
                "zovn_peer_refused_frames_total{{{cut},direction=\"egress\",reason=\"stalled_receiver\"}} 0"
            ),
            &format!("zovn_peer_round_trip_seconds{{{cut}}} 0.5"),
            &format!("zovn_peer_silent_seconds{{{cut}}} 1.5"),
            &format!("zovn_peer_window_bytes{{{cut}}} 2"),
            &format!("zovn_peer_sent_large_frames_total{{{cut}}} 12"),
            &format!("zovn_peer_resent_frames_total{{{cut}}} 5"),
            &format!("zovn_peer_missed_bytes_total{{{cut}}} 9"),
            &format!("zovn_peer_turned_away_frames_total{{{cut}}} 11"),
        ] {
            assert!(page.lines().any(|it| it.replace("{}", "") == line), "{line} is not in {page}");
        }
    }
}
