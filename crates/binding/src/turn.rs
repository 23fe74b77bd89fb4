//! Frames that other hosts hand to routers that translate here: they go around once, by a port that
//! hands back what it is given.
//!
//! ```text
//! far host ─▶ arrive ─▶ leave ─▶ ┌──────────┐
//!               in a header: for │ the turn │ ─▶ send ─▶ its receivers, here or elsewhere
//!               whom, from where └──────────┘
//! ```
//!
//! What a host says of load balancers' backends goes by the turn, too: out to other hosts in a
//! header for nobody, and in from them in one for the load balancer.
//!
//! So a router's frame lies in memory of its own while it waits for its receiver, and is decided
//! when it comes and when it leaves like a frame of any port. What a router tells a sender
//! elsewhere goes the same way.

use alloc::sync::Arc;
use alloc::vec::Vec;

use datapath::Origin;
use logical::objects::{Identity, Kind};
use lossless::PortId;
use pipeline::{Net, Onward, Sent, Told};
use units::{Class, Instant};
use wire::PartialChecksum;

use crate::networks::Networks;
use crate::notes::MachineFrame;
use crate::seed::reseed;

/// What goes around before a frame: two Ethernet addresses that say for whom the frame is and where
/// it is from, an experimental EtherType (802, clause 9.2.4), and the class.
const LEN: usize = 16;
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// Addresses of nobody: locally administered.
const LOCAL: u8 = 0x02;

/// A word for the other hosts that choose among the backends of the load balancer with a label.
pub fn for_others(label: u32, word: &[u8]) -> Vec<u8> {
    let origin = Origin { label, is_networks: true, ..Origin::default() };
    wrapped(0, origin, Class::default(), word)
}

/// A frame with what is to be known of it when it comes back.
pub fn wrapped(label: u32, origin: Origin, class: Class, frame: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(LEN + frame.len());
    made.extend([LOCAL, u8::from(origin.is_networks)]);
    made.extend(label.to_be_bytes());
    made.extend([LOCAL, origin.routers]);
    made.extend(origin.label.to_be_bytes());
    made.extend(ETHERTYPE);
    made.extend([class.pcp(), 0]);
    made.extend(frame);
    made
}

/// The label that a frame is for, where it is from, its class, and the frame.
fn unwrapped(bytes: &[u8]) -> Option<(u32, Origin, Class, &[u8])> {
    let (header, frame) = bytes.split_at_checked(LEN)?;
    let number = |at: usize| header.get(at..at + 4)?.first_chunk().copied().map(u32::from_be_bytes);
    let origin = Origin {
        label: number(8)?,
        is_networks: header[1] != 0,
        routers: header[7],
        ..Origin::default()
    };
    Some((number(2)?, origin, Class::from_low_bits(header[14]), frame))
}

/// Which host says something of a load balancer's backends.
pub enum Said {
    /// This one, to others.
    Here(Identity),
    /// Another one.
    There(Identity),
}

impl Networks {
    /// The class of a frame that has come back by the turn; `None` of any other port's.
    pub fn class(&self, from: PortId, bytes: &[u8]) -> Option<Class> {
        (self.turn == Some(from)).then(|| unwrapped(bytes).map(|it| it.2)).flatten()
    }

    /// The turn, if frames with this label are for a router here, or of a load balancer.
    pub(crate) fn turn_of(&self, name: &Identity) -> Option<PortId> {
        let is_its = match name.kind {
            Kind::LoadBalancer => true,
            Kind::RouterPort => self.nets.iter().any(|it| it.net.resumes(name)),
            _ => false,
        };
        self.turn.filter(|_| is_its)
    }

