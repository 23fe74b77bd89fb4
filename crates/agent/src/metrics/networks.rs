//! The figures of virtual networks: what each has done on this host.

use std::fmt;

use lossless::Reason;
use model::{LedgerStatus, NetworkStatus};
use prometheus_client::registry::Unit;

use super::page::{Labels, Page, reasons};

/// Writes what networks have done. Only those are there that have or had a port here, so that the
/// number of labels is bounded by what the host has.
pub fn encode(networks: &[NetworkStatus], page: &mut Page<'_>) -> fmt::Result {
    let ports = networks.iter().map(|it| (name(it), i64::from(it.ports)));
    page.gauge("network_ports", "Attached ports of a network.", None, ports)?;
    let bytes = networks.iter().flat_map(|it| {
        [("ingress", it.ingress_bytes), ("egress", it.egress_bytes)]
            .map(|(direction, bytes)| (directed(it, direction), bytes))
    });
    let help = "Bytes received from a network's machines here (ingress), and delivered to them.";
    page.counter("network", help, Some(Unit::Bytes), bytes)?;
    let counted = |count: fn(&LedgerStatus) -> u64| {
        sides(networks).map(move |(labels, ledger)| (labels, count(ledger)))
    };
    let help = "Frames accepted from a network's machines here (ingress), or for them (egress).";
    page.counter("network_accepted_frames", help, None, counted(|it| it.accepted))?;
    let help = "Frames of a network delivered to their receiver.";
    page.counter("network_delivered_frames", help, None, counted(|it| it.delivered))?;
    let refused = sides(networks)
        .flat_map(|(labels, it)| reasons(labels, Reason::ALL.map(Reason::name), &it.refused));
    page.counter(
        "network_refused_frames",
        "Frames of a network refused, by reason.",
        None,
        refused,
    )?;
    let held =
        sides(networks).map(|(labels, it)| (labels, i64::try_from(it.held).unwrap_or(i64::MAX)));
    page.gauge("network_held_frames", "Frames of a network held now.", None, held)?;
    let memory =
        networks.iter().map(|it| (name(it), i64::try_from(it.memory_bytes).unwrap_or(i64::MAX)));
    let help = "Memory that a network's frames from other hosts take up.";
    page.gauge("network_memory", help, Some(Unit::Bytes), memory)?;
    let paused = networks.iter().map(|it| (name(it), it.paused.as_secs_f64()));
    let help = "Time that a network's senders were paused, added up.";
    page.counter("network_senders_paused", help, Some(Unit::Seconds), paused)?;
    encode_thread(networks, page)
}

/// What they have had of the switch's thread.
fn encode_thread(networks: &[NetworkStatus], page: &mut Page<'_>) -> fmt::Result {
    let uses = || networks.iter().map(|it| (name(it), &it.thread));
    let used = uses().map(|(labels, it)| (labels, it.used_ns as f64 / 1e9));
    let help = "Time of the switch's thread that a network has had.";
    page.counter("network_thread", help, Some(Unit::Seconds), used)?;
    let frames = uses().map(|(labels, it)| (labels, it.frames));
    let help = "Frames of a network's machines that were delivered, or that came from other hosts.";
    page.counter("network_thread_frames", help, None, frames)?;
    let promised = uses().filter_map(|(labels, it)| Some((labels, i64::from(it.min_packets?))));
    let help = "Frames a second that a network is promised.";
    page.gauge("network_min_packets", help, None, promised)?;
    let longest = uses().map(|(labels, it)| (labels, it.longest_visit_us as f64 / 1e6));
    let help = "The longest visit to a network's ports in the last 10 to 20 s.";
    page.gauge("network_longest_visit", help, Some(Unit::Seconds), longest)
}

/// Each direction of each network.
fn sides(networks: &[NetworkStatus]) -> impl Iterator<Item = (Labels, &LedgerStatus)> {
    networks.iter().flat_map(|it| {
        [("ingress", &it.ingress), ("egress", &it.egress)]
            .map(|(direction, ledger)| (directed(it, direction), ledger))
    })
}

fn name(network: &NetworkStatus) -> Labels {
    vec![("network", network.name.to_string())]
}

fn directed(network: &NetworkStatus, direction: &str) -> Labels {
    vec![("network", network.name.to_string()), ("direction", direction.to_owned())]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::{AgentStatus, NetworkName, ThreadUse};
    use units::Span;

    use crate::metrics::{Format, peers, render};

    use super::*;

    #[test]
    fn every_figure_of_a_network_is_on_the_page() {
        let ledger = |accepted| LedgerStatus {
            accepted,
            delivered: 2,
            refused: BTreeMap::from([("full".into(), 1)]),
            held: accepted - 3,
        };
        let networks = vec![NetworkStatus {
            name: NetworkName("blue".into()),
            ports: 9,
            ingress: ledger(4),
            egress: ledger(5),
            ingress_bytes: 6,
            egress_bytes: 7,
            paused: Span::from_millis(1500),
            memory_bytes: 8,
            thread: ThreadUse {
                min_packets: Some(50_000),
                used_ns: 3_000_000_000,
                used_ns_per_second: 4,
                frames: 5,
                frames_per_second: 6,
                longest_visit_us: 7,
            },
        }];
        let page = render(AgentStatus { networks, ..peers::tests::agent() }, Format::OpenMetrics);
        for line in [
            "zovn_network_ports{network=\"blue\"} 9",
            "zovn_network_bytes_total{network=\"blue\",direction=\"egress\"} 7",
            "zovn_network_accepted_frames_total{network=\"blue\",direction=\"ingress\"} 4",
            "zovn_network_delivered_frames_total{network=\"blue\",direction=\"egress\"} 2",
            "zovn_network_refused_frames_total{network=\"blue\",direction=\"egress\",reason=\"full\"} 1",
            "zovn_network_held_frames{network=\"blue\",direction=\"egress\"} 2",
            "zovn_network_memory_bytes{network=\"blue\"} 8",
            "zovn_network_senders_paused_seconds_total{network=\"blue\"} 1.5",
            "zovn_network_thread_seconds_total{network=\"blue\"} 3.0",
            "zovn_network_thread_frames_total{network=\"blue\"} 5",
            "zovn_network_min_packets{network=\"blue\"} 50000",
            "zovn_network_longest_visit_seconds{network=\"blue\"} 0.000007",
        ] {
            assert!(page.contains(&format!("{line}\n")), "{line} is not in {page}");
        }
    }
}
