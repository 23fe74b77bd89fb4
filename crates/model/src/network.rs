//! Virtual networks: which machines are in them, and where those are.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use units::{Bytes, ClassSet, Mac, Rate};

use crate::VtepList;
use crate::address::is_host;
use crate::name::is_word;

/// The numbers that a virtual network may have: 24 bits (RFC 8926 §3.4), of which 0 is left to
/// underlays.
pub const VNIS: RangeInclusive<u32> = 1..=(1 << 24) - 1;

/// The labels that a machine may have. The highest bit is the switches' own.
pub const LABELS: RangeInclusive<u32> = 1..=(1 << 31) - 1;

/// A virtual network's name: what people call it in files and in ports' declarations.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(pattern = "^[!-.0-~]{1,63}$"))]
#[serde(transparent)]
pub struct NetworkName(pub String);

impl fmt::Display for NetworkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A virtual network, all of it: the same on every host, of whose machines some are there and most
/// are elsewhere.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a virtual network, as { name = \"blue\", vni = 7 }")]
pub struct NetworkSpec {
    /// The network's name, one of its own.
    pub name: NetworkName,
    /// Its number in tunnels, one of its own (VNI).
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 16_777_215))]
    pub vni: u32,
    /// What its machines may have of what networks share.
    #[serde(default, skip_serializing_if = "NetworkShare::is_default")]
    pub share: NetworkShare,
    /// Every machine in it.
    #[serde(default, rename = "member", skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
}

impl NetworkSpec {
    /// A network that shares with others as all do.
    pub fn new(name: NetworkName, vni: u32, members: Vec<Member>) -> Self {
        Self { name, vni, share: NetworkShare::default(), members }
    }
}

/// What a network's machines may have of what networks share.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a network's share, as { min = \"500mbit\" }")]
pub struct NetworkShare {
    /// The least rate at which they can send by each host's uplink, together. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "500mbit"))]
    pub min: Option<Rate>,
    /// The highest. Absent: the link's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "2gbit"))]
    pub max: Option<Rate>,
    /// Their part of what guarantees leave of an uplink, in proportion to other networks' weights;
    /// and of the switch's thread, where some network has `min_packets`. Absent: one for each
    /// hundredth of the uplink that `min` is, or of the thread that `min_packets` is, and at least
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 65_535))]
    pub weight: Option<u16>,
    /// How much of `min` may go at once after a rest. Absent: one frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "1514b"))]
    pub burst: Option<Bytes>,
    /// The frames a second that each host's switch moves for them at the least, together. Absent:
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 50_000_000))]
    pub min_packets: Option<u32>,
    /// The memory of each host for frames from other hosts that is kept for this network's, however
    /// much others' receivers leave unread. Absent: none is, and what is left is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "32mib"))]
    pub memory: Option<Bytes>,
    /// The classes that they may choose by their frames' tags, on the host and between hosts; other
    /// frames are of their port's class, which is one of these. Absent: all, but between hosts
    /// frames are of their port's class.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "listed")]
    #[cfg_attr(feature = "openapi", schema(schema_with = listed::schema))]
    pub classes: Option<ClassSet>,
}

impl NetworkShare {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What `min` lets go at once after a rest.
    pub fn burst(&self) -> Bytes {
        self.burst.unwrap_or(LEAST_BURST)
    }

    fn check(&self) -> Result<(), NetworkFault> {
        if self.classes == Some(ClassSet::NONE) {
            return Err(NetworkFault::NoClasses);
        }
        let faults = self.faults();
        if faults.is_empty() { Ok(()) } else { Err(NetworkFault::Share(faults)) }
    }

