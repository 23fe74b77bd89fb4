//! What a lab has counted, at each place where a frame can be lost.
//!
//! ```text
//!  sender                                switch                                receiver
//!  socket ──▶ vNIC, its queue ──▶ port in ──▶ ··· ──▶ port's queue, port out ──▶ vNIC ──▶ socket
//!   (1)          (2)                (3)                     (4)                  (5)       (6)
//!  protocols    device, queue      device   handled        queue, device        device   protocols
//! ```
//!
//! The six places are those of figure 1 of the zOVN paper. Counters are read one after the other:
//! they add up only while nothing moves.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use api::Client;
use kernel::netlink::{Handle, LinkCounters, Netlink};
use kernel::netns::Namespace;
use model::{AgentStatus, PortStatus};
use serde::Serialize;

use crate::endpoint::INTERFACE;
use crate::hosts::UPLINK;
use crate::lab::Lab;
use crate::physical::FabricReport;
use crate::site::open;
use crate::{LabError, PhysicalKind, PhysicalSpec, SwitchKind, agent, hosts, ovs};

/// Everything that a lab counts, at about one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Inside each endpoint, by name.
    pub endpoints: BTreeMap<String, EndpointCounters>,
    /// At the switch's port towards each endpoint, by the endpoint's name.
    pub ports: BTreeMap<String, PortCounters>,
    /// Frames that the switch itself took from its ports, where it counts them (not on the kernel's
    /// bridge). What its ports received and it did not was lost between the two.
    pub handled: Option<u64>,
    /// What agents say, where the switch is one: one for all endpoints, or one on each host.
    pub agents: Vec<AgentStatus>,
    /// What the physical switch says, where there are several hosts. What it dropped may have been
    /// sent again.
    pub fabric: Option<FabricReport>,
    /// The links to the bridge that is the physical switch, by the host's name, where it is one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, HostLink>,
    /// Both ends of the cable, where there is one between two hosts, in the hosts' order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cable: Vec<DeviceCounters>,
}

/// One endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointCounters {
    /// Its interface, as it sees it: `tx` is what it sent.
    pub device: DeviceCounters,
    /// The queue in front of its interface.
    pub queue: QueueCounters,
    /// Its kernel's protocols, by the names of /proc/net: `Udp.RcvbufErrors`, `Tcp.RetransSegs`,
    /// `TcpExt.TCPTimeouts`, `Udp6RcvbufErrors`.
    pub protocols: BTreeMap<String, u64>,
}

/// One port of the switch.
///
/// On the kernel's bridge and on Open vSwitch, its device and its queue. Open vSwitch on several
/// hosts has the endpoint's own device as its port, seen from the other side. On zovn, the agent's
/// ledger: `rx` is what was accepted, `tx` what was delivered, and `queue.dropped` what was
/// refused, on its way to this port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PortCounters {
    /// The port's device, as the switch sees it: `rx` is what came in, `tx` what went out.
    pub device: DeviceCounters,
    /// The queue towards the endpoint.
    pub queue: QueueCounters,
}

/// A host's link to the bridge that is the physical switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostLink {
    /// The host's own queue, of what it sends.
    pub host: QueueCounters,
    /// The bridge's port: `rx` is what the host sent, and the queue is towards the host.
    pub port: PortCounters,
}

/// A network device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceCounters {
    /// Packets that came in.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets dropped on their way in.
    pub rx_dropped: u64,
    /// Packets that went out.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets that the device itself dropped on their way out.
    pub tx_dropped: u64,
}

/// A queue in front of a device. All zero where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounters {
    /// Bytes that passed.
    pub bytes: u64,
    /// Packets that found it full.
    pub dropped: u64,
    /// Packets that wait now.
    pub waiting: u64,
}

