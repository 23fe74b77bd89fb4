//! Metrics of the uplink and of its peers. A peer's label is its (first) tunnel address.

use std::fmt;
use std::net::IpAddr;

use model::{
    BfdState, DownlinkStatus, InterfaceState, LedgerStatus, NetworkShareStatus, PathStatus,
    PauseFramesStatus, PeerState, PeerStatus, PortShareStatus, SessionStatus, ShapingStatus,
    SharingStatus, UplinkStatus,
};
use overlay::REASONS;
use prometheus_client::registry::Unit;
use tunnel::outer::Refusal;
use units::Span;

use super::page::{Labels, Page, reasons};

/// A metric of a session: its name, its help text, its value.
type Figure<T> = (&'static str, &'static str, fn(&SessionStatus) -> T);

const COUNTS: [Figure<u64>; 9] = [
    ("peer_sent_frames", "Frames sent, retransmissions excluded.", |session| session.sent),
    ("peer_sent_large_frames", "Large segments sent whole.", |session| session.sent_large),
    ("peer_retransmitted_frames", "Frames retransmitted.", |session| session.retransmitted),
    ("peer_lost_packets", "Packets sent and found lost.", |session| session.lost),
    ("peer_ecn_marked_packets", "Packets sent that the fabric marked (ECN).", |session| {
        session.ecn_marked
    }),
    ("peer_duplicate_frames", "Frames received more than once.", |session| session.duplicates),
    ("peer_nacked_frames", "Frames received while memory was short.", |session| session.nacked),
    ("peer_resets", "How often the peer began a new incarnation.", |session| session.resets),
    (
        "peer_contradictions",
        "How often a stream of the peer contradicted itself, and the session began anew.",
        |session| session.contradictions,
    ),
];

const GAUGES: [Figure<u64>; 3] = [
    ("peer_in_flight_bytes", "Bytes sent and neither acknowledged nor lost.", |session| {
        session.in_flight_bytes
    }),
    ("peer_congestion_window_bytes", "The congestion window.", |session| {
        session.congestion_window_bytes
    }),
    ("peer_outstanding_frames", "Frames sent and not known to be consumed.", |session| {
        session.outstanding
    }),
];

pub(super) fn encode(uplink: &UplinkStatus, page: &mut Page<'_>) -> fmt::Result {
    encode_own(uplink, page)?;
    encode_peers(&uplink.peers, page)?;
    encode_sessions(&uplink.peers, page)
}