    /// What is wrong with the terms, all of it.
    fn faults(&self) -> Vec<ShareFault> {
        let Self { min, max, weight, burst, min_packets, memory, .. } = *self;
        let mut faults = Vec::new();
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            faults.push(ShareFault::MinAboveMax { min, max });
        }
        for (field, rate) in [("min", min), ("max", max)] {
            faults.extend(
                rate.filter(|rate| *rate < LEAST_RATE).map(|rate| ShareFault::Slow { field, rate }),
            );
        }
        if weight == Some(0) {
            faults.push(ShareFault::NoWeight);
        }
        if burst.is_some() && min.is_none() {
            faults.push(ShareFault::BurstOfNothing);
        }
        if let Some(burst) = burst
            && !(LEAST_BURST..=MOST_BURST).contains(&burst)
        {
            faults.push(ShareFault::Burst(burst));
        }
        if let Some(packets) = min_packets
            && !(1..=MOST_PACKETS).contains(&packets)
        {
            faults.push(ShareFault::Packets(packets));
        }
        faults.extend(memory.filter(|it| *it < LEAST_MEMORY).map(ShareFault::Memory));
        faults
    }
}

/// The lowest rate that can be promised, or be a maximum: a frame takes 120 ms.
pub(crate) const LEAST_RATE: Rate = Rate::from_bits_per_sec(100_000).unwrap();

/// The least burst: a full frame.
const LEAST_BURST: Bytes = Bytes(1514);

/// The largest.
const MOST_BURST: Bytes = Bytes(u32::MAX as u64);

/// The least memory: it has slots for six of the longest frames.
const LEAST_MEMORY: Bytes = Bytes(1 << 20);

/// More frames a second than any thread moves.
const MOST_PACKETS: u32 = 50_000_000;

/// What is wrong with a network's share, and what to write instead.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ShareFault {
    /// More is guaranteed than may go.
    #[error("`min` {min} is above `max` {max}: lower the one, or raise the other")]
    MinAboveMax {
        /// The least rate.
        min: Rate,
        /// The highest.
        max: Rate,
    },
    /// A rate that no network has.
    #[error("`{field}` {rate} is below 100kbit: write it in mbit or gbit")]
    Slow {
        /// Which.
        field: &'static str,
        /// The rate.
        rate: Rate,
    },
    /// It would never have its turn.
    #[error("`weight` is 0: make it 1 to 65535")]
    NoWeight,
    /// A burst without a guarantee.
    #[error("`burst` is a part of `min`: declare that, or leave it out")]
    BurstOfNothing,
    /// A burst that no frame fits into, or without end.
    #[error(
        "`burst` {0} is less than a frame or more than 4gib: make it 1514b or some times as much"
    )]
    Burst(Bytes),
    /// No frames, or more than any thread moves.
    #[error("`min_packets` {0} lies outside 1 to 50000000 frames a second: leave it out for none")]
    Packets(u32),
    /// Too little for a frame of each size.
    #[error("`memory` {0} is below 1mib: make it more, or leave it out")]
    Memory(Bytes),
}

/// Some faults, one sentence each.
struct Sentences<'a>(&'a [ShareFault]);

impl fmt::Display for Sentences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, fault) in self.0.iter().enumerate() {
            f.write_str(if number > 0 { "; " } else { "" })?;
            fault.fmt(f)?;
        }
        Ok(())
    }
}

/// A machine's place in a virtual network.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a member of a network, as `[[network.member]]` below it")]
pub struct Member {
    /// Its Ethernet address, one of its own in the network.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "02:00:00:00:00:01"))]
    pub mac: Mac,
    /// Its IP addresses, each its own in the network: who asks for one of them is told `mac`.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::address::read_all"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>, example = json!(["10.0.0.1", "fd00::1"])))]
    pub addresses: Vec<IpAddr>,
    /// Its host's address in the underlay, or one for each of its host's uplinks: the same for all
    /// machines there.
    pub vtep: VtepList,
    /// Which port of its host it is behind: a number that no other machine there has, of whatever
    /// network.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 2_147_483_647))]
    pub label: u32,
}

/// The version of all declared networks: it grows by one whenever they are replaced.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// It as an entity tag of HTTP (RFC 9110 §8.8.3).
    pub fn tag(self) -> String {
        alloc::format!("\"{self}\"")
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a virtual network cannot stand.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("network `{network}`: {fault}")]
pub struct InvalidNetwork {
    /// Which; of two that contradict each other the later.
    pub network: NetworkName,
    /// What is wrong with it.
    pub fault: NetworkFault,
}

