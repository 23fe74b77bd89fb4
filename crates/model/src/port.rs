//! One port's declaration.

mod attachment;
mod change;
mod settings;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use units::{Class, ClassSet, Mac, Prefix, Rate, hash};

pub use self::attachment::{Attachment, RouteSpec, SocketMode};
use self::attachment::{IPV6_MTU, MTUS};
pub use self::change::{ClassChange, LimitsChange, NoRate, PortChange, RateChange};
pub use self::settings::{
    ClassKind, Limits, PinnedAddress, PortShare, Scheduling, StormLimits, VlanMembership,
};
use crate::address::is_host;
use crate::name::{is_interface, is_socket, is_word};
use crate::{InvalidConfig, LABELS, LogicalPortName, NetworkName, NetworkSpec, PortName, VtepList};

/// What a port is attached to and what it may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a port, as `[[port]]` and a line for each of its settings"
)]
pub struct PortSpec {
    /// The port's name, one of its own on this host.
    pub name: PortName,
    /// Where its frames come from and go to.
    pub attach: Attachment,
    /// The egress's rate; as fast as the receiver takes frames if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "1gbit"))]
    pub rate: Option<Rate>,
    /// The rate at which frames are taken from its sender, which waits meanwhile; as fast as there
    /// is room for them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "1gbit"))]
    pub send_rate: Option<Rate>,
    /// How much may wait for this port's receiver, in each class.
    #[serde(default = "Limits::egress")]
    pub egress: Limits,
    /// How much of this port's sender may be held in the switch, in each class. A container's port
    /// has memory for so many frames in all, and for 64 large segments, and can be changed to no
    /// more.
    #[serde(default = "Limits::ingress")]
    pub ingress: Limits,
    /// The class of frames that carry no 802.1Q tag; its logical port's, or 0 if it is none or that
    /// has none, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u8>, maximum = 7))]
    pub class: Option<Class>,
    /// How many of its sender's frames may wait for one receiver in one class before the sender is
    /// held back; as many as `ingress` allows if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub quota: Option<u32>,
    /// How the egress chooses among its classes.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// Ethernet addresses that are behind this port for good, besides its own: they neither age nor
    /// move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<PinnedAddress>,
    /// How many of its sender's frames are flooded.
    #[serde(default)]
    pub storm: StormLimits,
    /// What its sender may have of the uplink, within its network's share.
    #[serde(default, skip_serializing_if = "PortShare::is_default")]
    pub share: PortShare,
    /// The VLANs that it is in, if it is in no network; all, as its frames' tags say, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanMembership>,
    /// Refuse what its sender says from, or of, an address that is declared to be another's. In a
    /// network, those are all addresses of its members; elsewhere, the Ethernet addresses of ports
    /// (`mac`, `pinned`) alone, and IP addresses are not compared. Yes in a network, and no
    /// elsewhere, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub antispoof: Option<bool>,
    /// The virtual network that it is in, with a `label`; it is in none, and reaches this host's
    /// ports alone, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkName>,
    /// The number by which other hosts mean this port: what the network's member behind it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 2_147_483_647))]
    pub label: Option<u32>,
    /// The port of a logical network that it is, as `shop/web-1`: that network decides about its
    /// frames. It is none, and its `network` or its VLAN decides, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "shop/web-1"))]
    pub logical: Option<LogicalPortName>,
}

impl PortSpec {
    /// What stays as long as a port is attached. Frames that are held were taken and are delivered
    /// by it: they would turn up in another VLAN or network, or be somebody else's.
    pub const FIXED: [&str; 8] =
        ["name", "attach", "pinned", "vlan", "antispoof", "network", "label", "logical"];

    /// A port of which nothing else is said.
    pub fn new(name: PortName, attach: Attachment) -> Self {
        Self {
            name,
            attach,
            rate: None,
            send_rate: None,
            egress: Limits::egress(),
            ingress: Limits::ingress(),
            class: None,
            quota: None,
            scheduling: Scheduling::Strict,
            pinned: Vec::new(),
            storm: StormLimits::default(),
            share: PortShare::default(),
            vlan: None,
            antispoof: None,
            network: None,
            label: None,
            logical: None,
        }
    }

