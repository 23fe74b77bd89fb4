//! What a write has done.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a write has done.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// The revision from which on it is there. Of a dry run: the one that it was compared with.
    pub revision: u64,
    /// What became of each object, in the order of their kinds, tenants and names.
    pub objects: Vec<AppliedObject>,
}

/// What a write has done, now or before.
#[derive(Clone, Debug)]
pub struct Done {
    /// It.
    pub applied: Applied,
    /// Whether a request with the same key has done it before, and this one nothing.
    pub is_repeated: bool,
}

/// What became of one object.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AppliedObject {
    /// The object, as `LogicalPort/shop/web-1`.
    pub object: String,
    /// What became of it.
    pub change: AppliedChange,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AppliedChange {
    /// It is new.
    Created,
    /// It was there, and is otherwise now.
    Updated,
    /// It was there as it is declared.
    Unchanged,
    /// It is gone.
    Deleted,
}