/// What is wrong with a virtual network, and what to write instead.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NetworkFault {
    /// The name is none.
    #[error("a name is 1 to 63 visible ASCII characters without `/`")]
    Name,
    /// Two networks share a name.
    #[error("it is declared twice: give each network its own name")]
    DuplicateName,
    /// The number is none.
    #[error("`vni` {0} lies outside 1 to 16777215")]
    Vni(u32),
    /// Two networks share a number.
    #[error("`vni` {vni} is network `{owner}`'s already: give each network its own")]
    DuplicateVni {
        /// The number.
        vni: u32,
        /// The earlier network.
        owner: NetworkName,
    },
    /// Its machines may use no class.
    #[error("`share.classes` names none: name one or more, as [0, 3], or leave it out")]
    NoClasses,
    /// A machine is wrong by itself.
    #[error("member {mac}: {what}")]
    Member {
        /// Which machine.
        mac: Mac,
        /// What is wrong, and what to write instead.
        what: &'static str,
    },
    /// Its terms contradict themselves, in each of these.
    #[error("`share`: {}", Sentences(.0))]
    Share(Vec<ShareFault>),
    /// Two machines of a network share an Ethernet address.
    #[error("member {0} is declared twice: give each machine its own `mac`")]
    DuplicateMac(Mac),
    /// Two machines of a network share an IP address, or one has it twice.
    #[error("member {mac}: address {address} is member {owner}'s already: keep it for one of them")]
    DuplicateAddress {
        /// The later machine.
        mac: Mac,
        /// The address.
        address: IpAddr,
        /// The earlier machine.
        owner: Mac,
    },
    /// Two machines of a host share a label.
    #[error(
        "member {mac}: `label` {label} at {vtep} is that of {owner} in network `{network}` already: choose another"
    )]
    DuplicateLabel {
        /// The later machine.
        mac: Mac,
        /// The label.
        label: u32,
        /// Their host.
        vtep: IpAddr,
        /// The earlier machine.
        owner: Mac,
        /// The earlier machine's network.
        network: NetworkName,
    },
    /// Tunnels do not lead from IPv4 to IPv6.
    #[error(
        "member {mac}: `vtep` {vtep} and {other} are of two families: choose IPv4 or IPv6 for all hosts' addresses at that place"
    )]
    Families {
        /// The machine.
        mac: Mac,
        /// Its host.
        vtep: IpAddr,
        /// Another host.
        other: IpAddr,
    },
    /// A host's addresses are not the same everywhere.
    #[error(
        "member {mac}: `vtep` is {vtep}, and elsewhere the host with {shared} has {other}: write the same for all of its members, \
         in the same order"
    )]
    Vteps {
        /// The machine.
        mac: Mac,
        /// Its host.
        vtep: Box<VtepList>,
        /// An address that both have.
        shared: IpAddr,
        /// The same host elsewhere.
        other: Box<VtepList>,
    },
}

/// Whether networks can stand beside each other, on a host whose own addresses in the underlay are
/// `vtep` if it has any.
///
/// # Errors
///
/// [`InvalidNetwork`] says what cannot, and of networks the first.
pub fn check_networks<'a>(
    networks: impl IntoIterator<Item = &'a NetworkSpec>,
    vtep: Option<&'a VtepList>,
) -> Result<(), InvalidNetwork> {
    let mut declared = Declared::default();
    declared
        .hosts
        .extend(vtep.into_iter().flat_map(|vtep| vtep.iter().map(move |address| (address, vtep))));
    declared.longest = vtep;
    networks.into_iter().try_for_each(|network| {
        declared
            .add(network)
            .map_err(|fault| InvalidNetwork { network: network.name.clone(), fault })
    })
}

