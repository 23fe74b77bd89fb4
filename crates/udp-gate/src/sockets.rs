//! Finds the sockets that may receive a datagram.
//!
//! An index of the kernel's slots by namespace and port. It follows a journal: before each decision
//! it checks whether a socket was opened, closed or bound anew. Usually that costs one load.
//!
//! ```text
//! (namespace, port) ──▶ known[i] ──▶ known[j] ──▶ none
//! ```

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::programs::{JOURNAL, Kernel, Name, SLOTS};

/// The end of a list. Slot 0 is never used.
const NONE: u32 = 0;

/// The unspecified IPv4 address, mapped into IPv6.
const ANY_V4: u128 = 0xffff_0000_0000;

/// The addresses of a datagram. IPv4 addresses are mapped: ::ffff:a.b.c.d.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Datagram {
    pub namespace: u32,
    pub source: u128,
    pub destination: u128,
    pub source_port: u16,
    pub destination_port: u16,
    /// Whether it goes to every listening socket instead of one: multicast or broadcast.
    pub to_all: bool,
}

/// How well a socket matches a datagram. The best comes last, as in the kernel's `compute_score`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Fit {
    exact: bool,
    pub connected: bool,
    native: bool,
}

/// Of the sockets that may receive a datagram, the one that decides.
#[derive(Clone, Copy, Debug)]
pub struct Tightest<S> {
    pub socket: S,
    /// Whether it receives from one sender only.
    pub connected: bool,
    pub has_room: bool,
}

/// Of the sockets that may receive a datagram, the first without room, or else any.
#[inline]
pub fn tightest<S: Copy>(
    to_all: bool,
    candidates: impl Iterator<Item = (S, Fit)>,
    has_room: impl Fn(S) -> bool,
) -> Option<Tightest<S>> {
    let mut best = None;
    let mut tightest: Option<Tightest<S>> = None;
    for (socket, fit) in candidates {
        if !to_all {
            if best > Some(fit) {
                continue;
            }
            if best < Some(fit) {
                (best, tightest) = (Some(fit), None);
            }
        }
        if tightest.is_none_or(|tightest| tightest.has_room) {
            let connected = fit.connected && !to_all;
            tightest = Some(Tightest { socket, connected, has_room: has_room(socket) });
        }
    }
    tightest
}

/// The last known contents of one slot.
#[derive(Clone, Copy, Debug)]
struct Known {
    name: Name,
    next: u32,
}

/// The index.
#[derive(Debug)]
pub struct Sockets {
    first: HashMap<u64, u32, BuildHasherDefault<Mixer>>,
    known: Vec<Option<Known>>,
    /// How many journal entries were read.
    read: u64,
}

impl Sockets {
    pub fn new() -> Self {
        Self { first: HashMap::default(), known: vec![None; SLOTS], read: 0 }
    }

    /// Reads new journal entries.
    #[inline]
    pub fn follow(&mut self, kernel: &Kernel) {
        let changes = kernel.changes();
        if changes != self.read {
            self.catch_up(kernel, changes);
        }
    }

    #[cold]
    fn catch_up(&mut self, kernel: &Kernel, changes: u64) {
        // Half the journal's length, so that no entry is overwritten while we read it.
        if changes - self.read > JOURNAL as u64 / 2 {
            self.read = changes;
            for index in 1..=kernel.taken() {
                self.learn(index as u32, kernel.slot(index as u32).name());
            }
            return;
        }
        while self.read < changes {
            let (number, index) = kernel.journal(self.read);
            if number != (self.read + 1) as u32 {
                return; // Counted, but not written yet: read it next time.
            }
            self.read += 1;
            self.learn(index, kernel.slot(index).name());
        }
    }

    fn learn(&mut self, index: u32, name: Option<Name>) {
        if let Some(old) = self.known[index as usize].take() {
            self.unlink(index, old);
        }
        if let Some(name) = name {
            let first = self.first.entry(place(name.namespace, name.local_port)).or_insert(NONE);
            self.known[index as usize] = Some(Known { name, next: *first });
            *first = index;
        }
    }

    fn unlink(&mut self, index: u32, old: Known) {
        let place = place(old.name.namespace, old.name.local_port);
        let first = self.first.get_mut(&place).expect("a known slot is in its list");
        if *first == index {
            *first = old.next;
            if old.next == NONE {
                self.first.remove(&place);
            }
            return;
        }
        let mut at = *first;
        while let Some(known) = &mut self.known[at as usize] {
            if known.next == index {
                known.next = old.next;
                return;
            }
            at = known.next;
        }
    }

    /// The sockets on a datagram's port that may receive it, and how well they match.
    #[inline]
    pub fn candidates(&self, datagram: &Datagram) -> impl Iterator<Item = (u32, Fit)> {
        let place = place(datagram.namespace, datagram.destination_port);
        let mut index = self.first.get(&place).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let here = index;
            let known = self.known[here as usize].as_ref()?;
            index = known.next;
            Some((here, &known.name))
        })
        .filter_map(|(index, name)| fit(name, datagram).map(|fit| (index, fit)))
    }
}

