//! Who serves of those behind an address.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

use image::{Backend, Balancer};
use logical::objects::{Affinity, Identity};
use packet::{Tuple, address_hash, flow_hash};

use crate::outcome::Reason;

/// Backends that health checks have found down, by load balancer: their addresses and ports.
pub type Down = BTreeMap<Identity, BTreeSet<(IpAddr, u16)>>;

/// Chooses who serves, of those behind an address. `None` if it is not that address.
///
/// The choice is among all, and only where it is one that is down it is made again, among those
/// that are up: so whoever is served by one that is up stays there when another goes or comes back.
pub fn choose(
    (id, it): &(Identity, Balancer),
    down: &Down,
    tuple: Tuple,
) -> Option<Result<Tuple, Reason>> {
    let (address, port) = tuple.destination;
    let is_it =
        it.vip == address && it.protocol.0 == tuple.protocol && it.port.is_none_or(|it| it == port);
    if !is_it {
        return None;
    }
    let number = match it.affinity {
        Affinity::None => flow_hash(tuple),
        Affinity::ClientIp => address_hash(tuple.source.0),
    };
    let ends = |it: &Backend| (it.address, it.port.unwrap_or(port));
    let down = down.get(id);
    let is_up = |it: &&Backend| down.is_none_or(|down| !down.contains(&ends(it)));
    let chosen = one_of(it.backends.iter(), number).and_then(|(chosen, rest)| {
        let again = || one_of(it.backends.iter().filter(is_up), rest).map(|(chosen, _)| chosen);
        Some(chosen).filter(is_up).or_else(again)
    });
    let Some(chosen) = chosen else { return Some(Err(Reason::NoBackend)) };
    // Who asks for itself has to see the address answer, not itself.
    let is_own = chosen.address == tuple.source.0 && it.hairpin_snat;
    let source = if is_own { (it.vip, tuple.source.1) } else { tuple.source };
    Some(Ok(Tuple { source, destination: ends(chosen), ..tuple }))
}

/// The one of several that a number means, each as often as its weight, and what is left of the
/// number for another choice.
fn one_of<'a>(
    all: impl Iterator<Item = &'a Backend> + Clone,
    number: u64,
) -> Option<(&'a Backend, u64)> {
    let sum: u64 = all.clone().map(|it| u64::from(it.weight)).sum();
    let mut place = number.checked_rem(sum)?;
    let mut all = all;
    let chosen = all.find(|it| {
        let is_it = place < u64::from(it.weight);
        place = place.saturating_sub(it.weight.into());
        is_it
    })?;
    Some((chosen, number / sum))
}
