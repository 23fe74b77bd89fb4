//! Logical ports that go to another host with their connections, or come from one.

use alloc::vec::Vec;

use logical::objects::Identity;
use pipeline::Place;
use units::Instant;

use crate::networks::{Networks, Ready};

/// What was handed over is of a place that is not the port at hand, nor behind it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0} is not the port, nor a child of it here")]
pub struct OfAnother(pub Identity);

impl Networks {
    /// What another host needs to go on with a port that is here, and with its children. `None`:
    /// there are no rows that have it, or it is a child itself.
    pub fn hand_over(&self, port: &Identity, now: Instant) -> Option<Vec<Place>> {
        let handed = |name: Identity| {
            let handover = self.state.hand_over(&name, now);
            (name, handover)
        };
        Some(self.going_with(port)?.into_iter().map(handed).collect())
    }

    /// Goes on with a port, and with its children, as another host had them. What was known of
    /// those here before is forgotten. Returns how many connections find no room: their packets are
    /// as if they were the first. `None` as of [`hand_over`](Self::hand_over).
    ///
    /// # Errors
    ///
    /// [`OfAnother`], and then nothing has changed.
    pub fn take_over(
        &mut self,
        port: &Identity,
        from: &[Place],
        now: Instant,
    ) -> Option<Result<usize, OfAnother>> {
        let own = self.going_with(port)?;
        if let Some((other, _)) = from.iter().find(|(name, _)| !own.contains(name)) {
            return Some(Err(OfAnother(other.clone())));
        }
        let taken = from.iter().map(|(name, it)| self.state.take_over(name, it, now));
        let lost = taken.sum();
        self.note_zones();
        Some(Ok(lost))
    }

    /// Whether a port of the switch is this one, wherever others reach it.
    pub fn is_attached(&self, port: &Identity) -> bool {
        self.bound.iter().flatten().any(|it| it.name == *port)
    }

    /// A port and its children, if it is a port of the switch and there are rows.
    fn going_with(&self, port: &Identity) -> Option<Vec<Identity>> {
        let bound = self.bound.iter().flatten().find(|it| it.name == *port)?;
        let (Ready { net, .. }, at) = bound.at.as_ref()?;
        let children = net.children(*at).map(|child| net.name(child).clone());
        Some([port.clone()].into_iter().chain(children).collect())
    }
}