    /// What has come back by the turn of a load balancer's backends, if it is no router's frame.
    pub(crate) fn word<'a>(&self, from: PortId, bytes: &'a [u8]) -> Option<(Said, &'a [u8])> {
        let (label, origin, _, word) = unwrapped(bytes).filter(|_| self.turn == Some(from))?;
        let balancer = |label| self.far.name(label).filter(|it| it.kind == Kind::LoadBalancer);
        let said = match label {
            0 => Said::Here(balancer(origin.label)?.clone()),
            _ => Said::There(balancer(label)?.clone()),
        };
        Some((said, word))
    }

    /// A frame as it goes around.
    pub(crate) fn around(
        &self,
        (label, origin): (u32, Origin),
        class: Class,
        frame: &[u8],
    ) -> Option<Vec<u8>> {
        self.turn_of(self.far.name(label)?)?;
        Some(wrapped(label, origin, class, frame))
    }

    /// A frame as its receiver gets it has the checksum that belongs to its addresses.
    pub(crate) fn reseed(&mut self, sent: &MachineFrame<'_>) {
        let MachineFrame { from, bytes, partial, .. } = *sent;
        let inner = match self.turn == Some(from) {
            true => unwrapped(bytes).map_or(bytes, |it| it.3),
            false => bytes,
        };
        let partial = partial.map(|it| {
            let start = usize::from(it.start).saturating_sub(bytes.len() - inner.len());
            PartialChecksum { start: start as u16, ..it }
        });
        reseed((inner, inner.len()), &mut self.leaving.frame, partial);
    }

    /// A frame that has come back, and who decides about it.
    fn returned(&self, bytes: &[u8]) -> Option<(Arc<Net>, Onward)> {
        let (label, origin, _, frame) = unwrapped(bytes)?;
        let to = self.far.name(label)?.clone();
        let knows = |net: &Arc<Net>| match to.kind {
            Kind::RouterPort => net.has_router_port(&to),
            _ => net.port(&to).is_some(),
        };
        let net = self.nets.iter().map(|it| &it.net).find(|net| knows(net))?.clone();
        let Origin { is_networks, routers, .. } = origin;
        let origin = self.far.name(origin.label).cloned();
        Some((net, Onward { to, origin, is_networks, routers, frame: frame.to_vec() }))
    }

    /// What becomes of a frame that comes by a port; `None` if there is nobody to decide about it.
    pub(crate) fn decide(
        &self,
        now: Instant,
        from: PortId,
        frame: &[u8],
        excess: usize,
    ) -> Option<(Arc<Net>, Sent)> {
        if self.turn != Some(from) {
            let (net, at) = self.bound(from)?;
            let sent = net.send_large(&self.state, now, at, frame, excess);
            return Some((net, sent));
        }
        let (net, onward) = self.returned(frame)?;
        let sent = match onward.is_to_router() && net.resumes(&onward.to) {
            true => net.resume_large(&self.state, now, &onward, excess),
            // What a router tells a sender, or held that is elsewhere now.
            false => Sent { onward: [onward].into(), ..Sent::default() },
        };
        Some((net, sent))
    }

    /// The sender of a frame that has come back is told of it, at its own host.
    pub(crate) fn tell_far(&mut self, now: Instant, bytes: &[u8], told: &[Told]) {
        let Some((net, onward)) = self.returned(bytes) else { return };
        let Some(turn) = self.turn else { return };
        for told in told {
            let Some(answer) = net.answer(&onward, *told) else { continue };
            let label = self.far.label(&answer.to);
            let origin = Origin { is_networks: true, ..Origin::default() };
            let class = unwrapped(bytes).map_or(Class::default(), |it| it.2);
            self.answer(now, turn, &answer.to, wrapped(label, origin, class, &answer.frame));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_around_comes_back() {
        let origin =
            Origin { label: 0x0102_0304, is_networks: true, routers: 7, ..Origin::default() };
        for class in Class::all() {
            let bytes = wrapped(0xfedc_ba98, origin, class, b"frame");
            assert_eq!(unwrapped(&bytes), Some((0xfedc_ba98, origin, class, &b"frame"[..])));
            assert!(unwrapped(&bytes[..LEN - 1]).is_none());
        }
    }
}
