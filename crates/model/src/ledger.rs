//! The books of a port's direction: accepted = delivered + refused + held.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ClassKind;

/// A ledger for each class, and their total.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ledgers {
    /// All classes together.
    pub total: LedgerStatus,
    /// Each class that had a frame.
    pub classes: Vec<ClassStatus>,
}

/// One class of one direction of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClassStatus {
    /// The class, 0 to 7.
    pub class: u8,
    /// Whether it is lossless or lossy.
    pub kind: ClassKind,
    /// Its ledger.
    pub ledger: LedgerStatus,
}

/// A ledger: accepted = delivered + refused + held, in frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LedgerStatus {
    /// Frames accepted from a sender.
    pub accepted: u64,
    /// Frames delivered to a receiver.
    pub delivered: u64,
    /// Frames refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Frames held now.
    pub held: u64,
}

impl Ledgers {
    /// Whether every frame is accounted for, in each class and together.
    pub fn balances(&self) -> bool {
        self.total.balances() && self.classes.iter().all(|class| class.ledger.balances())
    }
}

impl LedgerStatus {
    /// Frames refused for whatever reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Whether every accepted frame is accounted for.
    pub fn balances(&self) -> bool {
        self.accepted == self.delivered + self.refused_total() + self.held
    }
}
