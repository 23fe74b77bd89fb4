//! Logical ports that are elsewhere than frames for them went.
//!
//! A port that moves is where [`Places`](crate::Places) say at once. Frames for it that are
//! underway to where it was come back, and others may not overtake them. So they go on to where it
//! was, where they wait, until the switch has none underway.

use datapath::Remote;
use logical::objects::{Identity, Kind};
use lossless::PortId;

use crate::flows::Site;
use crate::networks::Networks;

impl Networks {
    /// Whether the port that a label means is at another host.
    pub fn is_elsewhere(&self, label: u32) -> bool {
        self.port_of(label).is_some_and(|name| self.far.far(name).is_some())
    }

    /// Ports of the switch whose logical ports are at other hosts: they have left, or are to come.
    pub fn elsewhere(&self) -> impl Iterator<Item = (PortId, Remote)> {
        let all = (0..).zip(&self.bound);
        all.filter_map(|(number, bound)| {
            Some((PortId::new(number)?, self.far.far(&bound.as_ref()?.name)?))
        })
    }

    /// Where the port is that was there. `None`: it is there, or it is none of a machine.
    pub fn moved(&self, from: Remote) -> Option<Site> {
        let now = self.known_site(self.port_of(from.label)?);
        (now != Site::There(from)).then_some(now)
    }

    /// Frames for the port that was there go there until [`follow`](Self::follow).
    pub fn wait_for(&mut self, from: Remote) {
        if let Some(name) = self.port_of(from.label).cloned() {
            self.left.entry(name).or_insert(from);
            self.place_all();
        }
    }

    /// Frames for the port that was there go where it is.
    pub fn follow(&mut self, from: Remote) {
        let before = self.left.len();
        self.left.retain(|_, left| *left != from);
        if self.left.len() != before {
            self.place_all();
        }
    }

    /// The machine's port that a label means.
    fn port_of(&self, label: u32) -> Option<&Identity> {
        self.far.name(label).filter(|name| name.kind == Kind::LogicalPort)
    }
}
