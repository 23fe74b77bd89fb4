//! Where each address was seen: the filtering database (802.1Q §8.8), learned and static, and who is in which network.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use units::{Instant, Mac, Span};

use crate::heading::Heading;
use crate::network::Members;
use crate::port::NOBODY;
use crate::{Network, PortConfig, PortId, PortSet};

/// An address in a network's VLAN, and the port it is reached by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MacEntry {
    /// The address.
    pub mac: Mac,
    /// Its VLAN; 0 for untagged frames.
    pub vlan: u16,
    /// Its network.
    pub network: Network,
    /// The port's number.
    pub port: u16,
    /// When a frame from it was last seen; `None` if an operator set it.
    pub seen: Option<Instant>,
}

/// A network, an address and its VLAN in one number: 16, 48 and 12 bits.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key(u128);

impl Key {
    #[inline]
    pub(crate) fn new(network: Network, mac: Mac, vlan: u16) -> Self {
        let in_network = mac.as_u64() << 12 | u64::from(vlan & 0xfff);
        Self(u128::from(network.number()) << 60 | u128::from(in_network))
    }

    fn network(self) -> Network {
        Network::from_number((self.0 >> 60) as u16)
    }

    fn mac(self) -> Mac {
        let [_, _, a, b, c, d, e, f] = ((self.0 >> 12) as u64).to_be_bytes();
        Mac([a, b, c, d, e, f])
    }
}

/// In place of a port's number: everybody in the network.
pub(crate) const EVERYBODY: u16 = 0xfffe;
/// In place of a port's number: nobody, as a port is no member of the network.
pub(crate) const NOT_MEMBER: u16 = 0xfffd;
/// In place of a port's number: nobody, as it came by a trunk and would leave by another.
pub(crate) const SPLIT_HORIZON: u16 = 0xfffc;

/// Where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The port's number, [`EVERYBODY`], [`NOT_MEMBER`] or [`SPLIT_HORIZON`].
    pub egress: u16,
    /// When the table wants to hear of the source again.
    pub refresh_at: Instant,
}

/// What was answered to whom, while the table has this generation: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Answered {
    heading: Heading,
    refresh_at: Instant,
    /// By its low bits: when those begin anew, nothing is at hand any more.
    generation: u32,
    port: u16,
    egress: u16,
}

const _: () = assert!(size_of::<Answered>() == 32, "two share a cache line");

/// Two answers for one place: so that a few flows of a thousand that meet there do not drive each other out. A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Pair([Answered; 2]);

/// The most places: 256 KiB of them.
const MOST_PAIRS: usize = 4096;

impl Answered {
    /// No frame has this heading.
    const NOTHING: Self = Self {
        heading: Heading::NONE,
        refresh_at: Instant::ZERO,
        generation: 0,
        port: NOBODY,
        egress: NOBODY,
    };
}

#[derive(Clone, Copy, Debug)]
struct Place {
    port: u16,
    /// `None` for a static entry, which never ages and never moves.
    seen: Option<Instant>,
}

/// The table behind the ports' own one-entry memories: a port asks only when the addresses are not the ones it asked for last,
/// or when the table has changed since. What was asked of late is at hand. The rest is in a tree, which no choice of addresses
/// makes slow.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MacTable {
    /// Grows with every change of any address's port. It is all that most frames ask.
    generation: u64,
    places: BTreeMap<Key, Place>,
    members: Members,
    /// What was asked of late, at the places that [`hash`](Heading::hash) says: none, or a power of two.
    recent: Vec<Pair>,
    /// How many addresses each port may have, and has, besides static ones. So no sender can fill the table for others.
    limit: u32,
    learned: Vec<u32>,
    age: Span,
    sweep_at: Instant,
}

