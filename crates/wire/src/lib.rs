//! Frame headers as checked views over bytes.
//!
//! ```text
//! ┌──────────┬───────┬───────────┬──────────────┬──────────┐
//! │ ethernet │ (tag) │ ipv4 ipv6 │ tcp udp      │ payload  │      Layout says where each begins
//! └──────────┴───────┴───────────┴──────────────┴──────────┘      ecn is two bits of the IP header
//!   peek reads this ▲               ▲                             flow tells which frames stay in order
//!                                   └ Offload says what is still to be done here: sums, segments
//!
//! a frame in a packet   geneve and vxlan behind udp, gre behind IP, stt behind what looks like tcp
//! to a neighbor         arp, rarp, neighbor, membership; icmp tells that a packet is too big
//! to a server           dhcp4, dhcp6
//! to the link's end     pause and pfc are MAC control, room our own; bfd behind udp
//! from a machine        whole makes all of a frame, its checksums too
//! ```
//!
//! A header is a `#[repr(C)]` struct of bytes, so reading one copies nothing and writing one is
//! `as_bytes` of [`zerocopy::IntoBytes`]; one whose fields may be absent is read by value. Each
//! module's `parse` promises that the lengths its header claims lie inside the bytes it was given;
//! unless it says so, it does not verify checksums ([`checksum::Sum`] does). What does not parse is
//! `None`: the caller decides whether that is a refusal. No bytes whatsoever make anything here
//! panic.
//!
//! The crate knows nothing of ports, tenants or policy.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod arp;
pub mod bfd;
pub mod checksum;
pub mod cut;
pub mod dhcp4;
pub mod dhcp6;
pub mod ecn;
pub mod ethernet;
pub mod flow;
mod fragments;
pub mod geneve;
pub mod gre;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
mod join;
pub mod membership;
pub mod neighbor;
mod offload;
pub mod pause;
pub mod pfc;
pub mod rarp;
pub mod room;
mod segment;
pub mod stt;
pub mod tcp;
pub mod udp;
pub mod vxlan;
pub mod whole;

pub use fragments::{FragmentFrame, Fragments, fragments};
pub use ip::Layout;
pub use join::Join;
pub use offload::{
    Offload, OffloadError, PartialChecksum, Segment, SegmentKind, claimed_bytes, wire_bytes,
    wire_frames,
};
pub use segment::{Piece, Segments, segments};
