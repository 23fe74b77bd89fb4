//! What a port has to itself on its host.

use alloc::collections::BTreeMap;
use core::cmp::Ordering;
use core::net::IpAddr;

use units::Mac;

use crate::{Attachment, InvalidConfig, LogicalPortName, NetworkName, PortSpec};

/// Something that only one port may have.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Claim<'a> {
    Name(&'a str),
    /// A virtual machine's socket.
    Socket(Path<'a>),
    /// A container's interface.
    Interface {
        netns: Path<'a>,
        interface: &'a str,
    },
    /// An interface that the host has.
    HostInterface {
        interface: &'a str,
        /// All of it, or a VLAN.
        vlan: Option<u16>,
    },
    Label(u32),
    Logical(&'a LogicalPortName),
    /// In a network, or outside of all.
    Mac {
        network: Option<&'a NetworkName>,
        mac: Mac,
        vlan: u16,
    },
    /// In a network, or outside of all in a VLAN.
    Address {
        network: Option<&'a NetworkName>,
        vlan: u16,
        address: IpAddr,
    },
}

/// What ports have to themselves, so that many can stand beside each other in linear time.
#[derive(Debug, Default)]
pub struct Claims<'a>(BTreeMap<Claim<'a>, &'a PortSpec>);

impl<'a> Claims<'a> {
    /// Whether a port can stand beside those that have claimed something.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`] blames this one.
    pub fn check(&self, port: &PortSpec) -> Result<(), InvalidConfig> {
        let taken = |claim: Claim<'_>| Some(claim.refusal(port, self.holder(claim)?));
        Claim::of(port).find_map(taken).map_or(Ok(()), Err)
    }

    fn holder(&self, claim: Claim<'_>) -> Option<&'a PortSpec> {
        let Claim::HostInterface { interface, .. } = claim else {
            return self.0.get(&claim).copied();
        };
        let of_it = |vlan| Claim::HostInterface { interface, vlan };
        let mut all = self.0.range(of_it(None)..=of_it(Some(u16::MAX)));
        all.find(|(other, _)| other.meets(&claim)).map(|(_, holder)| *holder)
    }

    /// Has a port claim what is its own.
    pub fn insert(&mut self, port: &'a PortSpec) {
        self.0.extend(Claim::of(port).map(|claim| (claim, port)));
    }
}

impl<'a> Claim<'a> {
    /// Whether two ports cannot have both.
    fn meets(&self, other: &Claim<'_>) -> bool {
        match (self, other) {
            (
                Self::HostInterface { interface: one, vlan },
                Claim::HostInterface { interface: other, vlan: others },
            ) => one == other && (vlan == others || vlan.is_none() || others.is_none()),
            _ => self == other,
        }
    }

    /// Everything that a port has to itself.
    pub fn of(port: &'a PortSpec) -> impl Iterator<Item = Self> {
        let network = port.network.as_ref();
        let place = match &port.attach {
            Attachment::Container { netns, interface, .. } => {
                Self::Interface { netns: Path::of_namespace(netns), interface }
            }
            Attachment::VhostUser { socket, .. } => Self::Socket(Path::new(socket)),
            Attachment::Interface { interface, vlan, .. } => {
                Self::HostInterface { interface, vlan: *vlan }
            }
        };
        // A logical network's addresses are its own matter.
        let is_here = port.logical.is_none();
        let macs = port.addresses().filter(move |_| is_here).map(move |(mac, vlan)| Self::Mac {
            network,
            mac,
            vlan,
        });
        let addresses = port.attach.addresses().iter().filter(move |_| is_here);
        let vlan = port.untagged_vlan();
        let address = move |address| Self::Address { network, vlan, address };
        [Self::Name(&port.name.0), place]
            .into_iter()
            .chain(port.label.map(Self::Label))
            .chain(port.logical.as_ref().map(Self::Logical))
            .chain(macs)
            .chain(addresses.map(move |prefix| address(prefix.address)))
    }

    /// Why a port cannot have it beside an earlier one that has it.
    pub fn refusal(self, port: &PortSpec, earlier: &PortSpec) -> InvalidConfig {
        let (port_name, owner) = (port.name.clone(), earlier.name.clone());
        match (self, &port.attach) {
            (Self::Name(_), _) => InvalidConfig::DuplicatePort(port_name),
            (Self::Socket(_), Attachment::VhostUser { socket, .. }) => {
                InvalidConfig::DuplicateSocket { port: port_name, socket: socket.clone(), owner }
            }
            (Self::Interface { interface, .. }, Attachment::Container { netns, .. }) => {
                InvalidConfig::DuplicateInterface {
                    port: port_name,
                    netns: netns.clone(),
                    interface: interface.into(),
                    owner,
                }
            }
            (Self::Socket(_) | Self::Interface { .. }, _) => unreachable!("its port has another"),
            (Self::HostInterface { interface, .. }, _) => InvalidConfig::DuplicateHostInterface {
                port: port_name,
                interface: interface.into(),
                owner,
            },
            (Self::Label(label), _) => {
                InvalidConfig::DuplicateLabel { port: port_name, label, owner }
            }
            (Self::Logical(logical), _) => {
                let logical = logical.clone();
                InvalidConfig::DuplicateLogical { port: port_name, logical: logical.into(), owner }
            }
            (Self::Mac { mac, .. }, _) => {
                InvalidConfig::DuplicateMac { port: port_name, mac, owner }
            }
            (Self::Address { address, .. }, _) => {
                InvalidConfig::DuplicateAddress { port: port_name, address, owner }
            }
        }
    }
}

impl PortSpec {
    /// Whether the declaration can stand beside an earlier one: a name, an interface, a socket, a
    /// label and a logical port are one port's on the whole host, Ethernet addresses in its
    /// network, and IP addresses in its network or VLAN.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`] blames this one.
    pub fn check_beside(&self, earlier: &Self) -> Result<(), InvalidConfig> {
        match Claim::of(self).find(|claim| Claim::of(earlier).any(|other| other.meets(claim))) {
            Some(claim) => Err(claim.refusal(self, earlier)),
            None => Ok(()),
        }
    }
}

/// A path, compared by the names that it consists of: `/run//x` and `/run/./x` are one.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    /// Where the path begins, if that is not the root.
    folder: &'a str,
    path: &'a str,
}

impl<'a> Path<'a> {
    pub const fn new(path: &'a str) -> Self {
        Self { folder: "", path }
    }

    /// The path of a network namespace, which may be given by its name under /run/netns.
    pub fn of_namespace(name_or_path: &'a str) -> Self {
        let folder = if name_or_path.starts_with('/') { "" } else { "run/netns" };
        // On every Linux system /var/run leads to /run (FHS 3.0 §5.13).
        let path = match name_or_path.strip_prefix("/var") {
            Some(rest) if rest.starts_with("/run/") => rest,
            _ => name_or_path,
        };
        Self { folder, path }
    }

    fn names(self) -> impl Iterator<Item = &'a str> {
        let names = self.folder.split('/').chain(self.path.split('/'));
        names.filter(|name| !matches!(*name, "" | "."))
    }
}

impl Ord for Path<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.names().cmp(other.names())
    }
}

