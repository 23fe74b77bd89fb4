//! What a host remembers of the frames before.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use logical::objects::{Direction, Identity};
use packet::Tuple;
use units::{Instant, Mac};

use crate::outcome::Change;

/// Which packet a fragment is of: by the port that sees it, and which way.
pub type FragmentOf = (Identity, Direction, u32, IpAddr, IpAddr, u8);

/// What a host knows of the packets before.
#[derive(Clone, Debug, Default)]
pub struct State {
    fragments: BTreeMap<FragmentOf, (Tuple, Instant)>,
    learned: BTreeMap<(Identity, Mac), Identity>,
}

impl State {
    /// Makes the changes of a frame that has left.
    pub fn commit(&mut self, changes: &[Change]) {
        for change in changes.iter().cloned() {
            match change {
                Change::Fragment(of, tuple, until) => {
                    self.fragments.insert(of, (tuple, until));
                }
                Change::Learned(switch, mac, port) => {
                    self.learned.insert((switch, mac), port);
                }
            }
        }
    }

    /// The ends of the packet that a later fragment is of.
    pub(crate) fn fragment(&self, of: &FragmentOf, now: Instant) -> Option<Tuple> {
        self.fragments.get(of).filter(|(_, until)| *until > now).map(|(tuple, _)| *tuple)
    }

    pub(crate) fn learned(&self, switch: &Identity, mac: Mac) -> Option<&Identity> {
        self.learned.get(&(switch.clone(), mac))
    }
}