/// What was declared so far.
#[derive(Default)]
struct Declared<'a> {
    names: BTreeSet<&'a NetworkName>,
    vnis: BTreeMap<u32, &'a NetworkName>,
    /// Whose a host's labels are.
    labels: BTreeMap<(IpAddr, u32), (Mac, &'a NetworkName)>,
    /// All addresses of the host that has one of them.
    hosts: BTreeMap<IpAddr, &'a VtepList>,
    /// The longest of those lists: of which families all are.
    longest: Option<&'a VtepList>,
}

impl<'a> Declared<'a> {
    fn add(&mut self, network: &'a NetworkSpec) -> Result<(), NetworkFault> {
        let NetworkSpec { name, vni, share, members } = network;
        if !is_word(&name.0, 63) {
            return Err(NetworkFault::Name);
        }
        if !self.names.insert(name) {
            return Err(NetworkFault::DuplicateName);
        }
        if !VNIS.contains(vni) {
            return Err(NetworkFault::Vni(*vni));
        }
        if let Some(owner) = self.vnis.insert(*vni, name) {
            return Err(NetworkFault::DuplicateVni { vni: *vni, owner: owner.clone() });
        }
        share.check()?;
        let mut macs = BTreeSet::new();
        let mut addresses = BTreeMap::new();
        for member in members {
            member.check()?;
            let Member { mac, label, .. } = *member;
            let vtep = member.vtep.first();
            if !macs.insert(mac) {
                return Err(NetworkFault::DuplicateMac(mac));
            }
            for &address in &member.addresses {
                if let Some(owner) = addresses.insert(address, mac) {
                    return Err(NetworkFault::DuplicateAddress { mac, address, owner });
                }
            }
            if let Some((owner, network)) = self.labels.insert((vtep, label), (mac, name)) {
                return Err(NetworkFault::DuplicateLabel {
                    mac,
                    label,
                    vtep,
                    owner,
                    network: network.clone(),
                });
            }
            self.add_host(mac, &member.vtep)?;
        }
        Ok(())
    }

    /// Adds the host of a machine, unless it is known.
    fn add_host(&mut self, mac: Mac, vtep: &'a VtepList) -> Result<(), NetworkFault> {
        if self.hosts.get(&vtep.first()).is_some_and(|known| *known == vtep) {
            return Ok(());
        }
        for address in vtep.iter() {
            if let Some(other) = self.hosts.insert(address, vtep) {
                let [vtep, other] = [vtep, other].map(|list| Box::new(list.clone()));
                return Err(NetworkFault::Vteps { mac, vtep, shared: address, other });
            }
        }
        let longest = *self.longest.get_or_insert(vtep);
        if let Some([vtep, other]) = vtep.family_fault(longest) {
            return Err(NetworkFault::Families { mac, vtep, other });
        }
        if vtep.iter().count() > longest.iter().count() {
            self.longest = Some(vtep);
        }
        Ok(())
    }
}

/// Classes, if there are some, as a list of their numbers.
mod listed {
    use alloc::vec::Vec;

    #[cfg(feature = "openapi")]
    pub fn schema() -> utoipa::openapi::schema::Array {
        use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};

