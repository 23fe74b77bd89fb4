//! UDP frames that our programs send each other, and how they are sent.
//!
//! A frame's payload begins with a header, big-endian; the rest is zero:
//!
//! ```text
//!   0        4        8                16
//!   ├────────┼────────┼─────────────────┤
//!   │ sender │ flags  │ number          │     flags bit 0: the sender's last frame
//!   └────────┴────────┴─────────────────┘
//! ```

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SendFlags;
use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::{Doing, EndpointError};

/// Ethernet, IPv4 and UDP headers: what a frame carries before a datagram's payload, in bytes.
pub const FRAME_HEADERS: u32 = 14 + 20 + 8;

/// The flag of a sender's last frame.
pub(super) const LAST: u32 = 1;

/// How long a blocked call may hide the clock and the parent.
pub(super) const GLANCE: Duration = Duration::from_millis(100);

/// What a payload begins with.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    /// The sender's number, from 0.
    pub sender: U32,
    /// 0, or [`LAST`].
    pub flags: U32,
    /// The frame's number among those of its sender, from 0.
    pub number: U64,
}

/// A socket from which frames go to `to`.
pub(super) fn sender(to: SocketAddr) -> Result<UdpSocket, EndpointError> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).doing("open the sender's socket")?;
    socket.connect(to).doing("connect to the receiver")?;
    socket.set_write_timeout(Some(GLANCE)).doing("bound a blocked send")?;
    sharpen_sleep()?;
    Ok(socket)
}

/// Sends a payload, and waits for room until `patience` ends. Whether the socket has taken it, and
/// how long that waited, in nanoseconds.
pub(super) fn send(socket: impl AsFd, payload: &[u8], patience: Instant) -> (bool, u64) {
    // Only a send that found no room at once waited for it: so the time in further calls is the
    // time blocked.
    let mut sent = rustix::net::send(&socket, payload, SendFlags::DONTWAIT);
    let mut blocked_ns = 0;
    while sent == Err(Errno::WOULDBLOCK) && Instant::now() < patience {
        let asked = Instant::now();
        sent = rustix::net::send(&socket, payload, SendFlags::empty());
        blocked_ns += nanos(asked.elapsed());
    }
    // What the socket does not accept was not sent, for whatever reason.
    (sent.is_ok(), blocked_ns)
}

/// Lets a sleep end when it should: the default slack of 50 µs is a whole gap at 20,000 frames a
/// second.
pub(super) fn sharpen_sleep() -> Result<(), EndpointError> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).doing("set the timer slack")
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
