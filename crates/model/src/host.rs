//! A host's declaration: its agent's settings and the ports it starts with.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use units::{Class, Mac, Prefix, Span};

use crate::claim::Claims;
use crate::name::is_socket;
use crate::network::check_networks;
use crate::{
    ClassKind, InvalidConfig, LogicalSettings, NetworkName, NetworkSpec, PortSpec, Uplink, VtepList,
};

/// Where an agent listens unless it is told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/zovn/agent.sock";

/// The most ports that a host may have. If it has an uplink, that is one of them.
pub const MOST_PORTS: usize = 1024;

/// `host.toml`: everything that `zovn agent` is told at its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a host's declaration")]
pub struct HostConfig {
    /// The agent itself.
    pub agent: AgentSettings,
    /// The end of its tunnels, if ports are to be in virtual networks that others have ports in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Uplink>,
    /// What it has for logical networks.
    #[serde(skip_serializing_if = "LogicalSettings::is_default")]
    pub logical: LogicalSettings,
    /// The virtual networks that there are at the start.
    #[serde(rename = "network", skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkSpec>,
    /// The ports that are attached at the start.
    #[serde(rename = "port")]
    pub ports: Vec<PortSpec>,
}

/// How the agent runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "the agent's settings, as `[agent]` and a line for each"
)]
pub struct AgentSettings {
    /// Where the local API listens.
    pub socket: String,
    /// Where metrics can be read over TCP, by whoever reaches that address; nowhere if absent.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::address::read_place"
    )]
    pub metrics: Option<SocketAddr>,
    /// When the switch's thread polls and when it sleeps.
    pub polling: Polling,
    /// How long an adaptive thread goes on polling after its last work.
    pub spin: Span,
    /// How long what is held at the end may take to reach its receivers.
    pub drain: Span,
    /// What each of the eight classes promises, class 0 first.
    pub classes: [ClassKind; 8],
    /// The class of each 802.1p priority of a tagged frame, priority 0 first (802.1Q §6.9.4).
    pub priorities: [Class; 8],
    /// How long a receiver may take nothing while frames wait for it before it is declared stalled.
    pub stall_after: Span,
    /// How long a UDP socket may take nothing while frames wait for it before what is for it is
    /// refused.
    pub socket_stall_after: Span,
    /// How long a learned address is kept after its last frame (802.1Q §8.8.3).
    pub mac_age: Span,
    /// What becomes of a port whose container was deleted.
    pub deleted: Deleted,
    /// Flood spanning tree's frames as those of any group, so that bridges in containers and
    /// machines find loops; they never cross the switch if not (802.1Q §8.6.3).
    pub forward_bpdus: bool,
    /// Hold a UDP flow while its last socket is full, where the kernel lets us see that.
    pub udp_gate: bool,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            socket: DEFAULT_SOCKET.into(),
            metrics: None,
            polling: Polling::Adaptive,
            spin: Span::from_micros(10),
            drain: Span::from_secs(5),
            classes: [ClassKind::Lossless; 8],
            priorities: core::array::from_fn(|priority| Class::from_low_bits(priority as u8)),
            stall_after: Span::from_secs(10),
            socket_stall_after: Span::from_secs(1),
            mac_age: Span::from_secs(300),
            deleted: Deleted::Keep,
            forward_bpdus: false,
            udp_gate: true,
        }
    }
}

/// What becomes of a port whose container was deleted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deleted {
    /// It is down, and attached again when a container of that name is back.
    #[default]
    Keep,
    /// It is detached.
    Detach,
}

impl AgentSettings {
    /// Whether the settings can stand.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig::Agent`] says what is wrong and what to write instead.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        if !is_socket(&self.socket) {
            return Err(InvalidConfig::Agent("`socket` is no absolute path of at most 107 bytes"));
        }
        if self.stall_after == Span::ZERO {
            return Err(InvalidConfig::Agent(
                "every receiver would be stalled at once: raise `stall_after` above 0",
            ));
        }
        if self.socket_stall_after == Span::ZERO {
            return Err(InvalidConfig::Agent(
                "every socket that is full would be stalled at once: raise `socket_stall_after` above 0",
            ));
        }
        Ok(())
    }
}