        let class = ObjectBuilder::new().schema_type(Type::Integer);
        let class = class.minimum(Some(0)).maximum(Some(7));
        let said = "The classes that they may choose by their frames' tags, on the host and between hosts; other frames are of \
                    their port's class, which is one of these. Absent: all, but between hosts frames are of their port's \
                    class.";
        let classes = ArrayBuilder::new().items(class).min_items(Some(1));
        classes.description(Some(said)).build()
    }

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use units::{Class, ClassSet};

    pub fn serialize<S: Serializer>(
        classes: &Option<ClassSet>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        classes.map(|classes| classes.iter().collect::<Vec<_>>()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ClassSet>, D::Error> {
        Ok(Some(Vec::<Class>::deserialize(deserializer)?.into_iter().collect()))
    }
}

impl Member {
    fn check(&self) -> Result<(), NetworkFault> {
        let wrong = |what| Err(NetworkFault::Member { mac: self.mac, what });
        if self.mac.is_multicast() || self.mac == Mac([0; 6]) {
            return wrong(
                "`mac` is no machine's: it is zero, or the lowest bit of its first octet is set",
            );
        }
        if !self.addresses.iter().copied().all(is_host) {
            return wrong(
                "`addresses` has one that no machine can have, such as a group's or 0.0.0.0",
            );
        }
        if let Some(fault) = self.vtep.fault() {
            return wrong(fault);
        }
        if !LABELS.contains(&self.label) {
            return wrong("`label` lies outside 1 to 2147483647");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;

    const VTEPS: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

    fn list(addresses: &[&str]) -> VtepList {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        addresses.try_into().unwrap()
    }

    fn member(number: u32, vtep: &str) -> Member {
        Member {
            mac: Mac::local(number),
            addresses: vec![format!("10.0.0.{number}").parse().unwrap()],
            vtep: list(&[vtep]),
            label: number,
        }
    }

    /// Two networks, with two members each.
    fn networks() -> [NetworkSpec; 2] {
        let network = |name: &str, vni| NetworkSpec::new(NetworkName(name.into()), vni, Vec::new());
        [
            NetworkSpec {
                members: vec![member(1, VTEPS[0]), member(2, VTEPS[1])],
                ..network("blue", 1)
            },
            NetworkSpec {
                members: vec![member(3, VTEPS[0]), member(4, VTEPS[1])],
                ..network("red", 2)
            },
        ]
    }

    #[track_caller]
    fn complains(change: impl FnOnce(&mut [NetworkSpec; 2]), expected: &str) {
        let mut networks = networks();
        change(&mut networks);
        assert_eq!(check_networks(&networks, None).unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_network_that_may_use_no_class_is_told_what_to_write() {
        complains(
            |[blue, _]| blue.share.classes = Some(ClassSet::NONE),
            "network `blue`: `share.classes` names none: name one or more, as [0, 3], or leave it out",
        );
    }

    #[test]
    fn terms_that_cannot_be_kept_are_told_all_at_once() {
        complains(
            |[blue, _]| {
                blue.share = NetworkShare {
                    max: Some(Rate::from_bits_per_sec(50_000).unwrap()),
                    weight: Some(0),
                    burst: Some(Bytes(3028)),
                    memory: Some(Bytes(4096)),
                    ..NetworkShare::default()
                };
            },
            "network `blue`: `share`: `max` 50kbit is below 100kbit: write it in mbit or gbit; `weight` is 0: \
             make it 1 to 65535; `burst` is a part of `min`: declare that, or leave it out; `memory` 4kib is \
             below 1mib: make it more, or leave it out",
        );
    }

    #[test]
    fn no_network_is_promised_no_frames_or_more_than_there_can_be() {
        for packets in [0, 50_000_001] {
            let expected = format!(
                "network `blue`: `share`: `min_packets` {packets} lies outside 1 to 50000000 frames a second: leave it out \
                 for none"
            );
            complains(|[blue, _]| blue.share.min_packets = Some(packets), &expected);
        }
    }

    #[test]
    fn networks_may_share_addresses_with_each_other_and_labels_with_other_hosts() {
        let mut networks = networks();
        (networks[1].members[0].mac, networks[1].members[1].label) = (Mac::local(1), 3);
        networks[1].members[0].addresses = networks[0].members[0].addresses.clone();
        assert_eq!(check_networks(&networks, Some(&list(&VTEPS[..1]))), Ok(()));
        assert_eq!(check_networks([], None), Ok(()));
    }

    #[test]
    fn of_two_networks_that_share_what_is_ones_own_the_later_is_blamed() {
        complains(
            |[_, red]| red.name.0 = "blue".into(),
            "network `blue`: it is declared twice: give each network its own name",
        );
        complains(
            |[_, red]| red.vni = 1,
            "network `red`: `vni` 1 is network `blue`'s already: give each network its own",
        );
        complains(
            |[_, red]| red.members[1].label = 2,
            "network `red`: member 02:00:00:00:00:04: `label` 2 at 192.0.2.2 is that of 02:00:00:00:00:02 in network `blue` \
             already: choose another",
        );
    }

    #[test]
    fn of_two_members_that_share_what_is_ones_own_the_later_is_blamed() {
        complains(
            |[blue, _]| blue.members[1].mac = Mac::local(1),
            "network `blue`: member 02:00:00:00:00:01 is declared twice: give each machine its own `mac`",
        );
        complains(
            |[blue, _]| {
                blue.members[1]
                    .addresses
                    .extend(["10.0.0.9", "10.0.0.1"].map(|text| text.parse::<IpAddr>().unwrap()))
            },
            "network `blue`: member 02:00:00:00:00:02: address 10.0.0.1 is member 02:00:00:00:00:01's already: keep it for one \
             of them",
        );
    }

    #[test]
    fn what_is_no_name_number_or_address_is_refused() {
        complains(
            |[blue, _]| blue.name.0 = "a/b".into(),
            "network `a/b`: a name is 1 to 63 visible ASCII characters without `/`",
        );
        for vni in [0, 1 << 24] {
            let expected = format!("network `blue`: `vni` {vni} lies outside 1 to 16777215");
            complains(|[blue, _]| blue.vni = vni, &expected);
        }
        let refused = |change: fn(&mut Member), field: &str| {
            let mut networks = networks();
            change(&mut networks[0].members[0]);
            let error = check_networks(&networks, None).unwrap_err();
            assert!(
                matches!(error.fault, NetworkFault::Member { what, .. } if what.starts_with(field)),
                "{error}"
            );
        };
        refused(|member| member.mac = Mac::BROADCAST, "`mac`");
        refused(|member| member.mac = Mac([0; 6]), "`mac`");
        refused(
            |member| member.addresses.push(IpAddr::V4(core::net::Ipv4Addr::BROADCAST)),
            "`addresses`",
        );
        refused(|member| member.vtep = list(&["0.0.0.0"]), "`vtep`");
        refused(|member| member.label = 0, "`label`");
        refused(|member| member.label = 1 << 31, "`label`");
    }

    #[test]
    fn all_tunnels_are_of_one_family() {
        complains(
            |[_, red]| red.members[0].vtep = list(&["2001:db8::1"]),
            "network `red`: member 02:00:00:00:00:03: `vtep` 2001:db8::1 and 192.0.2.1 are of two families: choose IPv4 or \
             IPv6 for all hosts' addresses at that place",
        );
        let ours = list(&["2001:db8::1"]);
        let error = check_networks(&networks(), Some(&ours)).unwrap_err();
        assert!(
            matches!(error.fault, NetworkFault::Families { other, .. } if other == ours.first()),
            "{error}"
        );
        // Underlays may be of two families.
        let with = |second| {
            let mut networks = networks();
            for network in &mut networks {
                network.members[0].vtep = list(&[VTEPS[0], "2001:db8::1"]);
                network.members[1].vtep = list(&[VTEPS[1], second]);
            }
            check_networks(&networks, None)
        };
        assert_eq!(with("2001:db8::2"), Ok(()));
        assert!(matches!(with("198.51.100.2").unwrap_err().fault, NetworkFault::Families { .. }));
    }

    #[test]
    fn a_hosts_addresses_are_the_same_wherever_they_are_written() {
        let two = [VTEPS[0], "198.51.100.1"];
        complains(
            |[blue, _]| blue.members[0].vtep = list(&two),
            "network `red`: member 02:00:00:00:00:03: `vtep` is 192.0.2.1, and elsewhere the host with 192.0.2.1 has 192.0.2.1, \
             198.51.100.1: write the same for all of its members, in the same order",
        );
        for [first, second] in [two, [two[1], two[0]], [VTEPS[1], two[1]]] {
            let mut networks = networks();
            networks.iter_mut().for_each(|network| network.members[0].vtep = list(&two));
            networks[1].members[1].vtep = list(&[first, second]);
            let error = check_networks(&networks, None).err();
            assert_eq!(error.is_none(), [first, second] == two, "{error:?}");
        }
        // The host itself has another opinion.
        assert!(check_networks(&networks(), Some(&list(&two))).is_err());
    }
}