/// This host's own end.
fn encode_own(uplink: &UplinkStatus, page: &mut Page<'_>) -> fmt::Result {
    let label = |vtep: IpAddr| vec![("vtep", vtep.to_string())];
    let up = uplink.interfaces.iter().map(|it| (label(it.vtep), it.state == InterfaceState::Up));
    let help = "1: the interface that has the tunnel address is in operation.";
    page.gauge("uplink_up", help, None, up.map(|(label, is_up)| (label, i64::from(is_up))))?;
    let mtus = uplink.interfaces.iter();
    let mtus = mtus.filter_map(|it| Some((label(it.vtep), i64::from(it.mtu?))));
    page.gauge("uplink_mtu", "That interface's longest packet.", Some(Unit::Bytes), mtus)?;
    let unlabelled = |count| [(vec![], count)];
    let help = "Datagrams from addresses that are no peer's.";
    page.counter("uplink_unknown_peer_datagrams", help, None, unlabelled(uplink.unknown_peers))?;
    let refused = reasons(vec![], Refusal::ALL.map(Refusal::name), &uplink.refused);
    page.counter(
        "uplink_refused_datagrams",
        "Datagrams that are no valid tunnel packets, by reason.",
        None,
        refused,
    )?;
    let help = "Datagrams that the kernel failed to send.";
    page.counter("uplink_send_errors", help, None, unlabelled(uplink.send_errors))?;
    let pauses = |count: fn(&PauseFramesStatus) -> u64| {
        uplink.pause_frames.iter().map(move |pauses| (label(pauses.vtep), count(pauses)))
    };
    let help = "Pause frames received from the link.";
    page.counter("uplink_received_pause_frames", help, None, pauses(|pauses| pauses.received))?;
    let help = "Pause frames sent to the link.";
    page.counter("uplink_sent_pause_frames", help, None, pauses(|pauses| pauses.sent))?;
    let shaping = |value: fn(&ShapingStatus) -> u64| {
        uplink.shaping.iter().map(move |shaping| (label(shaping.vtep), value(shaping)))
    };
    let rates = shaping(|shaping| shaping.rate.bits_per_sec());
    let help = "The rate that the link is given at most, in bits a second, if it is declared.";
    page.gauge("uplink_rate", help, None, rates.map(|(label, rate)| (label, rate as i64)))?;
    let help = "Sent by a link whose rate is declared, with check sequence, preamble and gap.";
    let sent = shaping(|shaping| shaping.sent_bytes);
    page.counter("uplink_sent", help, Some(Unit::Bytes), sent)?;
    if let Some(sharing) = &uplink.sharing {
        encode_sharing(sharing, page)?;
    }
    if !uplink.downlinks.is_empty() {
        encode_downlinks(&uplink.downlinks, page)?;
    }
    let help = "ARP, ND and path MTU replies that the switch gave.";
    page.counter("responder_replies", help, None, unlabelled(uplink.responder.replies))?;
    let help = "Replies that the rate limit suppressed.";
    page.counter("responder_rate_limited", help, None, unlabelled(uplink.responder.rate_limited))?;
    let help = "1: packets between hosts are sealed by a key. 0: whoever is in the underlay can forge them.";
    page.gauge("uplink_protected", help, None, [(vec![], i64::from(uplink.protection.is_some()))])?;
    page.gauge("peers", "Peers.", None, [(vec![], uplink.peers.len() as i64)])
}

fn network(share: &NetworkShareStatus) -> Labels {
    vec![("network", share.network.to_string())]
}

/// What networks are promised of the uplink, and have had.
fn encode_sharing(sharing: &SharingStatus, page: &mut Page<'_>) -> fmt::Result {
    let help = "What is promised to all networks together, in bits a second.";
    let promised = [(vec![], i64::try_from(sharing.promised_bits).unwrap_or(i64::MAX))];
    page.gauge("uplink_promised_rate", help, None, promised)?;
    let help = "How long guarantees did not hold: the link sent less than they add up to.";
    let short = [(vec![], sharing.short.as_secs_f64())];
    page.counter("uplink_short", help, Some(Unit::Seconds), short)?;
    let networks = |value: fn(&NetworkShareStatus) -> u64| {
        let networks = sharing.networks.iter();
        networks.map(move |it| (network(it), value(it)))
    };
    let help = "Sent of a network, with what is put around frames; without what is sent again.";
    let sent = networks(|it| it.sent_bytes);
    page.counter("uplink_network_sent", help, Some(Unit::Bytes), sent)?;
    let help = "The part of that which was sent within the network's guarantee.";
    let guaranteed = networks(|it| it.guaranteed_bytes);
    page.counter("uplink_network_guaranteed", help, Some(Unit::Bytes), guaranteed)?;
    let help = "Sent again of a network, with what is put around frames.";
    let resent = networks(|it| it.resent_bytes);
    page.counter("uplink_network_resent", help, Some(Unit::Bytes), resent)?;
    let ports = |value: fn(&PortShareStatus) -> u64| {
        let ports = sharing.networks.iter().flat_map(|network| &network.ports);
        ports.map(move |it| (vec![("port", it.port.to_string())], value(it)))
    };
    let help = "Sent of a port's sender, where a port of its network has a share.";
    let sent = ports(|it| it.sent_bytes);
    page.counter("uplink_port_sent", help, Some(Unit::Bytes), sent)?;
    let help = "The part of that which was sent within the port's guarantee.";
    let guaranteed = ports(|it| it.guaranteed_bytes);
    page.counter("uplink_port_guaranteed", help, Some(Unit::Bytes), guaranteed)?;
    let times = |value: fn(&NetworkShareStatus) -> Span| {
        let networks = sharing.networks.iter();
        networks.map(move |it| (network(it), value(it).as_secs_f64()))
    };
    let help = "Time that a network had frames that the link could have sent.";
    let backlogged = times(|it| it.backlogged);
    page.counter("uplink_network_backlogged", help, Some(Unit::Seconds), backlogged)?;
    let help = "The part of that in which the link sent other networks' frames.";
    page.counter("uplink_network_waited", help, Some(Unit::Seconds), times(|it| it.waited))?;
    let help = "Credit that far hosts were granted for a network, with what is put around frames.";
    let granted = networks(|it| it.granted_bytes);
    page.counter("downlink_network_granted", help, Some(Unit::Bytes), granted)?;
    let help = "The part of that which was granted within the network's guarantee.";
    let guaranteed = networks(|it| it.granted_guaranteed_bytes);
    page.counter("downlink_network_guaranteed", help, Some(Unit::Bytes), guaranteed)
}