    /// Whether the declaration can stand by itself.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig::Port`] says what is wrong and what to write instead.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let wrong = |what| Err(InvalidConfig::Port { port: self.name.clone(), what });
        if !is_word(&self.name.0, 63) {
            return wrong("a name is 1 to 63 visible ASCII characters without `/`");
        }
        if self.egress.frames == 0 || self.ingress.frames == 0 {
            return wrong("a queue holds at least one frame: raise `frames` above 0");
        }
        if self.egress.bytes.0 == 0 || self.ingress.bytes.0 == 0 {
            return wrong("a queue holds at least a byte: raise `bytes` above 0, or leave it out");
        }
        if self.quota == Some(0) {
            return wrong("a quota is of at least one frame: raise `quota` above 0");
        }
        if self.quota.is_some_and(|quota| quota > self.ingress.frames) {
            return wrong(
                "`quota` is above the `frames` of `ingress`, which hold the sender back before: lower it, or leave it out",
            );
        }
        let is_wrong = |pinned: &PinnedAddress| !is_machine(pinned.mac) || pinned.vlan > 4094;
        if self.pinned.iter().any(is_wrong) {
            return wrong("`pinned` has a group address, a zero one, or a VLAN above 4094");
        }
        let mut own = BTreeSet::new();
        if !self.addresses().all(|address| own.insert(address)) {
            return wrong("`pinned` has an address twice, or the port's own `mac`");
        }
        if matches!(self.scheduling, Scheduling::Weighted(weights) if weights == [0; 8]) {
            return wrong("no class has a weight: raise one of `weighted` above 0");
        }
        if let Some(fault) = self.vlan.as_ref().and_then(VlanMembership::fault) {
            return wrong(fault);
        }
        if self.vlan.is_some() && self.network.is_some() {
            return wrong(
                "`vlan` is for ports in no network: a network is one VLAN on all its hosts; declare a network for each \
                 VLAN",
            );
        }
        let is_elsewhere = self.network.is_some()
            || self.label.is_some()
            || self.vlan.is_some()
            || !self.pinned.is_empty()
            || self.antispoof.is_some();
        if self.logical.is_some() && is_elsewhere {
            return wrong(
                "`logical` says all of whom the port reaches and what its addresses are: leave out `network`, `label`, \
                 `vlan`, `pinned` and `antispoof`",
            );
        }
        if let Some(fault) = self.share.fault() {
            return wrong(fault);
        }
        if self.network.is_none() && !self.share.is_default() {
            return wrong(
                "`share` is a part of its network's: write `network` and `label`, or leave it out",
            );
        }
        if self.ingress.frames > self.attach.most_frames() {
            return wrong(
                "`ingress` is larger than its memory may be: 65536 frames, or 4096 of an `mtu` above 2000 or of the host's \
                 interface",
            );
        }
        match (&self.network, self.label) {
            (None, None) => {}
            (Some(_), Some(label)) if LABELS.contains(&label) => {}
            (Some(_), Some(_)) => return wrong("`label` lies outside 1 to 2147483647"),
            _ => return wrong("`network` and `label` go together: write both, or neither"),
        }
        let mac = match &self.attach {
            Attachment::Container { interface, .. } | Attachment::Interface { interface, .. }
                if !is_interface(interface) =>
            {
                return wrong(
                    "an interface's name is 1 to 15 visible ASCII characters without `/`, `:` and `%`, and not `.`, `..`, \
                     `all`, `default` or `lo`",
                );
            }
            Attachment::Container { netns, .. } if netns.is_empty() || netns.contains('\0') => {
                return wrong("`netns` is no namespace: a name under /run/netns, or a path");
            }
            Attachment::Interface { vlan: Some(4095..), .. } => {
                return wrong("a VLAN is 0 to 4094; of 0 are the frames without a tag");
            }
            Attachment::VhostUser { socket, .. } if !is_socket(socket) => {
                return wrong("`socket` is no absolute path of at most 107 bytes");
            }
            Attachment::VhostUser { queues, .. } if !(1..=128).contains(queues) => {
                return wrong("`queues` lies outside 1 to 128");
            }
            Attachment::Container { mac, .. } | Attachment::VhostUser { mac, .. } => *mac,
            Attachment::Interface { .. } => None,
        };
        if let Attachment::Container { routes, .. } = &self.attach
            && routes.iter().any(|route| {
                route.via.is_some_and(|via| via.is_ipv4() != route.to.address.is_ipv4())
            })
        {
            return wrong("a route's `via` is of another family than what it leads `to`");
        }
        if mac.is_some_and(|mac| !is_machine(mac)) {
            return wrong(
                "`mac` is no machine's: it is zero, or the lowest bit of its first octet is set",
            );
        }
        let addresses = self.attach.addresses();
        if !addresses.iter().all(|prefix| is_host(prefix.address)) {
            return wrong(
                "`addresses` has one that is no machine's: unspecified, loopback, multicast, reserved, or IPv4 within IPv6",
            );
        }
        let mut own = BTreeSet::new();
        if !addresses.iter().all(|prefix| own.insert(prefix.address)) {
            return wrong("`addresses` has one twice");
        }
        if !MTUS.contains(&self.attach.mtu(None)) {
            return wrong("`mtu` lies outside 68 to 65521");
        }
        if self.attach.mtu(None) < IPV6_MTU
            && addresses.iter().any(|prefix| prefix.address.is_ipv6())
        {
            // RFC 8200 §5; Linux has no IPv6 on such an interface.
            return wrong("IPv6 needs an `mtu` of at least 1280");
        }
        Ok(())
    }

    /// Whether the port is in the network that it names, on a host whose own addresses in the
    /// underlay are `vtep`, if it has any. `network` is the one of that name, if there is one.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`] if there is no such network, if it may not use the port's class, if the
    /// port's address, as far as it is known, is not that of the member with its label, or if it
    /// has an IP address of another member.
    pub fn check_within(
        &self,
        network: Option<&NetworkSpec>,
        vtep: Option<&VtepList>,
    ) -> Result<(), InvalidConfig> {
        let (Some(name), Some(label)) = (&self.network, self.label) else { return Ok(()) };
        let port = || self.name.clone();
        let Some(spec) = network else {
            return Err(InvalidConfig::UnknownNetwork { port: port(), network: name.clone() });
        };
        let vtep = vtep.ok_or(InvalidConfig::NoUplink)?;
        self.check_class(spec.share.classes)?;
        let Some(mac) = self.mac() else { return Ok(()) };
        if !spec.members.iter().any(|m| (m.mac, &m.vtep, m.label) == (mac, vtep, label)) {
            return Err(InvalidConfig::NoMember {
                port: port(),
                network: name.clone(),
                mac,
                vtep: Box::new(vtep.clone()),
                label,
            });
        }
        let others = || spec.members.iter().filter(|member| member.mac != mac);
        for Prefix { address, .. } in self.attach.addresses() {
            if let Some(owner) = others().find(|member| member.addresses.contains(address)) {
                return Err(InvalidConfig::MemberAddress {
                    port: port(),
                    network: name.clone(),
                    address: *address,
                    owner: owner.mac,
                });
            }
        }
        Ok(())
    }

    /// Whether the port's class is one that its network may use: one of these, if they are
    /// declared.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig::PortClass`].
    pub fn check_class(&self, classes: Option<ClassSet>) -> Result<(), InvalidConfig> {
        let class = self.class.unwrap_or_default();
        match (&self.network, classes) {
            (Some(network), Some(classes)) if !classes.contains(class) => {
                Err(InvalidConfig::PortClass {
                    port: self.name.clone(),
                    class,
                    network: network.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether what its sender says from, or of, an address of another's is refused.
    pub fn has_antispoof(&self) -> bool {
        self.antispoof.unwrap_or(self.network.is_some())
    }

    /// The Ethernet addresses behind it, as far as they are declared, with their VLANs.
    pub fn addresses(&self) -> impl Iterator<Item = (Mac, u16)> {
        let pinned = self.pinned.iter().map(|pinned| (pinned.mac, pinned.vlan));
        self.mac().map(|mac| (mac, 0)).into_iter().chain(pinned)
    }

    /// The port as it is after a change.
    pub fn changed(&self, change: &PortChange) -> Self {
        let ingress = self.ingress.changed(change.ingress);
        // A quota of all that is allowed is none.
        let quota = match change.quota {
            Some(quota) => Some(quota).filter(|quota| *quota != ingress.frames),
            None => self.quota.filter(|quota| *quota < ingress.frames),
        };
        Self {
            rate: RateChange::of(self.rate, change.rate),
            send_rate: RateChange::of(self.send_rate, change.send_rate),
            egress: self.egress.changed(change.egress),
            ingress,
            class: ClassChange::of(self.class, change.class),
            quota,
            scheduling: change.scheduling.unwrap_or(self.scheduling),
            storm: change.storm.unwrap_or(self.storm),
            share: change.share.unwrap_or(self.share),
            ..self.clone()
        }
    }

    /// The change after which the port is as declared in `wanted`. `None` if that takes detaching
    /// it.
    pub fn change_to(&self, wanted: &Self) -> Option<PortChange> {
        let limits = |limits: Limits| LimitsChange {
            frames: Some(limits.frames),
            bytes: Some(limits.bytes),
        };
        let change = PortChange {
            rate: Some(RateChange::to(wanted.rate)),
            send_rate: Some(RateChange::to(wanted.send_rate)),
            egress: limits(wanted.egress),
            ingress: limits(wanted.ingress),
            class: Some(ClassChange::to(wanted.class)),
            quota: Some(wanted.quota.unwrap_or(wanted.ingress.frames)),
            scheduling: Some(wanted.scheduling),
            storm: Some(wanted.storm),
            share: Some(wanted.share),
        };
        let after = Self { quota: wanted.quota, ..self.changed(&change) };
        (after == *wanted).then_some(change)
    }

    /// The VLAN of frames without a tag, 0 for none: its addresses are there.
    pub fn untagged_vlan(&self) -> u16 {
        let vlan = self.vlan.as_ref().and_then(|vlan| vlan.access.or(vlan.native));
        vlan.unwrap_or_default()
    }

    /// What differs from another declaration and [stays](Self::FIXED) as long as a port is
    /// attached.
    pub fn fixed_differences(&self, other: &Self) -> impl Iterator<Item = &'static str> {
        let differs = [
            self.name != other.name,
            self.attach != other.attach,
            self.pinned != other.pinned,
            self.vlan != other.vlan,
            self.antispoof != other.antispoof,
            self.network != other.network,
            self.label != other.label,
            self.logical != other.logical,
        ];
        Self::FIXED.into_iter().zip(differs).filter_map(|(field, differs)| differs.then_some(field))
    }

    /// Its Ethernet address, if it is known: the one that is declared, or, of an interface that the
    /// agent makes, one that is made from the port's name.
    pub fn mac(&self) -> Option<Mac> {
        match self.attach {
            Attachment::Container { mac, .. } => {
                Some(mac.unwrap_or_else(|| Mac::local(hash::fnv1a_32(self.name.0.as_bytes()))))
            }
            Attachment::VhostUser { mac, .. } => mac,
            // Its address is for nobody: what is behind it has its own.
            Attachment::Interface { .. } => None,
        }
    }
}

/// Whether an Ethernet address can be one machine's.
fn is_machine(mac: Mac) -> bool {
    !mac.is_multicast() && mac != Mac([0; 6])
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::vec;

    use super::*;

    /// A container's port.
    fn container() -> PortSpec {
        let attach = Attachment::Container {
            netns: "web".into(),
            interface: "eth0".into(),
            mac: None,
            addresses: Vec::new(),
            routes: Vec::new(),
            mtu: None,
            offload: true,
        };
        PortSpec::new(PortName("web".into()), attach)
    }

    /// What is wrong with a container's port after a change, if something is.
    fn complaint(change: impl FnOnce(&mut PortSpec)) -> Option<String> {
        let mut port = container();
        change(&mut port);
        port.check().err().map(|error| error.to_string())
    }

    #[track_caller]
    fn complains(change: impl FnOnce(&mut PortSpec), of: &str) {
        let complaint = complaint(change).unwrap_or_default();
        assert!(complaint.contains(of), "{complaint}");
    }

    #[test]
    fn a_share_is_within_a_network_and_makes_sense() {
        let with = |share: PortShare| {
            move |port: &mut PortSpec| {
                (port.network, port.label) = (Some(NetworkName("blue".into())), Some(1));
                port.share = share;
            }
        };
        let rate = |rate: &str| rate.parse().ok();
        let share = |min, max, weight| PortShare { min: rate(min), max: rate(max), weight };
        assert_eq!(complaint(with(share("100mbit", "500mbit", Some(3)))), None);
        complains(with(share("2gbit", "1gbit", None)), "`min` above its `max`");
        complains(with(share("", "10kbit", None)), "below 100kbit");
        complains(with(share("", "", Some(0))), "make it 1 to 65535");
        let alone = |port: &mut PortSpec| port.share = share("100mbit", "", None);
        complains(alone, "`share` is a part of its network's");
    }

    fn with_addresses(addresses: &[&str]) -> impl FnOnce(&mut PortSpec) {
        let given = addresses.iter().map(|address| address.parse().unwrap()).collect();
        |port| {
            let Attachment::Container { addresses, .. } = &mut port.attach else { unreachable!() };
            *addresses = given;
        }
    }

    #[test]
    fn an_address_is_a_machines_and_there_once() {
        for wrong in [
            "224.0.0.1/24",
            "127.0.0.1/8",
            "0.0.0.0/0",
            "255.255.255.255/32",
            "::1/128",
            "ff02::1/64",
        ] {
            complains(with_addresses(&[wrong]), "no machine's");
        }
        complains(with_addresses(&["10.0.0.1/24", "10.0.0.1/24"]), "one twice");
        complains(with_addresses(&["10.0.0.1/24", "10.0.0.1/16"]), "one twice");
        assert_eq!(complaint(with_addresses(&["10.0.0.1/24", "fe80::1/64", "fd00::1/64"])), None);
    }

    #[test]
    fn what_tunnels_carry_leaves_ipv6_what_it_needs() {
        let mtus = |address: &'static str| {
            let mut port = container();
            with_addresses(&[address])(&mut port);
            [1200, 1418, 9000].map(|most| port.attach.mtu(Some(most)))
        };
        assert_eq!(mtus("10.0.0.1/24"), [1200, 1418, 1500]);
        assert_eq!(mtus("fd00::1/64"), [1280, 1418, 1500]);
    }

    #[test]
    fn ipv6_has_the_mtu_that_it_needs() {
        let with = |address: &'static str, bytes| {
            move |port: &mut PortSpec| {
                with_addresses(&[address])(port);
                let Attachment::Container { mtu, .. } = &mut port.attach else { unreachable!() };
                *mtu = Some(bytes);
            }
        };
        complains(with("fd00::1/64", 68), "at least 1280");
        complains(with("fd00::1/64", 1279), "at least 1280");
        assert_eq!(complaint(with("fd00::1/64", 1280)), None);
        assert_eq!(complaint(with("10.0.0.1/24", 68)), None);
    }

    #[test]
    fn an_interface_has_a_name_that_linux_lets_it_have() {
        let named = |name: &'static str| {
            move |port: &mut PortSpec| {
                let Attachment::Container { interface, .. } = &mut port.attach else {
                    unreachable!()
                };
                *interface = name.into();
            }
        };
        for wrong in [
            "",
            ".",
            "..",
            "a/b",
            "a:1",
            "a b",
            "eth%d",
            "all",
            "default",
            "lo",
            "sixteen-letters!",
        ] {
            complains(named(wrong), "an interface's name");
        }
        for right in ["eth0", "eth0.100", "fifteen-letters", "-"] {
            assert_eq!(complaint(named(right)), None, "{right}");
        }
    }

    #[test]
    fn a_logical_port_is_in_no_network_and_no_vlan() {
        let with = |change: fn(&mut PortSpec)| {
            move |port: &mut PortSpec| {
                port.logical = "shop/web-1".parse().ok();
                change(port);
            }
        };
        assert_eq!(complaint(with(|_| {})), None);
        let wrong: [fn(&mut PortSpec); 4] = [
            |port| port.antispoof = Some(false),
            |port| port.label = Some(1),
            |port| {
                port.vlan = Some(VlanMembership { access: Some(7), ..VlanMembership::default() })
            },
            |port| port.pinned = vec![PinnedAddress { mac: Mac::local(1), vlan: 0 }],
        ];
        wrong.into_iter().for_each(|change| complains(with(change), "`logical` says all"));
    }

    #[test]
    fn a_quota_is_within_what_ingress_holds() {
        complains(|port| port.quota = Some(1025), "`quota` is above the `frames` of `ingress`");
        assert_eq!(complaint(|port| port.quota = Some(1024)), None);
        let port = PortSpec { quota: Some(64), ..container() };
        let after = |ingress, quota| {
            let ingress = LimitsChange { frames: ingress, ..LimitsChange::default() };
            port.changed(&PortChange { ingress, quota, ..PortChange::default() })
        };
        assert_eq!(after(None, Some(32)).quota, Some(32));
        // A quota of all that may be held is none, whichever of the two is changed.
        assert_eq!(after(None, Some(1024)).quota, None);
        assert_eq!(after(Some(64), None).quota, None);
        assert_eq!(after(Some(65), None).quota, Some(64));
        assert!(after(Some(32), Some(64)).check().is_err());
    }

    #[test]
    fn some_class_has_a_weight() {
        let weighted =
            |weights| move |port: &mut PortSpec| port.scheduling = Scheduling::Weighted(weights);
        complains(weighted([0; 8]), "no class has a weight");
        assert_eq!(complaint(weighted([0, 0, 0, 0, 0, 0, 0, 1])), None);
    }

    #[test]
    fn ethernet_addresses_are_machines_and_there_once() {
        let pinned = |macs: &'static [[u8; 6]]| {
            move |port: &mut PortSpec| {
                port.pinned =
                    macs.iter().map(|mac| PinnedAddress { mac: Mac(*mac), vlan: 0 }).collect();
            }
        };
        complains(pinned(&[[0; 6]]), "a zero one");
        complains(pinned(&[[0xff; 6]]), "a group address");
        complains(pinned(&[[2; 6], [2; 6]]), "twice");
        complains(
            |port| port.pinned = vec![PinnedAddress { mac: port.mac().unwrap(), vlan: 0 }],
            "the port's own `mac`",
        );
        assert_eq!(complaint(pinned(&[[2; 6], [4; 6]])), None);
        complains(
            |port| {
                let Attachment::Container { mac, .. } = &mut port.attach else { unreachable!() };
                *mac = Some(Mac([0; 6]));
            },
            "`mac` is no machine's",
        );
    }

    #[test]
    fn each_field_of_a_port_can_be_changed_or_stays() {
        let attach = Attachment::VhostUser {
            socket: "/run/vm.sock".into(),
            mode: SocketMode::Connect,
            mac: None,
            queues: 1,
            mtu: None,
        };
        let port = PortSpec::new(PortName("vm".into()), attach);
        let wanted = PortSpec {
            name: PortName("db".into()),
            attach: port.attach.clone().with_mtu(1400),
            pinned: vec![PinnedAddress { mac: Mac::local(1), vlan: 0 }],
            vlan: Some(VlanMembership { access: Some(7), ..VlanMembership::default() }),
            antispoof: Some(true),
            network: Some(NetworkName("blue".into())),
            label: Some(7),
            logical: "shop/web".parse().ok(),
            ..port.clone()
        };
        assert!(port.fixed_differences(&wanted).eq(PortSpec::FIXED));
        assert_eq!(port.change_to(&wanted), None);
        let wanted = PortSpec { quota: Some(3), class: Class::new(1), ..port.clone() };
        assert_eq!(port.fixed_differences(&wanted).count(), 0);
        assert!(port.change_to(&wanted).is_some());
    }

    /// 0 is a class as any other: a logical port's own does not take its place.
    #[test]
    fn a_declared_class_0_is_not_none() {
        let none = container();
        let zero = PortSpec { class: Class::new(0), ..container() };
        for (from, to) in [(&none, &zero), (&zero, &none), (&zero, &zero), (&none, &none)] {
            assert_eq!(from.changed(&from.change_to(to).unwrap()), *to);
        }
        assert_eq!("none".parse(), Ok(ClassChange::to(None)));
        assert_eq!("7".parse(), Ok(ClassChange::to(Class::new(7))));
        assert!("8".parse::<ClassChange>().is_err());
    }
}