impl PartialOrd for Path<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Path<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Path<'_> {}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::{PortName, VlanMembership};

    /// A container at an address, in some VLANs.
    fn container(number: u32, vlan: Option<VlanMembership>) -> PortSpec {
        let attach = Attachment::Container {
            netns: format!("c{number}"),
            interface: "eth0".into(),
            mac: None,
            addresses: vec!["10.0.0.1/24".parse().unwrap()],
            routes: Vec::new(),
            mtu: None,
            offload: true,
        };
        PortSpec { vlan, ..PortSpec::new(PortName(number.to_string()), attach) }
    }

    #[test]
    fn an_ip_address_is_one_ports_in_its_vlan() {
        let access = |vlan| Some(VlanMembership { access: Some(vlan), ..Default::default() });
        let native = |vlan| Some(VlanMembership { native: Some(vlan), ..Default::default() });
        let both = |one, other| {
            let (one, other) = (container(1, one), container(2, other));
            let mut claims = Claims::default();
            claims.insert(&one);
            let checked = claims.check(&other);
            assert_eq!(other.check_beside(&one), checked);
            checked
        };
        for (one, other) in
            [(access(7), access(8)), (access(7), None), (native(7), access(8)), (None, native(9))]
        {
            assert_eq!(both(one, other), Ok(()), "VLANs never meet");
        }
        for (one, other) in [(access(7), access(7)), (native(7), access(7)), (None, None)] {
            let refused = both(one, other).unwrap_err();
            assert!(matches!(refused, InvalidConfig::DuplicateAddress { .. }), "{refused}");
        }
    }

    #[test]
    fn ports_share_an_interface_of_the_host_by_vlans() {
        let port = |number: u32, interface: &str, vlan| {
            let attach = Attachment::Interface { interface: interface.into(), vlan, mtu: None };
            PortSpec::new(PortName(number.to_string()), attach)
        };
        let share = |one: (&str, Option<u16>), other: (&str, Option<u16>)| {
            let (one, other) = (port(1, one.0, one.1), port(2, other.0, other.1));
            let mut claims = Claims::default();
            claims.insert(&one);
            let checked = claims.check(&other);
            assert_eq!(other.check_beside(&one), checked);
            checked.is_ok()
        };
        assert!(share(("eth1", Some(7)), ("eth1", Some(8))));
        assert!(share(("eth1", Some(0)), ("eth1", Some(7))));
        assert!(share(("eth1", None), ("eth2", None)));
        for (one, other) in [(None, None), (None, Some(7)), (Some(0), None), (Some(7), Some(7))] {
            assert!(!share(("eth1", one), ("eth1", other)), "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_namespace_is_the_same_by_its_name_and_by_its_paths() {
        let web = Path::of_namespace("web");
        for same in ["/run/netns/web", "/var/run/netns/web", "/run/./netns//web"] {
            assert_eq!(Path::of_namespace(same), web, "{same}");
        }
        for other in ["store", "/web", "/proc/1/ns/net", "/variable/run/netns/web"] {
            assert_ne!(Path::of_namespace(other), web, "{other}");
        }
    }
}