/// How what arrives is shared.
fn encode_downlinks(downlinks: &[DownlinkStatus], page: &mut Page<'_>) -> fmt::Result {
    let each = |value: fn(&DownlinkStatus) -> i64| {
        downlinks.iter().map(move |it| (vec![("vtep", it.vtep.to_string())], value(it)))
    };
    let help = "1: so much arrives, or so many send, that credit is granted in turn.";
    let contended = each(|it| i64::from(it.is_contended));
    page.gauge("downlink_contended", help, None, contended)?;
    let counts = downlinks.iter().map(|it| (vec![("vtep", it.vtep.to_string())], it.contentions));
    page.counter("downlink_contentions", "How often that began.", None, counts)?;
    let help = "Credit that was granted and is likely to be used soon.";
    let outstanding = each(|it| i64::try_from(it.outstanding_bytes).unwrap_or(i64::MAX));
    page.gauge("downlink_outstanding", help, Some(Unit::Bytes), outstanding)?;
    let help = "Streams that use their credit, or wait for more.";
    page.gauge("downlink_active_streams", help, None, each(|it| it.active_streams.into()))?;
    let help = "Streams with credit that they do not use.";
    page.gauge("downlink_resting_streams", help, None, each(|it| it.resting_streams.into()))
}

fn encode_peers(peers: &[PeerStatus], page: &mut Page<'_>) -> fmt::Result {
    let states = peers.iter().flat_map(|peer| {
        PeerState::ALL
            .map(|state| (with(peer, "state", state.name()), i64::from(peer.state == state)))
    });
    page.gauge("peer_state", "1 for the state that the peer is in.", None, states)?;
    let up = |path: &PathStatus| path.bfd.as_ref().map(|bfd| bfd.state == BfdState::Up);
    page.gauge("peer_path_up", "1: the path's BFD session is up.", None, paths(peers, up))?;
    let help = "1: frames are sent on this path. A session uses one path at a time.";
    page.gauge("peer_path_active", help, None, paths(peers, |path| Some(path.is_active)))?;
    let channels = || peers.iter().filter_map(|peer| Some((name(peer), peer.channel.as_ref()?)));
    let open = channels().map(|(labels, channel)| (labels, i64::from(channel.is_open)));
    page.gauge("peer_channel_open", "1: there are keys to seal packets by.", None, open)?;
    let handshakes = channels().map(|(labels, channel)| (labels, channel.handshakes));
    let help = "Handshakes that gave keys.";
    page.counter("peer_channel_handshakes", help, None, handshakes)?;
    let flows = peers.iter().map(|peer| (name(peer), i64::from(peer.held_flows)));
    page.gauge("peer_held_flows", "Flows that wait for credit.", None, flows)?;
    let bytes = peers.iter().flat_map(|peer| {
        [("ingress", peer.ingress_bytes), ("egress", peer.egress_bytes)]
            .map(|(direction, bytes)| (with(peer, "direction", direction), bytes))
    });
    page.counter("peer", "Bytes received (ingress) and sent (egress).", Some(Unit::Bytes), bytes)?;
    let counted = |count: fn(&LedgerStatus) -> u64| {
        sides(peers).map(move |(labels, side)| (labels, count(side)))
    };
    let help = "Frames accepted from the peer (ingress), or for it (egress).";
    page.counter("peer_accepted_frames", help, None, counted(|ledger| ledger.accepted))?;
    let help = "Frames delivered to their receiver.";
    page.counter("peer_delivered_frames", help, None, counted(|ledger| ledger.delivered))?;
    let refused = sides(peers).flat_map(|(labels, side)| {
        reasons(labels, lossless::Reason::ALL.map(lossless::Reason::name), &side.refused)
    });
    page.counter("peer_refused_frames", "Frames refused, by reason.", None, refused)?;
    let held =
        sides(peers).map(|(labels, side)| (labels, i64::try_from(side.held).unwrap_or(i64::MAX)));
    page.gauge("peer_held_frames", "Frames held now.", None, held)?;
    let refused = peers.iter().flat_map(|peer| reasons(name(peer), REASONS, &peer.refused));
    let help = "Packets from the peer that were not accepted, by reason.";
    page.counter("peer_refused_packets", help, None, refused)
}

