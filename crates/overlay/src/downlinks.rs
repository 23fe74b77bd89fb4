//! What far hosts may send here together: credit for each uplink with a declared rate, which its
//! networks share in the other direction, too.

use datapath::Network;
use shares::Terms;
use tunnel::Stream;
use tunnel::grants::{Downlink, Grant, Granted, Grants, LEAST, Progress, Sharing};
use units::{Instant, Rate, Span};
use wire::ecn::Ecn;

use crate::slots::{Owner, StreamKey};

/// The payload of a datagram before anything is known of the paths, in bytes: what every network
/// carries.
const SHORTEST: u32 = 512;

/// The links that credit is granted for, by the place of the uplink. None if no rate is declared.
pub struct Downlinks {
    links: Vec<Grants<StreamKey>>,
    /// What a datagram takes of a link besides its payload, in bytes.
    around: u32,
    /// When the next grant may be due although nothing arrives.
    due: Option<Instant>,
}

/// Where something has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The place of the uplink.
    pub link: usize,
    /// Whose stream it is.
    pub owner: Owner,
    /// The stream.
    pub stream: Stream,
}

impl Downlinks {
    /// So many uplinks of this rate, where what is guaranteed may wait for `latency`, and whose
    /// datagrams take `around` more of the link than their payload.
    pub fn new(rate: Option<Rate>, latency: Span, links: usize, around: u32) -> Self {
        let grants = |rate| Grants::new(Downlink { rate, datagram: SHORTEST, latency });
        let links = rate.map(|rate| vec![grants(rate); links]).unwrap_or_default();
        Self { links, around, due: None }
    }

    /// Whether credit is granted for them.
    pub fn are_shared(&self) -> bool {
        !self.links.is_empty()
    }

    /// Datagrams have payloads of so many bytes.
    pub fn reach(&mut self, datagram: usize) {
        self.links.iter_mut().for_each(|grants| grants.reach(datagram as u32));
    }

    /// What may be sent of a stream before it was granted anything, if so much is declared, by a
    /// host whose datagrams have payloads of so many bytes.
    pub fn unsolicited(&self, declared: u32, datagram: usize) -> u32 {
        if self.are_shared() { declared.min(LEAST * datagram as u32) } else { declared }
    }

    /// Gives a network terms.
    pub fn set_terms(&mut self, now: Instant, network: Network, terms: Terms) {
        for grants in &mut self.links {
            grants.set_terms(now, network.number(), terms);
        }
    }

    /// A datagram has arrived by an uplink, with a payload of so many bytes.
    #[inline]
    pub fn arrived(&mut self, now: Instant, link: usize, len: usize, traffic_class: u8) {
        if let Some(grants) = self.links.get_mut(link) {
            let is_marked = Ecn::of(traffic_class) == Ecn::Ce;
            grants.arrived(now, len as u32 + self.around, is_marked);
        }
    }

    /// Data of a stream was received, which is there now, in a datagram with so many bytes.
    pub fn received(
        &mut self,
        now: Instant,
        at: Place,
        network: Network,
        progress: Progress,
        len: usize,
    ) {
        let Self { links, around, .. } = self;
        if let Some(grants) = links.get_mut(at.link) {
            let (key, bytes) = ((at.owner, at.stream), len as u32 + *around);
            grants.received(now, key, network.number(), progress, bytes);
        }
    }

    /// The sender of a stream asks for credit.
    pub fn asked(&mut self, now: Instant, at: Place, progress: Progress) {
        if let Some(grants) = self.links.get_mut(at.link) {
            grants.asked(now, (at.owner, at.stream), progress);
        }
    }

    /// A far host's streams begin anew, go by another uplink, or are gone.
    pub fn forget(&mut self, owner: Owner) {
        self.links.iter_mut().for_each(|grants| grants.forget(|(it, _)| *it == owner));
    }

    /// A network's number is about to mean another.
    pub fn forget_network(&mut self, network: Network) {
        self.links.iter_mut().for_each(|grants| grants.forget_network(network.number()));
    }

    /// The next grant, until there is none.
    pub fn next(&mut self, now: Instant) -> Option<Grant<StreamKey>> {
        let next = self.links.iter_mut().find_map(|grants| grants.next(now));
        if next.is_none() {
            let ready = self.links.iter().filter_map(|grants| grants.ready_at(now));
            self.due = ready.min();
        }
        next
    }

    /// When [`next`](Self::next) is to be called although nothing arrives.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// How each is shared, in the order of the uplinks.
    pub fn sharing(&self, now: Instant) -> impl Iterator<Item = Sharing> {
        self.links.iter().map(move |grants| grants.sharing(now))
    }

    /// What a network was granted, of all uplinks.
    pub fn granted(&self, network: Network) -> Option<Granted> {
        let all = self.links.iter().filter_map(|grants| grants.granted(network.number()));
        all.reduce(|one, other| Granted {
            bytes: one.bytes + other.bytes,
            guaranteed_bytes: one.guaranteed_bytes + other.guaranteed_bytes,
        })
    }
}
