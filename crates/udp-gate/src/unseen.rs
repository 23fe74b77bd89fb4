//! Datagrams that went into a namespace for which no socket there is known.
//!
//! The first of a flow is no news: a socket is known from its first datagram on. But if others
//! follow after all sockets were looked at, who receives them is elsewhere (behind address
//! translation, a macvlan, or a namespace in the container), or nobody does.

use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv6Addr, SocketAddr};

use super::sockets::Datagram;
use super::verdict::FlowKey;

/// How many flows are remembered: of those that share a place, the last one.
const PLACES: usize = 4096;

/// The rounds after which all sockets were looked at again.
const SURVEYED: u32 = 2;

/// A datagram without a known socket.
#[derive(Clone, Copy, Debug)]
pub struct Stranger {
    flow: u64,
    namespace: u32,
    address: u128,
    port: u16,
}

impl Stranger {
    /// A datagram of this flow.
    pub fn new(FlowKey(flow): FlowKey, datagram: &Datagram) -> Self {
        let Datagram { namespace, destination, destination_port, .. } = *datagram;
        Self { flow, namespace, address: destination, port: destination_port }
    }
}

/// What is known of datagrams whose sockets are not seen, since the namespace was served.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct UnseenStatus {
    /// How many there were.
    pub datagrams: u64,
    /// For whom the last one was.
    pub last: Option<SocketAddr>,
}

/// Counts them. Allocates with the first.
#[derive(Debug, Default)]
pub struct Unseen {
    /// By place: a flow, and the round in which it was first met.
    met: Vec<Option<(u64, u32)>>,
    counts: HashMap<u32, UnseenStatus>,
    /// The namespaces whose sockets are to be looked at because of a new flow.
    doubtful: BTreeSet<u32>,
}

impl Unseen {
    /// A datagram was transmitted in this round.
    pub fn passed(&mut self, stranger: Stranger, round: u32) {
        let Stranger { flow, namespace, address, port } = stranger;
        if self.met.is_empty() {
            self.met = vec![None; PLACES];
        }
        let place = &mut self.met[flow as usize % PLACES];
        let Some((_, since)) = place.filter(|(met, _)| *met == flow) else {
            *place = Some((flow, round));
            self.doubtful.insert(namespace);
            return;
        };
        if round >= since + SURVEYED {
            let status = self.counts.entry(namespace).or_default();
            status.datagrams += 1;
            let address = Ipv6Addr::from_bits(address).to_canonical();
            status.last = Some(SocketAddr::new(address, port));
        }
    }

    /// The namespaces whose sockets are to be looked at. Each is returned once.
    pub fn doubtful(&mut self) -> impl Iterator<Item = u32> + use<> {
        std::mem::take(&mut self.doubtful).into_iter()
    }

    /// What is known of a namespace.
    pub fn status(&self, namespace: u32) -> UnseenStatus {
        self.counts.get(&namespace).copied().unwrap_or_default()
    }

    /// Forgets a namespace.
    pub fn forget(&mut self, namespace: u32) {
        self.counts.remove(&namespace);
        self.doubtful.remove(&namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(flow: u64) -> Stranger {
        Stranger { flow, namespace: 7, address: 0xffff_0a00_0001, port: 53 }
    }

    #[test]
    fn only_flows_that_are_strange_after_a_look_are_counted() {
        let mut unseen = Unseen::default();
        (0..10).for_each(|flow| unseen.passed(stranger(flow), 5));
        assert_eq!(unseen.doubtful().collect::<Vec<_>>(), [7]);
        assert_eq!(unseen.doubtful().count(), 0);
        unseen.passed(stranger(3), 6);
        assert_eq!(unseen.status(7), UnseenStatus::default());
        // One that takes the place of another is new.
        unseen.passed(stranger(3), 7);
        unseen.passed(stranger(4 + PLACES as u64), 7);
        let last = Some("10.0.0.1:53".parse().unwrap());
        assert_eq!(unseen.status(7), UnseenStatus { datagrams: 1, last });
        assert_eq!(unseen.status(8), UnseenStatus::default());
        unseen.forget(7);
        assert_eq!(unseen.status(7), UnseenStatus::default());
    }
}
