//! Which groups machines listen to, as a switch overhears it (RFC 4541): IGMP (RFC 2236, RFC 3376)
//! and MLD (RFC 2710, RFC 3810).
//!
//! ```text
//! report, change to exclude, allow ─▶ Joins      change to include nobody, leave, done ─▶ Leaves
//! query ─▶ Asks: a router of groups, which gets all of them
//! ```

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::checksum::Sum;
use wire::ip::{Fragment, Version, protocol};

use crate::fields::Fields;

/// How many groups of a machine are remembered. Who listens to more gets all.
const MOST: usize = 64;

/// What a machine tells of groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Told {
    /// It listens to this one.
    Joins(IpAddr),
    /// It listens to this one no longer.
    Leaves(IpAddr),
    /// It asks who listens: it routes groups.
    Asks,
}

/// What a port's machine has told.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listener {
    groups: BTreeSet<IpAddr>,
    takes_all: bool,
}

impl Listener {
    /// A machine that has told another host this. `None` if it is more than a host remembers.
    pub fn of_parts(takes_all: bool, groups: Vec<IpAddr>) -> Option<Self> {
        let is_known = groups.len() <= MOST;
        is_known.then(|| Self { groups: groups.into_iter().collect(), takes_all })
    }

    /// The groups that it listens to.
    pub fn groups(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.groups.iter().copied()
    }

    /// Whether it gets every group's packets.
    pub const fn takes_all(&self) -> bool {
        self.takes_all
    }

    /// Remembers what is told.
    pub fn hear(&mut self, told: Told) {
        match told {
            Told::Joins(group) if self.groups.len() < MOST => {
                self.groups.insert(group);
            }
            Told::Leaves(group) => {
                self.groups.remove(&group);
            }
            Told::Joins(group) => self.takes_all |= !self.groups.contains(&group),
            Told::Asks => self.takes_all = true,
        }
    }

    /// Whether it listens to a group.
    pub fn wants(&self, group: IpAddr) -> bool {
        self.takes_all || self.groups.contains(&group)
    }
}

/// The group that a packet is for, if only who listens to it gets it: not those of the link itself,
/// which all machines need (RFC 4541 §2.1.2 (2), §3).
pub fn of_listeners(fields: &Fields) -> Option<IpAddr> {
    let to = fields.ip.filter(|_| fields.destination.is_multicast())?.tuple.destination.0;
    let is_links = match to {
        IpAddr::V4(it) => it.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(it) => it.octets()[1] & 0xf <= 2,
    };
    (to.is_multicast() && !is_links).then_some(to)
}

/// What a packet tells of groups. A damaged one tells nothing.
pub fn overhear(fields: &Fields, frame: &[u8]) -> Vec<Told> {
    let Some(ip) = fields.ip.filter(|ip| ip.layout.fragment == Fragment::Whole) else {
        return Vec::new();
    };
    let body = frame.get(ip.layout.transport..ip.layout.end).unwrap_or_default();
    let pseudo = match (ip.layout.version, ip.tuple.protocol) {
        (Version::V4, protocol::IGMP) => Sum::default(),
        (Version::V6, protocol::ICMPV6) => ip.layout.pseudo_header(frame, body.len()),
        _ => return Vec::new(),
    };
    let Some(kind) = body.first().filter(|_| (pseudo + Sum::of(body)).checksum() == 0) else {
        return Vec::new();
    };
    let one = match ip.layout.version {
        Version::V4 => group(ip.layout.version, body.get(4..)),
        Version::V6 => group(ip.layout.version, body.get(8..)),
    };
    match (ip.layout.version, kind) {
        (Version::V4, 0x11) | (Version::V6, 130) => alloc::vec![Told::Asks],
        (Version::V4, 0x12 | 0x16) | (Version::V6, 131) => {
            one.map(Told::Joins).into_iter().collect()
        }
        (Version::V4, 0x17) | (Version::V6, 132) => one.map(Told::Leaves).into_iter().collect(),
        (Version::V4, 0x22) | (Version::V6, 143) => records(ip.layout.version, body),
        _ => Vec::new(),
    }
}

fn group(version: Version, bytes: Option<&[u8]>) -> Option<IpAddr> {
    let group: IpAddr = match version {
        Version::V4 => Ipv4Addr::from(*bytes?.first_chunk::<4>()?).into(),
        Version::V6 => Ipv6Addr::from(*bytes?.first_chunk::<16>()?).into(),
    };
    group.is_multicast().then_some(group)
}

