//! How a host ends.

/// How a host ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// For the next one to go on: containers keep their interfaces, with all addresses and routes.
    Leave,
    /// For good: containers' interfaces are removed.
    Remove,
    /// As if it had never begun: what it made is removed, and what it found is left.
    Undo,
}
