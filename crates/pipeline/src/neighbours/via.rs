//! Neighbours as flows know them: by numbers, few enough that each can be watched.

use core::net::IpAddr;

use logical::objects::Identity;

/// A neighbour, or one of some that are taken for one: what is known of all of these may have
/// changed if that of one has.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Via(pub u8);

impl Via {
    /// The number of a neighbour, by its address and its router's port (FNV-1a).
    pub(crate) fn of((port, address): &(Identity, IpAddr)) -> Self {
        let address = match address {
            IpAddr::V4(it) => it.to_ipv6_mapped(),
            IpAddr::V6(it) => *it,
        };
        let names = port.tenant.iter().chain([&port.name]).flat_map(|it| it.as_str().bytes());
        let hash = names
            .chain(address.octets())
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Self((hash ^ hash >> 8 ^ hash >> 16 ^ hash >> 24) as u8)
    }
}

/// Neighbours of which something has changed.
#[derive(Clone, Debug, Default)]
pub struct Moved([u64; 4]);

impl Moved {
    pub fn insert(&mut self, Via(number): Via) {
        self.0[usize::from(number / 64)] |= 1 << (number % 64);
    }

    pub fn extend(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own |= other);
    }

    pub fn into_iter(self) -> impl Iterator<Item = Via> {
        let is_in = move |it: &u8| self.0[usize::from(it / 64)] & 1 << (it % 64) != 0;
        (0..=u8::MAX).filter(is_in).map(Via)
    }
}