/// When the switch's thread polls and when it sleeps.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Polling {
    /// Spin while there is work and a little longer; sleep on events when there is none.
    #[default]
    Adaptive,
    /// Never sleep: for a core that the switch has to itself.
    Always,
}

impl HostConfig {
    /// Whether the declaration can stand as a whole.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`] says what cannot, and of ports the first.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        self.agent.check()?;
        self.logical.check()?;
        if let Some(uplink) = &self.uplink {
            uplink.check()?;
        } else if !self.networks.is_empty() {
            return Err(InvalidConfig::NoUplink);
        }
        let vtep = self.vtep();
        check_networks(&self.networks, vtep)?;
        let most = MOST_PORTS - usize::from(self.uplink.is_some());
        if let Some(port) = self.ports.get(most) {
            return Err(InvalidConfig::TooManyPorts { port: port.name.clone(), most });
        }
        let members = Members::new(&self.networks, &self.ports, vtep);
        let mut claims = Claims::default();
        for port in &self.ports {
            port.check()?;
            members.check(port, vtep)?;
            claims.check(port)?;
            claims.insert(port);
        }
        Ok(())
    }

    /// The host's own addresses in the underlay, if it has any.
    pub fn vtep(&self) -> Option<&VtepList> {
        self.uplink.as_ref().map(|uplink| &uplink.vtep)
    }
}

