//! The proof of the law, a few ports at a time, beside the forwarding of frames.

use lossless::{PortId, Switch};
use port::Slot;
use units::Class;

/// How many frames a slice counts before it ends; at least one port is counted whole.
const BUDGET: u64 = 256;

/// How many ports a slice visits at most.
const PORTS: usize = 16;

/// Rounds through all ports, a slice at a time.
#[derive(Debug)]
pub struct Audit {
    /// The number of the port that is next.
    next: usize,
    /// Nothing was found in this round.
    sound: bool,
    /// Nothing was found in the last completed round.
    balanced: bool,
}

impl Default for Audit {
    fn default() -> Self {
        Self { next: 0, sound: true, balanced: true }
    }
}

impl Audit {
    /// Audits the next few of these ports, which are by number.
    pub fn step(&mut self, switch: &Switch<Slot>, ports: impl ExactSizeIterator<Item = Option<PortId>>) {
        let (mut next, mut counted, count) = (self.next, 0, ports.len());
        let slice = ports.enumerate().skip(next).take(PORTS);
        for (number, port) in slice {
            if counted >= BUDGET {
                break;
            }
            next = number + 1;
            if let Some(id) = port {
                self.sound &= switch.audit_port(id).is_ok();
                counted += Class::all().map(|class| switch.egress_account(id, class).held).sum::<u64>();
            }
        }
        self.next = next;
        if next >= count {
            *self = Self { next: 0, sound: true, balanced: self.sound };
        }
    }

    /// Whether the last completed round found no defect.
    pub fn is_balanced(&self) -> bool {
        self.balanced
    }
}
