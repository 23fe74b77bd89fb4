//! What became of frames from one far host.

use std::collections::BTreeMap;

use lossless::Reason;
use model::LedgerStatus;

/// Frames that the plane has polled: accepted = delivered + refused + held.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    accepted: u64,
    delivered: u64,
    refused: BTreeMap<&'static str, u64>,
    /// Their bytes on a wire.
    bytes: u64,
}

impl Ledger {
    /// The plane has polled a frame with so many bytes on a wire.
    pub fn accept(&mut self, bytes: u64) {
        self.accepted += 1;
        self.bytes += bytes;
    }

    /// The plane is done with a frame: its last receiver has it, or it was refused for this reason.
    pub fn end(&mut self, refused: Option<Reason>) {
        match refused {
            None => self.delivered += 1,
            Some(reason) => *self.refused.entry(reason.name()).or_default() += 1,
        }
    }

    /// Bytes of accepted frames on a wire.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The ledger as the API reports it.
    pub fn status(&self) -> LedgerStatus {
        let refused = self.refused.values().sum::<u64>();
        LedgerStatus {
            accepted: self.accepted,
            delivered: self.delivered,
            refused: self.refused.iter().map(|(name, count)| ((*name).into(), *count)).collect(),
            held: self.accepted - self.delivered - refused,
        }
    }
}