fn encode_sessions(peers: &[PeerStatus], page: &mut Page<'_>) -> fmt::Result {
    let sessions = || peers.iter().filter_map(|peer| Some((name(peer), peer.session.as_ref()?)));
    let trips = sessions().filter_map(|(labels, it)| Some((labels, it.rtt?.as_secs_f64())));
    page.gauge("peer_rtt", "The smoothed round-trip time.", Some(Unit::Seconds), trips)?;
    let silent = sessions()
        .map(|(labels, it)| (labels, it.unresponsive.map_or(0.0, |silent| silent.as_secs_f64())));
    let help = "Time since the peer was heard, while it owes an answer.";
    page.gauge("peer_unresponsive", help, Some(Unit::Seconds), silent)?;
    let missed = sessions().map(|(labels, it)| (labels, it.unrecovered_bytes));
    let help = "Bytes that never arrived and are not retransmitted.";
    page.counter("peer_unrecovered", help, Some(Unit::Bytes), missed)?;
    for (family, help, figure) in COUNTS {
        page.counter(family, help, None, sessions().map(|(labels, it)| (labels, figure(it))))?;
    }
    for (family, help, figure) in GAUGES {
        let figures =
            sessions().map(|(labels, it)| (labels, i64::try_from(figure(it)).unwrap_or(i64::MAX)));
        page.gauge(family, help, None, figures)?;
    }
    Ok(())
}

/// A value for each path to each peer. A path's label is the peer's address.
fn paths(
    peers: &[PeerStatus],
    said: fn(&PathStatus) -> Option<bool>,
) -> impl Iterator<Item = (Labels, i64)> {
    peers.iter().flat_map(move |peer| {
        let said = move |path: &PathStatus| {
            Some((with(peer, "path", &path.remote.to_string()), said(path)?.into()))
        };
        peer.paths.iter().filter_map(said)
    })
}