impl MacTable {
    pub(crate) fn new(limit: u32, age: Span) -> Self {
        let (places, members) = (BTreeMap::new(), Members::default());
        let (recent, learned) = (Vec::new(), Vec::new());
        Self { places, members, recent, limit, learned, age, generation: 1, sweep_at: Instant::ZERO }
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Where a frame goes that came in by `port` and belongs to `vlan`, and until when that need not be asked again; the table
    /// learns where it came from.
    #[inline]
    pub(crate) fn ask(&mut self, now: Instant, heading: Heading, vlan: u16, port: u16) -> Answer {
        let place = heading.hash(port) as usize & self.recent.len().wrapping_sub(1);
        let generation = self.generation as u32;
        if let Some(Pair(pair)) = self.recent.get(place) {
            for recent in pair {
                if recent.heading == heading
                    && (recent.port, recent.generation) == (port, generation)
                    && now < recent.refresh_at
                {
                    return Answer { egress: recent.egress, refresh_at: recent.refresh_at };
                }
            }
        }
        self.look_up(now, heading, vlan, port)
    }

    #[inline(never)]
    fn look_up(&mut self, now: Instant, heading: Heading, vlan: u16, port: u16) -> Answer {
        let egress = self.find(now, heading, vlan, port);
        let refresh_at = now + self.refresh();
        // As many flows as addresses, and as much room again so that few meet.
        let room = (2 * self.places.len()).next_power_of_two().min(MOST_PAIRS);
        if self.recent.len() < room {
            self.recent = vec![Pair([Answered::NOTHING; 2]); room];
        }
        let place = heading.hash(port) as usize & (self.recent.len() - 1);
        let generation = self.generation as u32;
        let Pair(pair) = &mut self.recent[place];
        *pair = [Answered { heading, refresh_at, generation, port, egress }, pair[0]];
        Answer { egress, refresh_at }
    }

    /// Where a frame goes. The table learns where it came from, unless that is a trunk.
    fn find(&mut self, now: Instant, heading: Heading, vlan: u16, port: u16) -> u16 {
        let (network, source) = (heading.network(), heading.source());
        if self.members.is_member(PortId(port), network)
            && !self.members.is_trunk(PortId(port))
            && !source.is_multicast()
        {
            self.learn(now, Key::new(network, source, vlan), port);
        }
        self.egress(heading, vlan, port)
    }

    /// Where a frame goes, by what is known; nothing is learned.
    pub(crate) fn egress(&self, heading: Heading, vlan: u16, port: u16) -> u16 {
        let (network, destination) = (heading.network(), heading.destination());
        if !self.members.is_member(PortId(port), network) {
            return NOT_MEMBER;
        }
        let from_trunk = self.members.is_trunk(PortId(port));
        if destination.is_multicast() {
            return EVERYBODY;
        }
        let Some(&Place { port: egress, .. }) = self.places.get(&Key::new(network, destination, vlan)) else {
            return EVERYBODY;
        };
        if !self.members.is_member(PortId(egress), network) {
            NOT_MEMBER
        } else if from_trunk && egress != port && self.members.is_trunk(PortId(egress)) {
            SPLIT_HORIZON
        } else {
            egress
        }
    }

    /// A frame from `key` came in by `port`.
    pub(crate) fn learn(&mut self, now: Instant, key: Key, port: u16) {
        let (index, seen) = (usize::from(port), Some(now));
        if self.learned.len() <= index {
            self.learned.resize(index + 1, 0);
        }
        match self.places.get_mut(&key) {
            Some(Place { seen: None, .. }) => return,
            Some(place) if place.port == port => {
                place.seen = seen;
                return;
            }
            _ if self.learned[index] >= self.limit => return,
            Some(place) => self.learned[usize::from(place.port)] -= 1,
            None => {}
        }
        self.learned[index] += 1;
        self.places.insert(key, Place { port, seen });
        self.next_generation();
    }

    fn next_generation(&mut self) {
        self.generation += 1;
        if self.generation as u32 == 0 {
            self.recent.clear();
        }
    }

    /// An operator says that `key` is at `port`, for good.
    pub(crate) fn pin(&mut self, key: Key, port: u16) {
        let before = self.places.insert(key, Place { port, seen: None });
        if let Some(Place { port, seen: Some(_) }) = before {
            self.learned[usize::from(port)] -= 1;
        }
        self.next_generation();
    }

    pub(crate) fn attach(&mut self, port: PortId, config: &PortConfig) {
        self.members.attach(port, config);
    }

    pub(crate) fn detach(&mut self, port: PortId) {
        self.members.detach(port);
        self.forget_port(port);
    }

    pub(crate) fn join(&mut self, port: PortId, network: Network) {
        self.members.join(port, network);
        self.next_generation();
    }

    /// Forgets the addresses that `port` has in `network`, too.
    pub(crate) fn leave(&mut self, port: PortId, network: Network) {
        self.members.leave(port, network);
        self.places.retain(|key, place| place.port != port.0 || key.network() != network);
        self.changed();
    }

    /// Who is to have a frame that goes to [`EVERYBODY`].
    pub(crate) fn audience(&self, heading: Heading, from: PortId) -> PortSet {
        self.members.audience(heading.network(), from, heading.destination().is_multicast())
    }

    /// Forgets every address at `port`.
    pub(crate) fn forget_port(&mut self, port: PortId) {
        self.places.retain(|_, place| place.port != port.0);
        self.changed();
    }

    /// More than one address is another's, or nobody's, now.
    fn changed(&mut self) {
        self.next_generation();
        self.learned.fill(0);
        for place in self.places.values().filter(|place| place.seen.is_some()) {
            self.learned[usize::from(place.port)] += 1;
        }
    }

    /// When something may be too old.
    pub(crate) fn sweep_at(&self) -> Instant {
        self.sweep_at
    }

    /// Forgets what has not been seen for the ageing time. Ports tell of an address they keep seeing once in an
    /// eighth of it, so an address lives for at least seven eighths after its last frame.
    pub(crate) fn sweep(&mut self, now: Instant) {
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + self.refresh();
        let age = self.age;
        let before = self.places.len();
        self.places.retain(|_, place| place.seen.is_none_or(|seen| now.since(seen) < age));
        if self.places.len() != before {
            self.changed();
        }
    }

    /// How long a port may keep quiet about an address that it keeps seeing.
    #[inline]
    pub(crate) fn refresh(&self) -> Span {
        Span::from_nanos(self.age.as_nanos() / 8)
    }

    pub(crate) fn entries(&self) -> Vec<MacEntry> {
        let entry = |(key, place): (&Key, &Place)| MacEntry {
            mac: key.mac(),
            vlan: (key.0 & 0xfff) as u16,
            network: key.network(),
            port: place.port,
            seen: place.seen,
        };
        self.places.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::ethernet::Peek;

    use super::*;

    fn mac(number: u8) -> Mac {
        // Every seventh is a group's.
        Mac([2 | u8::from(number.is_multiple_of(7)), 0, 0, 0, 0, number])
    }

    #[test]
    fn an_address_that_is_pinned_leaves_its_place_to_one_that_is_learned() {
        let mut table = MacTable::new(1, Span::from_secs(300));
        let [first, second] = [1, 2].map(|number| Key::new(Network::default(), mac(number), 0));
        table.learn(Instant::ZERO, first, 0);
        table.learn(Instant::ZERO, second, 0);
        assert_eq!(table.entries().len(), 1);
        table.pin(first, 0);
        table.learn(Instant::ZERO, second, 0);
        assert_eq!(table.entries().len(), 2);
    }

    proptest! {
        #[test]
        fn what_is_at_hand_is_what_the_table_says(
            steps in prop::collection::vec((0u8..18, 0u8..24, 0u8..24, 0u16..4, 0u16..2), 1..200),
        ) {
            // Two local ports in network 0, and two trunks.
            let table = || {
                let mut table = MacTable::new(8, Span::from_secs(300));
                for port in 0..4 {
                    table.attach(PortId(port), &PortConfig { trunk: port > 1, ..PortConfig::default() });
                }
                table
            };
            let (mut table, mut forgetful) = (table(), table());
            for (step, from, to, port, number) in steps {
                let (source, destination) = (mac(from), mac(to));
                let network = Network::from_number(number);
                let tables = [&mut table, &mut forgetful];
                match step {
                    0 => tables.map(|table| table.pin(Key::new(network, source, 0), port)),
                    1 => tables.map(|table| table.forget_port(PortId(port))),
                    2..=4 => tables.map(|table| table.join(PortId(port | 2), network)),
                    5 => tables.map(|table| table.leave(PortId(port | 2), network)),
                    _ => {
                        let heading = Heading::of(&Peek::new(destination, source, None), network);
                        tables[1].recent.clear();
                        let answers = tables.map(|table| table.ask(Instant::ZERO, heading, 0, port));
                        prop_assert_eq!(answers[0].egress, answers[1].egress);
                        [(); 2]
                    }
                };
                prop_assert_eq!(table.generation(), forgetful.generation());
            }
        }
    }
}
