//! Virtual machines' ports: vhost-user's protocol, by which a network card is handed over a Unix
//! socket, and its rings ([`virtio`]).
//!
//! A *front-end* (QEMU, DPDK's virtio-user, our own [`front`]) owns the guest's memory and its
//! rings; we, the *back-end*, process the rings. The modules here are the protocol by which the two
//! settle who has what; [`virtio`] is handed addresses and descriptors, and knows nothing of
//! sockets.
//!
//! ```text
//!   front-end ─▶ socket ─bytes─▶ message ─Request─▶ session ─start, update, stop─▶ Rings: whoever drives them
//!             ◀───────── bytes ◀───────── Reply ◀──────┘ └─▶ memory, log, inflight: what is shared with them
//! ```
//!
//! [`backend`] ties the knot for one connection; a [`port`] that loses it waits for the next one,
//! with everything anew. A switch that ends can [leave](handover) it to the next one.
//!
//! A front-end is as little trusted as its guest. What contradicts itself is refused by name, which
//! ends that connection and nothing else; what it can do to the memory that it shares with us,
//! [`mapping`] survives.
//!
//! The protocol is QEMU's docs/interop/vhost-user.rst, cited by its section headings.

pub mod backend;
pub mod device;
pub mod features;
pub mod front;
pub mod handover;
pub mod inflight;
pub mod log;
pub mod mapping;
pub mod memory;
pub mod message;
pub mod nic;
pub mod port;
pub mod retold;
pub mod session;
pub mod socket;
pub mod virtio;
pub mod vring;
