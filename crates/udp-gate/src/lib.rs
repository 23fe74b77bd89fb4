//! The UDP gate: a full UDP socket makes its senders wait, instead of losing datagrams.
//!
//! Linux drops a datagram whose socket has no room. The gate holds it back beforehand. BPF programs
//! (bpf/) publish how full each socket of the served namespaces is, in memory that we read without
//! a system call.
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
//! Delivery by `write()` to a TAP device is synchronous: when it returns, the datagram is queued at
//! its socket and included in what the gate reads. If the caller transmits each frame that may go
//! before it asks about the next, nothing is in flight. A socket that is not known has never been
//! sent anything, so it is empty and takes a datagram of any size. This holds as long as the device
//! has no NAPI (`IFF_NAPI`), no receive batching and no receive packet steering (`rps_cpus`,
//! `rps_flow_cnt`: crate `tap` switches them off, and looks), and the container does not forward
//! the frame internally.
//!
//! # What it cannot prevent
//!
//! - A namespace has more than 4,096 sockets, or all namespaces together more than 16,383: the
//!   others are treated as empty.
//! - The socket has another address than the datagram, or is in another namespace: behind address
//!   translation, a macvlan, or a namespace in the container. Such datagrams are counted
//!   ([`UdpGate::unseen`]).
//! - A sender inside the same namespace fills the socket between the gate's check and the write.
//! - The kernel has no memory left for UDP (`net.ipv4.udp_mem`).
//! - The application shrinks the buffer of a socket that is not empty: the next datagram may be
//!   lost.
//! - A frame of many datagrams, or a fragmented datagram, is larger than the whole buffer. It is
//!   sent once the buffer is empty; the kernel takes what fits.
//! - The fragments of a datagram arrive far apart, or are unreasonably short, or their source has
//!   recently left datagrams incomplete: then other datagrams may take the room (see `fragments`).
//!
//! # Where it holds more than it must
//!
//! - Sockets that share a port (SO_REUSEPORT) and match equally well wait for each other, because
//!   the gate does not know which one the kernel will choose. So do all receivers of a multicast or
//!   broadcast.
//! - A frame that the container would forward to another host is held if a full socket in the
//!   container is bound to its port at any address.

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
mod unseen;
mod verdict;
mod watch;

pub use error::{GateUnavailable, ServeError};
pub use gate::{FullSocket, UdpGate};
pub use guest::GuestGate;
pub use state::{Share, SocketState};
pub use teller::{Heard, Teller, Watched};
pub use unseen::UnseenStatus;
pub use verdict::{FlowKey, Verdict};
pub use watch::{Watch, WatchError};