impl Lab {
    /// Reads every counter of the lab.
    ///
    /// # Errors
    ///
    /// [`LabError`] if a namespace is gone or the switch does not answer.
    pub fn counters(&self) -> Result<Counters, LabError> {
        let mut counters = Counters::default();
        for endpoint in self.endpoints() {
            let namespace = open(&endpoint.netns)?;
            counters.endpoints.insert(endpoint.name.clone(), inside(&namespace)?);
        }
        match self.spec().switch {
            SwitchKind::Bridge | SwitchKind::Ovs => {
                let is_ovs = self.spec().switch == SwitchKind::Ovs;
                for endpoint in self.endpoints() {
                    let port = if is_ovs && endpoint.host.is_some() {
                        counters.endpoints[&endpoint.name].device.other_side()
                    } else {
                        let mut netlink = Netlink::open_in(&self.switch_of(endpoint)?)?;
                        let (device, queue) = device(&mut netlink, &endpoint.name)?;
                        PortCounters { device, queue }
                    };
                    counters.ports.insert(endpoint.name.clone(), port);
                }
                if is_ovs {
                    let received =
                        self.switches().into_iter().map(|directory| ovs::received(&directory));
                    counters.handled = Some(received.sum::<Result<_, _>>()?);
                }
            }
            SwitchKind::OvsDpdk | SwitchKind::Testpmd => {
                unreachable!("no spec of a lab resolves to one")
            }
            SwitchKind::ZovnLossy | SwitchKind::Zovn => {
                let sockets =
                    self.switches().into_iter().map(|directory| agent::socket(&directory));
                let statuses = sockets.map(|socket| Ok(Client::new(socket)?.status()?));
                counters.agents = statuses.collect::<Result<_, LabError>>()?;
                // An agent may have a port to the other host as well.
                let is_endpoint = |port: &&PortStatus| self.endpoint(&port.name.0).is_ok();
                let ports =
                    || counters.agents.iter().flat_map(|status| &status.ports).filter(is_endpoint);
                counters.ports = ports().map(|port| (port.name.0.clone(), port.into())).collect();
                counters.handled = Some(ports().map(|port| port.ingress.total.accepted).sum());
            }
        }
        match self.spec().hosts.as_ref().map(|hosts| &hosts.physical) {
            None => {}
            Some(PhysicalSpec { cable: Some(_), .. }) => {
                let end =
                    |host| Ok(Netlink::open_in(&self.host(host)?)?.link(UPLINK)?.counters.into());
                counters.cable = [0, 1].into_iter().map(end).collect::<Result<_, LabError>>()?;
            }
            Some(PhysicalSpec { switch: PhysicalKind::Fabric, .. }) => {
                counters.fabric =
                    Some(FabricReport::ask(&hosts::fabric_socket(&self.directory()))?);
            }
            Some(PhysicalSpec { switch: PhysicalKind::Bridge, .. }) => {
                counters.links = self.links()?
            }
        }
        Ok(counters)
    }

    /// Reads the hosts' links to the bridge between them.
    fn links(&self) -> Result<BTreeMap<String, HostLink>, LabError> {
        let mut bridge = Netlink::open_in(&self.physical()?)?;
        let hosts = 0..self.spec().hosts.as_ref().map_or(0, |hosts| hosts.count);
        let link = |host| {
            let name = hosts::host_name(host);
            let (_, sending) = device(&mut Netlink::open_in(&self.host(host)?)?, INTERFACE)?;
            let (device, queue) = device(&mut bridge, &name)?;
            Ok((name, HostLink { host: sending, port: PortCounters { device, queue } }))
        };
        hosts.map(link).collect()
    }
}

impl Counters {
    /// How many frames the physical network has dropped, as far as it has switches. They may have
    /// been sent again.
    pub fn dropped_between_hosts(&self) -> Option<u64> {
        let by_link = |HostLink { host, port }: &HostLink| {
            host.dropped + port.queue.dropped + port.device.tx_dropped
        };
        let by_bridge = (!self.links.is_empty()).then(|| self.links.values().map(by_link).sum());
        self.fabric.as_ref().map(FabricReport::dropped).or(by_bridge)
    }
}

impl EndpointCounters {
    /// One of the protocols' counters; 0 if this kernel does not keep it.
    pub fn protocol(&self, name: &str) -> u64 {
        self.protocols.get(name).copied().unwrap_or(0)
    }

    /// One of UDP's counters over both IP versions: `udp("RcvbufErrors")`.
    pub fn udp(&self, name: &str) -> u64 {
        self.protocol(&format!("Udp.{name}")) + self.protocol(&format!("Udp6{name}"))
    }
}