/// Each direction of each peer.
fn sides(peers: &[PeerStatus]) -> impl Iterator<Item = (Labels, &LedgerStatus)> {
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
pub(super) mod tests {
    use std::collections::BTreeMap;

    use model::{
        AgentStatus, BfdStatus, Encapsulation, GateStatus, InterfaceStatus, ResponderStatus,
    };
    use units::Span;

    use super::*;

    /// A status with a peer that has a session, and one that has none.
    fn uplink() -> UplinkStatus {
        let plain = PeerStatus {
            vtep: [192, 0, 2, 2].into(),
            networks: Vec::new(),
            state: PeerState::Up,
            paths: Vec::new(),
            channel: None,
            session: None,
            ingress: LedgerStatus::default(),
            egress: LedgerStatus::default(),
            ingress_bytes: 0,
            egress_bytes: 7,
            held_flows: 0,
            refused: BTreeMap::new(),
        };
        let session = SessionStatus {
            is_established: true,
            unresponsive: Some(Span::from_millis(1500)),
            rtt: Some(Span::from_millis(500)),
            in_flight_bytes: 1,
            congestion_window_bytes: 2,
            outstanding: 3,
            sent: 4,
            sent_large: 12,
            retransmitted: 5,
            lost: 6,
            ecn_marked: 7,
            duplicates: 8,
            nacked: 11,
            unrecovered_bytes: 9,
            resets: 10,
            contradictions: 11,
        };
        let bfd = BfdStatus {
            state: BfdState::Down,
            diagnostic: "detection_time_expired".into(),
            remote_diagnostic: "none".into(),
            since: Span::from_secs(1),
        };
        let path = |network, bfd| PathStatus {
            local: [192, 0, network, 1].into(),
            remote: [192, 0, network, 3].into(),
            is_active: false,
            bfd,
            large_segments: None,
        };
        let cut = PeerStatus {
            vtep: [192, 0, 2, 3].into(),
            state: PeerState::Down,
            paths: vec![path(2, Some(bfd)), PathStatus { is_active: true, ..path(3, None) }],
            session: Some(session),
            held_flows: 2,
            refused: [("stale_incarnation".into(), 4)].into(),
            ..plain.clone()
        };
        UplinkStatus {
            vtep: IpAddr::from([192, 0, 2, 1]).into(),
            interfaces: vec![InterfaceStatus {
                vtep: [192, 0, 2, 1].into(),
                interface: Some("eth0".into()),
                state: InterfaceState::NoCarrier,
                mtu: Some(1600),
                speed: None,
            }],
            encapsulation: Encapsulation::Geneve,
            protection: None,
            unknown_peers: 1,
            refused: [("runt".into(), 2)].into(),
            send_errors: 3,
            last_send_error: None,
            pause_frames: vec![PauseFramesStatus {
                vtep: [192, 0, 2, 1].into(),
                received: 8,
                sent: 9,
            }],
            shaping: vec![ShapingStatus {
                vtep: [192, 0, 2, 1].into(),
                rate: units::Rate::from_gbit(10),
                sent_bytes: 10,
            }],
            sharing: Some(SharingStatus {
                promised_bits: 11,
                promised_wait: units::Span::from_micros(12),
                short: units::Span::from_millis(1500),
                networks: vec![NetworkShareStatus {
                    network: model::NetworkName("blue".into()),
                    min: None,
                    max: None,
                    weight: 1,
                    sent_bytes: 14,
                    guaranteed_bytes: 13,
                    resent_bytes: 15,
                    backlogged: units::Span::from_millis(2500),
                    waited: units::Span::from_millis(250),
                    granted_bytes: 16,
                    granted_guaranteed_bytes: 15,
                    ports: vec![PortShareStatus {
                        port: model::PortName("web".into()),
                        min: None,
                        max: None,
                        weight: 1,
                        sent_bytes: 12,
                        guaranteed_bytes: 11,
                    }],
                }],
            }),
            downlinks: vec![DownlinkStatus {
                vtep: [192, 0, 2, 1].into(),
                is_contended: true,
                contentions: 17,
                outstanding_bytes: 18,
                active_streams: 19,
                resting_streams: 20,
                round_trip: units::Span::from_micros(250),
            }],
            responder: ResponderStatus { replies: 4, rate_limited: 5 },
            ingress: model::Ledgers::default(),
            egress: model::Ledgers::default(),
            peers: vec![plain, cut],
            notes: Vec::new(),
        }
    }

    pub(in crate::metrics) fn agent() -> AgentStatus {
        AgentStatus {
            version: String::new(),
            uptime_ns: 0,
            busy_ns: 0,
            turns: 0,
            empty_turns: 0,
            thread: model::ThreadStatus::default(),
            udp_gate: GateStatus::On,
            ports: Vec::new(),
            networks: Vec::new(),
            logical: Some(model::LogicalStatus {
                generation: model::Generation(3),
                answers: 1,
                limited_answers: 2,
                connections: 3,
                most_connections: 4,
                known_frames: 5,
                decided_frames: 6,
                flows: 7,
                returned_frames: 7,
                suppressed_lines: 7,
                checks: 8,
                failed_checks: 9,
                backends: vec![model::BackendStatus {
                    balancer: "LoadBalancer/shop/web".into(),
                    address: IpAddr::from([10, 0, 1, 1]),
                    port: 80,
                    state: model::BackendState::Up,
                    here: true,
                }],
                neighbours: vec![model::NeighbourStatus {
                    port: "RouterPort/shop/edge-wan".into(),
                    address: IpAddr::from([192, 0, 2, 254]),
                    mac: None,
                    state: model::NeighbourState::Silent,
                    held: 0,
                }],
                rules: vec![model::RuleTotals {
                    tenant: Some("shop".into()),
                    admitted: model::FrameCount { frames: 3, bytes: 180 },
                    refused: model::FrameCount { frames: 1, bytes: 60 },
                }],
                refused_guarantees: 2,
                silence_seconds: Some(8),
            }),
            uplink: Some(uplink()),
            ledger: LedgerStatus::default(),
            balanced: true,
        }
    }

    #[test]
    fn every_figure_of_the_tunnels_is_on_the_page() {
        let page = crate::metrics::render(agent(), crate::metrics::Format::OpenMetrics);
        let cut = "peer=\"192.0.2.3\"";
        for line in [
            "zovn_uplink_up{vtep=\"192.0.2.1\"} 0",
            "zovn_uplink_mtu_bytes{vtep=\"192.0.2.1\"} 1600",
            "zovn_uplink_unknown_peer_datagrams_total 1",
            "zovn_uplink_refused_datagrams_total{reason=\"runt\"} 2",
            "zovn_uplink_refused_datagrams_total{reason=\"malformed\"} 0",
            "zovn_uplink_send_errors_total 3",
            "zovn_uplink_received_pause_frames_total{vtep=\"192.0.2.1\"} 8",
            "zovn_uplink_sent_pause_frames_total{vtep=\"192.0.2.1\"} 9",
            "zovn_uplink_rate{vtep=\"192.0.2.1\"} 10000000000",
            "zovn_uplink_sent_bytes_total{vtep=\"192.0.2.1\"} 10",
            "zovn_uplink_promised_rate 11",
            "zovn_uplink_short_seconds_total 1.5",
            "zovn_uplink_network_sent_bytes_total{network=\"blue\"} 14",
            "zovn_uplink_network_guaranteed_bytes_total{network=\"blue\"} 13",
            "zovn_uplink_network_resent_bytes_total{network=\"blue\"} 15",
            "zovn_uplink_network_backlogged_seconds_total{network=\"blue\"} 2.5",
            "zovn_uplink_network_waited_seconds_total{network=\"blue\"} 0.25",
            "zovn_responder_replies_total 4",
            "zovn_responder_rate_limited_total 5",
            "zovn_peers 2",
            "zovn_peer_state{peer=\"192.0.2.2\",state=\"up\"} 1",
            &format!("zovn_peer_state{{{cut},state=\"down\"}} 1"),
            &format!("zovn_peer_path_up{{{cut},path=\"192.0.2.3\"}} 0"),
            &format!("zovn_peer_path_active{{{cut},path=\"192.0.3.3\"}} 1"),
            &format!("zovn_peer_held_flows{{{cut}}} 2"),
            "zovn_peer_bytes_total{peer=\"192.0.2.2\",direction=\"egress\"} 7",
            &format!("zovn_peer_refused_packets_total{{{cut},reason=\"stale_incarnation\"}} 4"),
            &format!(
                "zovn_peer_refused_frames_total{{{cut},direction=\"egress\",reason=\"stalled_receiver\"}} 0"
            ),
            &format!("zovn_peer_rtt_seconds{{{cut}}} 0.5"),
            &format!("zovn_peer_unresponsive_seconds{{{cut}}} 1.5"),
            &format!("zovn_peer_congestion_window_bytes{{{cut}}} 2"),
            &format!("zovn_peer_sent_large_frames_total{{{cut}}} 12"),
            &format!("zovn_peer_retransmitted_frames_total{{{cut}}} 5"),
            &format!("zovn_peer_unrecovered_bytes_total{{{cut}}} 9"),
            &format!("zovn_peer_nacked_frames_total{{{cut}}} 11"),
        ] {
            assert!(page.lines().any(|it| it.replace("{}", "") == line), "{line} is not in {page}");
        }
    }
}
