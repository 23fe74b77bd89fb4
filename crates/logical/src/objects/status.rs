//! What a controller says of an object when somebody reads it.
//!
//! It is computed for each reading and kept nowhere, so it is no part of what is declared: where a
//! text has it, it is not read, and two objects that differ in it alone are equal.

use alloc::string::String;
use alloc::vec::Vec;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

/// What a controller says of an object.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
pub struct Status {
    /// What is so, each of its own type.
    pub conditions: Vec<Condition>,
}

/// Something that is so of an object, or is not.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Whether it is so.
    pub status: Truth,
    /// Why, in one word for programs.
    pub reason: String,
    /// Why, in a sentence for people.
    pub message: String,
    /// The object's `metadata.generation` that this is said of. Absent: it is of a revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<u64>,
}

/// What a condition is about.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
pub enum ConditionType {
    /// It is right, beside all others.
    Accepted,
    /// Of a group or a policy: it has ports.
    Resolved,
    /// What hosts are to execute of it is computed.
    Compiled,
    /// All hosts that have to do with it execute it.
    Realized,
    /// Hosts refuse what they are told of its domains. Absent: none does.
    Degraded,
    /// Of a machine's port: it is at a host.
    Bound,
}

/// Whether something is so.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
pub enum Truth {
    /// It is.
    True,
    /// It is not.
    False,
    /// Nobody can say now.
    Unknown,
}

/// What a text has in the place of a status: anything, and it is not read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Unread;

impl Unread {
    /// It is never written either.
    pub(super) const fn is_left_out(&self) -> bool {
        true
    }
}

impl Serialize for Unread {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}
