//! Fragments, which IPv4 and IPv6 tell alike.

/// How much of a packet we see.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fragment {
    /// All of it.
    Whole,
    /// Its beginning: the transport header is here, the end is not.
    First,
    /// A later part, without a transport header.
    Later,
}

impl Fragment {
    /// From a fragment's offset and its "more fragments" bit.
    pub(crate) const fn new(offset: u16, more: bool) -> Self {
        match (offset, more) {
            (0, false) => Self::Whole,
            (0, true) => Self::First,
            _ => Self::Later,
        }
    }
}

/// Which packet a fragment is a part of, and where there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    /// Tells the packet from others between the same two addresses (RFC 791 §3.2, RFC 8200 §4.5).
    pub identification: u32,
    /// Nothing of the packet lies behind it.
    pub last: bool,
}
