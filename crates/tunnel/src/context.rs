//! What goes with a frame of a logical network from host to host.
//!
//! A host decides by its own ports' rules, and of a frame from another host it knows only what that
//! says of it: from which port it is, which generation decided it, and what kind of frame it is.
//!
//! ```text
//!  0                   1                   2                   3
//!  ├───────────────────────── origin ──────────────────────────────┤
//!  ├─────────────────────── generation ────────────────────────────┤
//!  ├────────── flags ──────────────┼── routers ────┼── unused ─────┤
//! ```

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::number::expand;

/// What goes with a frame of a logical network.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Context {
    /// The label of the port that it is from; 0 if it comes from outside or its source is
    /// translated.
    pub origin: u32,
    /// The generation of its network that decided it, its low 32 bits.
    pub generation: u32,
    /// What kind of frame it is.
    pub flags: ContextFlags,
    /// Through how many routers it has come, if it is for one.
    pub routers: u8,
}

/// What kind of frame a context goes with. A receiver that does not know one of the
/// [critical](Self::CRITICAL) ones must not deliver the frame; others it may overlook.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ContextFlags(pub u16);

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Record {
    origin: U32,
    generation: U32,
    flags: U16,
    routers: u8,
    unused: u8,
}

impl ContextFlags {
    /// Those that a receiver has to know.
    pub const CRITICAL: Self = Self(0x00ff);
    /// The network itself has made the frame: an answer, an error, a reset. It is never answered,
    /// and policies' defaults do not speak of it.
    pub const NETWORKS: Self = Self(1 << 0);
    /// It is a copy of a frame for many: nothing is told of it to its sender.
    pub const COPY: Self = Self(1 << 1);
    /// It opens a connection at its sender's host, which has to know if its receiver's rules refuse
    /// it: it is given back then.
    pub const OPENS: Self = Self(1 << 8);
    /// Nothing is underway that its sender has sent before on its stream: it is not behind what was
    /// given back because its port had moved.
    pub const ANEW: Self = Self(1 << 9);

    /// Whether all of these are set.
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These and others.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether a critical one is set that we do not know.
    pub const fn has_unknown(self) -> bool {
        self.0 & Self::CRITICAL.0 & !Self::NETWORKS.0 & !Self::COPY.0 != 0
    }
}

impl Context {
    /// Its length in bytes.
    pub const LEN: usize = size_of::<Record>();

    /// Parses it. `None` if it has another length.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let record = Record::ref_from_bytes(data).ok()?;
        Some(Self {
            origin: record.origin.get(),
            generation: record.generation.get(),
            flags: ContextFlags(record.flags.get()),
            routers: record.routers,
        })
    }

    /// As it is sent.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let record = Record {
            origin: U32::new(self.origin),
            generation: U32::new(self.generation),
            flags: U16::new(self.flags.0),
            routers: self.routers,
            unused: 0,
        };
        zerocopy::transmute!(record)
    }

    /// The generation that decided it, at a host that has this one: the number with these low bits
    /// that is nearest to it.
    pub fn generation_near(&self, ours: u64) -> u64 {
        expand(self.generation, ours)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parse_undoes_emit(origin: u32, generation: u32, flags: u16, routers: u8) {
            let context = Context { origin, generation, flags: ContextFlags(flags), routers };
            prop_assert_eq!(Context::parse(&context.emit()), Some(context));
            prop_assert_eq!(Context::parse(&context.emit()[1..]), None);
        }

        #[test]
        fn generations_are_told_apart_while_hosts_are_less_than_half_of_all_numbers_apart(
            ours in 1_u64 << 31..1 << 60, ahead in -(1_i64 << 31) + 1..1 << 31,
        ) {
            let theirs = ours.strict_add_signed(ahead);
            let context = Context { generation: theirs as u32, ..Context::default() };
            prop_assert_eq!(context.generation_near(ours), theirs);
        }

        #[test]
        fn only_critical_flags_have_to_be_known(flags: u16) {
            let known = ContextFlags::NETWORKS.with(ContextFlags::COPY).0;
            let is_unknown = (0..8).any(|bit| flags & 1 << bit != 0 && known & 1 << bit == 0);
            prop_assert_eq!(ContextFlags(flags).has_unknown(), is_unknown);
        }
    }
}
