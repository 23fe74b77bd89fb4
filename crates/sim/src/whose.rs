//! Whose a queue is: what hosts and the physical network say of theirs when somebody looks.

/// Whose queue it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Whose {
    /// A transmitter of the physical network, by its port.
    Port(u32),
    /// What a virtual switch has for a machine; it is paused if its own frames find no room.
    Machine(u32),
    /// What a virtual switch has for its server's NIC; it is paused if the NIC has no room.
    Uplink(u32),
}