/// The members of the networks that ports are in, so that each port's is found at once.
struct Members<'a> {
    networks: BTreeMap<&'a NetworkName, &'a NetworkSpec>,
    /// Those on this host.
    here: BTreeSet<(&'a NetworkName, Mac, u32)>,
    owners: BTreeMap<(&'a NetworkName, IpAddr), Mac>,
}

impl<'a> Members<'a> {
    fn new(networks: &'a [NetworkSpec], ports: &[PortSpec], vtep: Option<&VtepList>) -> Self {
        let used: BTreeSet<_> = ports.iter().filter_map(|port| port.network.as_ref()).collect();
        let used = networks.iter().filter(|network| used.contains(&network.name));
        let mut members =
            Self { networks: BTreeMap::new(), here: BTreeSet::new(), owners: BTreeMap::new() };
        for network in used {
            let name = &network.name;
            members.networks.insert(name, network);
            for member in &network.members {
                if Some(&member.vtep) == vtep {
                    members.here.insert((name, member.mac, member.label));
                }
                let owners = member.addresses.iter().map(|address| ((name, *address), member.mac));
                members.owners.extend(owners);
            }
        }
        members
    }

    /// [`PortSpec::check_within`], without a look at each member if all is well.
    fn check(&self, port: &PortSpec, vtep: Option<&VtepList>) -> Result<(), InvalidConfig> {
        let (Some(name), Some(label), Some(mac)) = (&port.network, port.label, port.mac()) else {
            return port.check_within(self.network(port), vtep);
        };
        let is_own = |prefix: &Prefix| {
            self.owners.get(&(name, prefix.address)).is_none_or(|owner| *owner == mac)
        };
        if let Some(network) = self.network(port) {
            port.check_class(network.share.classes)?;
        }
        if self.here.contains(&(name, mac, label)) && port.attach.addresses().iter().all(is_own) {
            return Ok(());
        }
        port.check_within(self.network(port), vtep)
    }

    fn network(&self, port: &PortSpec) -> Option<&'a NetworkSpec> {
        self.networks.get(port.network.as_ref()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attachment, Member, PortName, SocketMode};
    use alloc::string::ToString;
    use alloc::vec;
    use units::ClassSet;

    const VTEP: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

    fn vtep(text: &str) -> VtepList {
        text.parse::<IpAddr>().unwrap().into()
    }

    /// A host with one machine, which is in a network.
    fn host(mac: Option<Mac>) -> HostConfig {
        let socket = "/run/vm.sock".into();
        let attach =
            Attachment::VhostUser { socket, mode: SocketMode::Connect, mac, queues: 1, mtu: None };
        let name = NetworkName("blue".into());
        let port = PortSpec::new(PortName("vm".into()), attach);
        let member =
            Member { mac: Mac::local(1), addresses: Vec::new(), vtep: VTEP.into(), label: 7 };
        HostConfig {
            uplink: Some(Uplink::new(VTEP)),
            networks: vec![NetworkSpec::new(name.clone(), 1, vec![member])],
            ports: vec![PortSpec { network: Some(name), label: Some(7), ..port }],
            ..HostConfig::default()
        }
    }

    fn complaint(change: impl FnOnce(&mut HostConfig)) -> InvalidConfig {
        let mut host = host(Some(Mac::local(1)));
        change(&mut host);
        host.check().unwrap_err()
    }

    #[test]
    fn a_port_is_of_a_class_that_its_network_may_use() {
        let share = |host: &mut HostConfig, bits| {
            host.networks[0].share.classes = Some(ClassSet::from_bits(bits));
        };
        assert_eq!(
            complaint(|host| share(host, 0b1000)).to_string(),
            "port `vm`: `class` 0 is not among `share.classes` of network `blue`: give the port one of those, or the network \
             that class"
        );
        let mut host = host(None);
        share(&mut host, 0b1001);
        assert_eq!(host.check(), Ok(()));
    }

    #[test]
    fn a_port_is_the_member_that_it_says_or_may_become_it() {
        assert_eq!(host(Some(Mac::local(1))).check(), Ok(()));
        assert_eq!(host(None).check(), Ok(()), "its address is learned");
        let error = host(Some(Mac::local(2))).check().unwrap_err().to_string();
        assert_eq!(
            error,
            "port `vm`: network `blue` has no member 02:00:00:00:00:02 with `label` 7 at 192.0.2.1: declare one, or give the \
             port a member's `mac` and `label`"
        );
        for change in [
            |host: &mut HostConfig| host.ports[0].label = Some(8),
            |host: &mut HostConfig| host.networks[0].members[0].vtep = vtep("192.0.2.2"),
        ] {
            assert!(matches!(complaint(change), InvalidConfig::NoMember { .. }));
        }
    }

    #[test]
    fn a_socket_has_an_absolute_path() {
        for wrong in ["", "agent.sock", "@zovn", "\0zovn", &["/", &"x".repeat(107)].concat()] {
            let error = complaint(|host| host.agent.socket = wrong.into());
            assert!(matches!(error, InvalidConfig::Agent(what) if what.contains("`socket`")));
        }
    }

    #[test]
    fn a_network_is_declared_with_a_label_and_an_uplink() {
        for change in [
            |host: &mut HostConfig| host.ports[0].label = None,
            |host: &mut HostConfig| host.ports[0].network = None,
            |host: &mut HostConfig| host.ports[0].label = Some(0),
        ] {
            assert!(matches!(complaint(change), InvalidConfig::Port { .. }));
        }
        assert_eq!(complaint(|host| host.uplink = None), InvalidConfig::NoUplink);
        assert!(matches!(
            complaint(|host| host.networks.clear()),
            InvalidConfig::UnknownNetwork { .. }
        ));
        assert!(matches!(complaint(|host| host.networks[0].vni = 0), InvalidConfig::Network(_)));
        assert!(matches!(
            complaint(|host| host.uplink.as_mut().unwrap().vtep = vtep("2001:db8::1")),
            InvalidConfig::Network(_)
        ));
    }

    /// Has a second machine, with the first one's Ethernet address, in another network.
    fn add_twin(host: &mut HostConfig) {
        let mut port = host.ports[0].clone();
        port.name.0.push('2');
        if let Attachment::VhostUser { socket, .. } = &mut port.attach {
            socket.push('2');
        }
        (port.network, port.label) = (Some(NetworkName("red".into())), Some(8));
        let mut red = host.networks[0].clone();
        (red.name, red.vni, red.members[0].label) = (NetworkName("red".into()), 2, 8);
        host.networks.push(red);
        host.ports.push(port);
    }

    #[test]
    fn of_two_ports_with_one_label_the_later_is_blamed() {
        let error = complaint(|host| {
            add_twin(host);
            host.networks.pop();
            host.ports[1].network = host.ports[0].network.clone();
            host.ports[1].label = Some(7);
        });
        assert_eq!(
            error.to_string(),
            "port `vm2`: `label` 7 is port `vm`'s already: each port has its own"
        );
    }

    /// A container's port with these addresses, whose interface is `eth0`.
    fn container(name: &str, addresses: &[&str]) -> PortSpec {
        let attach = Attachment::Container {
            netns: name.into(),
            interface: "eth0".into(),
            mac: None,
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            routes: Vec::new(),
            mtu: None,
            offload: true,
        };
        PortSpec::new(PortName(name.into()), attach)
    }

    #[test]
    fn an_ip_address_is_one_ports_in_its_network() {
        let ports = vec![container("a", &["10.0.0.1/24"]), container("b", &["10.0.0.1/8"])];
        let host = HostConfig { ports, ..HostConfig::default() };
        assert_eq!(
            host.check().unwrap_err().to_string(),
            "port `b`: address 10.0.0.1 is port `a`'s already: keep it for one of them"
        );
    }

    #[test]
    fn an_ip_address_is_not_another_members() {
        let mut host = host(Some(Mac::local(1)));
        let port = container("web", &["10.0.0.1/24"]);
        let network = host.ports[0].network.clone();
        host.networks[0].members[0].addresses.push("10.0.0.1".parse().unwrap());
        host.networks[0].members.push(Member {
            mac: port.mac().unwrap(),
            addresses: vec!["10.0.0.2".parse().unwrap()],
            vtep: VTEP.into(),
            label: 8,
        });
        host.ports.push(PortSpec { network, label: Some(8), ..port });
        assert_eq!(
            host.check().unwrap_err().to_string(),
            "port `web`: address 10.0.0.1 is that of member 02:00:00:00:00:01 of network `blue`: give the port its own"
        );
        host.networks[0].members[0].addresses.clear();
        assert_eq!(host.check(), Ok(()));
    }

    #[test]
    fn an_interface_is_one_ports_however_its_namespace_is_named() {
        let ports = vec![container("a", &[]), container("b", &[])];
        let mut host = HostConfig { ports, ..HostConfig::default() };
        if let Attachment::Container { netns, .. } = &mut host.ports[1].attach {
            *netns = "/run/netns/a".into();
        }
        assert_eq!(
            host.check().unwrap_err().to_string(),
            "port `b`: interface eth0 in /run/netns/a is port `a`'s already: each port has its own"
        );
    }

    #[test]
    fn more_ports_than_a_switch_has_are_refused_at_once() {
        let ports = (0..40_000).map(|number| container(&number.to_string(), &[])).collect();
        let mut host = HostConfig { ports, ..HostConfig::default() };
        assert_eq!(
            host.check().unwrap_err().to_string(),
            "port `1024` is one too many: this host may have 1024"
        );
        host.ports.truncate(MOST_PORTS);
        assert_eq!(host.check(), Ok(()));
        host.uplink = Some(Uplink::new(VTEP));
        assert!(matches!(host.check(), Err(InvalidConfig::TooManyPorts { most: 1023, .. })));
    }

    #[test]
    fn an_ethernet_address_is_one_ports_in_its_network_alone() {
        let mut host = host(Some(Mac::local(1)));
        add_twin(&mut host);
        assert_eq!(host.check(), Ok(()));
        host.ports[1].network = host.ports[0].network.clone();
        let error = host.ports[1].check_beside(&host.ports[0]).unwrap_err().to_string();
        assert!(error.contains("02:00:00:00:00:01 is port `vm`'s already"), "{error}");
    }
}