impl DeviceCounters {
    /// The device as whoever holds its file sees it. What it dropped is counted on this side.
    fn other_side(self) -> PortCounters {
        let Self { rx_packets, rx_bytes, tx_packets, tx_bytes, .. } = self;
        let device = Self {
            rx_packets: tx_packets,
            rx_bytes: tx_bytes,
            tx_packets: rx_packets,
            tx_bytes: rx_bytes,
            ..Self::default()
        };
        PortCounters { device, ..PortCounters::default() }
    }
}

impl From<LinkCounters> for DeviceCounters {
    fn from(counters: LinkCounters) -> Self {
        Self {
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            rx_dropped: counters.rx_dropped,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            tx_dropped: counters.tx_dropped,
        }
    }
}

impl From<&PortStatus> for PortCounters {
    fn from(port: &PortStatus) -> Self {
        let (ingress, egress) = (&port.ingress.total, &port.egress.total);
        Self {
            device: DeviceCounters {
                rx_packets: ingress.accepted,
                rx_bytes: port.ingress_bytes,
                tx_packets: egress.delivered,
                tx_bytes: port.egress_bytes,
                ..Default::default()
            },
            queue: QueueCounters {
                bytes: port.egress_bytes,
                dropped: egress.refused_total(),
                waiting: egress.held,
            },
        }
    }
}

fn inside(namespace: &Namespace) -> Result<EndpointCounters, LabError> {
    let (device, queue) = device(&mut Netlink::open_in(namespace)?, INTERFACE)?;
    let read = || {
        // /proc/net is the process's; only thread-self is the thread's that entered.
        ["snmp", "netstat", "snmp6"].map(|file| {
            let path = Path::new("/proc/thread-self/net").join(file);
            fs::read_to_string(&path).map_err(LabError::file(&path))
        })
    };
    let [snmp, netstat, snmp6] = namespace.run(read)?;
    let mut protocols = tables(&snmp?);
    protocols.extend(tables(&netstat?));
    // A kernel without IPv6 has no such file.
    protocols.extend(lines(&snmp6.unwrap_or_default()));
    Ok(EndpointCounters { device, queue, protocols })
}

fn device(netlink: &mut Netlink, name: &str) -> Result<(DeviceCounters, QueueCounters), LabError> {
    let link = netlink.link(name)?;
    // A queue's parent counts what its child dropped as well.
    let root = netlink.qdiscs(link.index)?.into_iter().find(|qdisc| qdisc.parent == Handle::ROOT);
    let queue = root.map_or_else(QueueCounters::default, |qdisc| QueueCounters {
        bytes: qdisc.bytes,
        dropped: qdisc.drops.into(),
        waiting: qdisc.queued_packets.into(),
    });
    Ok((link.counters.into(), queue))
}

/// Pairs of lines: `Udp: InDatagrams NoPorts`, `Udp: 7 0`.
fn tables(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<_> = text.lines().collect();
    let mut counters = BTreeMap::new();
    for pair in lines.chunks_exact(2) {
        let mut columns = pair[0].split_ascii_whitespace().zip(pair[1].split_ascii_whitespace());
        let Some((table, _)) = columns.next() else { continue };
        let table = table.trim_end_matches(':');
        // Settings stand among the counters; one of them is negative.
        let counted = columns
            .filter_map(|(name, value)| Some((format!("{table}.{name}"), value.parse().ok()?)));
        counters.extend(counted);
    }
    counters
}

/// One counter a line: `Udp6InDatagrams   7`.
fn lines(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let snmp = "Tcp: MaxConn ActiveOpens\nTcp: -1 3\nUdp: InDatagrams RcvbufErrors\nUdp: 7 2\n";
        let mut counters = EndpointCounters { protocols: tables(snmp), ..Default::default() };
        counters.protocols.extend(lines("Udp6InDatagrams  \t5\nIcmp6OutType133 1\n"));
        assert_eq!(counters.protocol("Tcp.ActiveOpens"), 3);
        assert_eq!(counters.udp("InDatagrams"), 12);
        assert_eq!(counters.udp("RcvbufErrors"), 2);
        assert_eq!(counters.protocol("Tcp.MaxConn"), 0);
    }
}
