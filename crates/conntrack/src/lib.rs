//! Connections that pass a port or a router: which packet is of which, and which way it goes.
//!
//! ```text
//!            lookup(zone, packet, now)              ┌ New        begins one, once it has left
//! packet ─▶ by (zone, tuple), either way ─▶ verdict ┤ Request    the way that the first one went
//!            changes nothing                        │ Reply      the other way
//!                │                                  │ Related    an ICMP error about one
//!                │ the frame leaves                 │ Invalid    of none, or not possible now
//!                ▼                                  └ Untracked  what keeps no connection
//!            commit(change, now)                  a frame that is decided ten times counts once
//! ```
//!
//! A *zone* is where connections are told apart: a logical port has one, a router that translates
//! has one. Zones are a *tenant's*, and both have quotas. A connection has two tuples: that of
//! packets that go as its first one went, and that of replies. They are each other's reverse unless
//! the zone is a router's that translates; so translation needs nothing else here.
//!
//! Nothing here knows rules. A connection keeps a [`Stamp`] for its caller: which generation of
//! rules admitted it, and by which rule. Where the generation is old, the caller asks its rules
//! again for the connection's first packet, and stamps it anew or blocks it.
//!
//! All memory is reserved at the beginning. When it is used up, or a quota is, only what is new is
//! refused ([`Full`]), once the zone's own oldest connection that nobody has answered has made
//! room. No zone takes a place of another's.
//!
//! The crate knows no clock, no randomness (the hash's key is an argument) and no frames in flight.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod entry;
mod hash;
mod index;
mod lists;
mod packet;
mod record;
mod slots;
mod table;
mod timeouts;
mod track;
mod tuple;
mod wheel;
mod zones;

pub use entry::{Flags, Stamp};
pub use packet::{Kind, Packet, Segment};
pub use record::Record;
pub use table::{Begin, Change, Connection, Denied, Expiry, Hit, Id, Settings, Table, Verdict};
pub use timeouts::Timeouts;
pub use track::{Phase, Way, Why};
pub use tuple::Tuple;
pub use zones::{Full, Tenant, Zone};
