//! The last metre: a UDP socket that is full makes its sender wait, instead of losing what it is
//! sent.
//!
//! Linux drops a datagram whose socket has no room. The gate knows beforehand: BPF programs (bpf/)
//! publish how full each socket of the served namespaces is, in memory that we read without a
//! system call.
//!
//! ```text
//!                 verdict            transmit
//!  held frame ──▶  gate  ──Go──▶ TAP device ──▶ socket ──▶ reader
//!       ▲           │ ▲                           │          │
//!       └───Hold────┘ └──── occupied, limit ◀─────┴── BPF ◀──┘ ──▶ bell
//! ```
//!
//! # What it relies on
//!
//! Delivery by `write()` to a TAP device is synchronous: when it returns, the datagram has been
//! queued at its socket, and what the gate reads counts it. So nothing is on its way, if the caller
//! transmits what the gate lets go before it asks again; and a socket that is not known has never
//! been sent anything, is empty, and takes a datagram of any size. This holds as long as the device
//! has no NAPI (`IFF_NAPI`), no receive batching and no receive packet steering (`rps_cpus`), and
//! the container does not pass the frame on inside itself.
//!
//! # What it cannot prevent
//!
//! - A namespace has more than 4,096 sockets, or all of them together more than 16,383: what is
//!   sent to the others goes as if they were empty.
//! - A neighbour inside the same namespace fills the socket between our look and our write.
//! - The kernel is short of memory for all of UDP (`net.ipv4.udp_mem`).
//! - The application shrinks the buffer of a socket that holds something: the next datagram may be
//!   lost.
//! - A frame that stands for many datagrams, or a datagram in fragments, is larger than the whole
//!   buffer. It waits until the buffer is empty and goes then; the kernel takes what fits.
//! - A datagram's fragments are far apart in time, or less than sensibly long, or from a source
//!   whose others were: then others may take its place (see `fragments`).
//!
//! # Where it holds more than it must
//!
//! - Sockets that share a port (SO_REUSEPORT) and fit equally well wait for each other: which of
//!   them the kernel would choose is not known here. The same goes for all that listen to a
//!   multicast or broadcast.
//! - A frame for another host, which the container routes on, is held if a socket on its port in
//!   the container is bound to any address and full.

mod diag;
mod error;
mod fragments;
mod gate;
mod guest;
mod programs;
mod question;
mod sockets;
mod state;
mod teller;
mod verdict;
mod watch;

pub use error::{GateUnavailable, ServeError};
pub use gate::UdpGate;
pub use guest::GuestGate;
pub use state::{Share, SocketState};
pub use teller::{Heard, Teller, Watched};
pub use verdict::{FlowKey, Verdict};
pub use watch::{Watch, WatchError};
