//! Who serves of those behind an address.

use image::Balancer;
use logical::objects::Affinity;
use packet::{Tuple, address_hash, flow_hash};

use crate::outcome::Reason;

/// Chooses who serves, of those behind an address. `None` if it is not that address.
pub fn choose(it: &Balancer, tuple: Tuple) -> Option<Result<Tuple, Reason>> {
    let (address, port) = tuple.destination;
    let is_it =
        it.vip == address && it.protocol.0 == tuple.protocol && it.port.is_none_or(|it| it == port);
    if !is_it {
        return None;
    }
    let all: u64 = it.backends.iter().map(|it| u64::from(it.weight)).sum();
    if all == 0 {
        return Some(Err(Reason::NoBackend));
    }
    let number = match it.affinity {
        Affinity::None => flow_hash(tuple),
        Affinity::ClientIp => address_hash(tuple.source.0),
    };
    let mut place = number % all;
    let chosen = it.backends.iter().find(|it| {
        let is_it = place < u64::from(it.weight);
        place = place.saturating_sub(it.weight.into());
        is_it
    })?;
    let destination = (chosen.address, chosen.port.unwrap_or(port));
    // Who asks for itself has to see the address answer, not itself.
    let is_own = chosen.address == tuple.source.0 && it.hairpin_snat;
    let source = if is_own { (it.vip, tuple.source.1) } else { tuple.source };
    Some(Ok(Tuple { source, destination, ..tuple }))
}