/// How well a socket on the datagram's port matches it; `None` if it cannot receive it.
#[inline]
pub fn fit(name: &Name, datagram: &Datagram) -> Option<Fit> {
    /// The index of the loopback interface in every namespace. What we deliver never comes from
    /// there.
    const LOOPBACK: u32 = 1;
    let v4 = is_v4(datagram.destination);
    if (v4 && name.v6 && name.v6_only) || (!v4 && !name.v6) || name.device == LOOPBACK {
        return None;
    }
    let exact = name.local == datagram.destination;
    if !exact && name.local != 0 && !(v4 && name.local == ANY_V4) {
        return None;
    }
    let connected = name.remote_port != 0;
    if connected && (name.remote_port, name.remote) != (datagram.source_port, datagram.source) {
        return None;
    }
    Some(Fit { exact, connected, native: name.v6 != v4 })
}

/// Whether an address is a mapped IPv4 address.
#[inline]
pub fn is_v4(address: u128) -> bool {
    address >> 32 == 0xffff
}

#[inline]
fn place(namespace: u32, port: u16) -> u64 {
    u64::from(namespace) << 16 | u64::from(port)
}

/// A fast hash, good enough for tables and for telling flows apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixer(u64);

impl Mixer {
    #[inline]
    pub fn add(&mut self, value: u64) {
        // Folding the full product carries every bit into every other (wyhash's step).
        let product = u128::from(self.0 ^ value ^ 0xa076_1d64_78bd_642f) * 0xe703_7ed1_a0b4_28db;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for Mixer {
    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.add(u64::from(value));
    }

    #[inline]
    fn write_u128(&mut self, value: u128) {
        self.add(value as u64);
        self.add((value >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.add(u64::from(*byte));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    const HERE: [u8; 4] = [10, 0, 0, 2];
    const PEER: [u8; 4] = [10, 0, 0, 1];

    fn bits(address: impl Into<IpAddr>) -> u128 {
        match address.into() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    fn datagram(source: impl Into<IpAddr>, destination: impl Into<IpAddr>) -> Datagram {
        let (source, destination) = (bits(source), bits(destination));
        let ports = (1000, 53);
        Datagram {
            namespace: 7,
            source,
            destination,
            source_port: ports.0,
            destination_port: ports.1,
            to_all: false,
        }
    }

    fn bound(local: impl Into<IpAddr>) -> Name {
        let local = local.into();
        Name {
            local: bits(local),
            remote: 0,
            local_port: 53,
            remote_port: 0,
            v6: local.is_ipv6(),
            v6_only: false,
            device: 0,
            namespace: 7,
        }
    }

    #[test]
    fn a_socket_hears_its_own_addresses() {
        let four = datagram(PEER, HERE);
        let six = datagram(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        let hears = |name: Name, datagram| fit(&name, &datagram).is_some();
        let (any4, any6) = (bound(Ipv4Addr::UNSPECIFIED), bound(Ipv6Addr::UNSPECIFIED));

        assert!(hears(bound(HERE), four) && hears(any4, four) && hears(any6, four));
        assert!(hears(bound(Ipv6Addr::LOCALHOST), six) && hears(any6, six));
        assert!(!hears(bound(PEER), four) && !hears(any4, six) && !hears(bound(HERE), six));
        assert!(!hears(Name { v6_only: true, ..any6 }, four), "IPv6 only");
        assert!(!hears(Name { device: 1, ..any4 }, four), "the loopback device only");
        assert!(hears(Name { device: 2, ..any4 }, four), "which device delivers is not known here");
    }

    #[test]
    fn connected_sockets_match_best_and_bound_ones_before_unbound() {
        let four = datagram(PEER, HERE);
        let rank = |name: Name| fit(&name, &four).unwrap();
        let connected = Name { remote: bits(PEER), remote_port: 1000, ..bound(HERE) };
        assert!(rank(connected) > rank(bound(HERE)));
        assert!(rank(bound(HERE)) > rank(bound(Ipv4Addr::UNSPECIFIED)));
        assert!(rank(bound(Ipv4Addr::UNSPECIFIED)) > rank(bound(Ipv6Addr::UNSPECIFIED)));
        assert_eq!(
            fit(&Name { remote_port: 1001, ..connected }, &four),
            None,
            "connected to another"
        );
    }

    #[test]
    fn the_index_forgets_removed_sockets() {
        let mut sockets = Sockets::new();
        let found = |sockets: &Sockets| {
            let mut found: Vec<_> =
                sockets.candidates(&datagram(PEER, HERE)).map(|(index, _)| index).collect();
            found.sort_unstable();
            found
        };
        let any = Some(bound(Ipv4Addr::UNSPECIFIED));
        (1..=4).for_each(|index| sockets.learn(index, any));
        assert_eq!(found(&sockets), [1, 2, 3, 4]);
        sockets.learn(2, None);
        sockets.learn(4, None);
        assert_eq!(found(&sockets), [1, 3]);
        sockets.learn(3, Some(Name { namespace: 8, ..bound(HERE) }));
        sockets.learn(2, any);
        assert_eq!(found(&sockets), [1, 2]);
        (1..=4).for_each(|index| sockets.learn(index, None));
        assert!(sockets.first.is_empty() && sockets.known.iter().all(Option::is_none));
    }
}
