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
    /// Of a TransportNode: whether its agent is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// Of a TransportNode: how many revisions it is behind. Absent: its agent has never connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<u64>,
    /// Of a TransportNode that is behind: the revision up to which it executes everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executes: Option<u64>,
    /// Of a LogicalPort: the connected nodes that have it. Tenants are not told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Of a LogicalSwitch and a LogicalRouter: the domain that it is in. Tenants are not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Of a LogicalSwitch: how many LogicalPorts it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<u64>,
    /// Of a PortGroup: how many LogicalPorts are in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u64>,
    /// Of an AddressSet: how many addresses, prefixes and ranges it lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Of a Tenant: how much it has of what its quota counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
}

/// How much a tenant has of what its quota counts.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// LogicalPorts.
    pub ports: u64,
    /// LogicalSwitches.
    pub switches: u64,
    /// LogicalRouters.
    pub routers: u64,
    /// Rules of all policies.
    pub rules: u64,
    /// Addresses of all sets.
    pub set_members: u64,
    /// Nats.
    pub nat_entries: u64,
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
    /// Of a machine's port: the host that has it holds its frames to its rules.
    PolicyReady,
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