/// The records of a report (RFC 3376 §4.2, RFC 3810 §5.2): type, length of what is behind, number
/// of sources, group, sources.
fn records(version: Version, body: &[u8]) -> Vec<Told> {
    let width = if version == Version::V4 { 4 } else { 16 };
    let mut told = Vec::new();
    let mut rest = body.get(8..).unwrap_or_default();
    while let [kind, behind, high, low, ..] = *rest {
        let sources = usize::from(u16::from_be_bytes([high, low]));
        let end = 4 + width * (1 + sources) + 4 * usize::from(behind);
        let (Some(group), Some(left)) = (group(version, rest.get(4..)), rest.get(end..)) else {
            break;
        };
        told.extend(match (kind, sources) {
            (2 | 4, _) | (1 | 3 | 5, 1..) => Some(Told::Joins(group)),
            (1 | 3, 0) => Some(Told::Leaves(group)),
            _ => None,
        });
        rest = left;
    }
    told
}

#[cfg(test)]
mod tests {
    use units::Mac;
    use wire::whole;

    use super::*;

    fn of(ends: [&str; 2], carried: u8, body: &[u8]) -> Vec<Told> {
        let [from, to] = ends.map(|it| it.parse().unwrap());
        let macs = (Mac([2; 6]), Mac([1, 0, 0x5e, 1, 2, 3]));
        let mut body = body.to_vec();
        if carried == protocol::IGMP {
            let sum = Sum::of(&body).checksum();
            body[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        let frame = whole::packet(macs, (from, to), carried, &body).unwrap();
        overhear(&Fields::of(&frame).unwrap(), &frame)
    }

    #[test]
    fn reports_and_leaves_of_all_versions_are_understood() {
        let ends = ["10.0.0.1", "224.0.0.22"];
        let group: IpAddr = [239, 1, 2, 3].into();
        let igmp = |body: &[u8]| of(ends, protocol::IGMP, body);
        assert_eq!(igmp(&[0x16, 0, 0, 0, 239, 1, 2, 3]), [Told::Joins(group)]);
        assert_eq!(igmp(&[0x12, 0, 0, 0, 239, 1, 2, 3]), [Told::Joins(group)]);
        assert_eq!(igmp(&[0x17, 0, 0, 0, 239, 1, 2, 3]), [Told::Leaves(group)]);
        assert_eq!(igmp(&[0x11, 100, 0, 0, 0, 0, 0, 0]), [Told::Asks]);
        assert_eq!(igmp(&[0x16, 0, 0, 0, 10, 1, 2, 3]), []);
        let record = |kind: u8, sources: u8| {
            let mut record = [kind, 0, 0, sources, 239, 1, 2, 3].to_vec();
            record.resize(8 + 4 * usize::from(sources), 9);
            record
        };
        let both = [&[0x22, 0, 0, 0, 0, 0, 0, 2][..], &record(4, 0), &record(3, 0)].concat();
        assert_eq!(igmp(&both), [Told::Joins(group), Told::Leaves(group)]);
        let some = [&[0x22, 0, 0, 0, 0, 0, 0, 2][..], &record(6, 1), &record(5, 2)].concat();
        assert_eq!(igmp(&some), [Told::Joins(group)]);
        // Less than it says.
        assert_eq!(igmp(&both[..15]), []);
        let six: IpAddr = "ff05::1:3".parse().unwrap();
        let IpAddr::V6(address) = six else { unreachable!() };
        let ends = ["fe80::1", "ff02::16"];
        let body = [&[131, 0, 0, 0, 0, 0, 0, 0][..], &address.octets()].concat();
        assert_eq!(of(ends, protocol::ICMPV6, &body), [Told::Joins(six)]);
        let body = [&[143, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0][..], &address.octets()].concat();
        assert_eq!(of(ends, protocol::ICMPV6, &body), [Told::Leaves(six)]);
    }

    #[test]
    fn who_listens_to_many_gets_all() {
        let mut listener = Listener::default();
        let groups = || (0..=MOST as u8).map(|it| IpAddr::from([239, 0, 0, it]));
        assert!(!listener.wants([239, 9, 9, 9].into()));
        groups().for_each(|group| listener.hear(Told::Joins(group)));
        assert!(groups().all(|group| listener.wants(group)));
        assert!(listener.wants([239, 9, 9, 9].into()));
    }
}
