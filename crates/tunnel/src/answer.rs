//! What a receiver answers to frames that it has and does not take: they are their sender's again.
//!
//! ```text
//!   sender                                receiver
//!     │── frame at 700 ───────────────────▶│ delivered, and given back: its port has moved
//!     │◀── return 700 to 800, moved to … ──│
//!     │ has it again, sends it elsewhere   │
//!     │── position 700, without bytes ────▶│ consumed
//! ```

use core::net::{IpAddr, Ipv6Addr};

/// Why a frame is given back.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Answer {
    /// Its port is at another host now.
    Moved {
        /// The host, by a tunnel address; unspecified (`::`) if that is not said. An IPv4 address
        /// is never mapped into an IPv6 one.
        host: IpAddr,
        /// The port's label there.
        label: u32,
    },
    /// Its port is no more.
    Gone,
    /// A rule of its port, or something like it, refuses the frame. What the number means is agreed
    /// between those who decide.
    Refused(u16),
    /// It says something of itself that the receiver has to know, and does not.
    Unsupported,
}

/// An answer, as it is sent: its kind, code, label and host.
pub(crate) type Parts = (u8, u16, u32, [u8; 16]);

const MOVED: u8 = 1;
const GONE: u8 = 2;
const REFUSED: u8 = 3;
const UNSUPPORTED: u8 = 4;

impl Answer {
    pub(crate) fn parts(self) -> Parts {
        match self {
            Self::Moved { host, label } => {
                let host = match host {
                    IpAddr::V4(host) => host.to_ipv6_mapped(),
                    IpAddr::V6(host) => host,
                };
                (MOVED, 0, label, host.octets())
            }
            Self::Gone => (GONE, 0, 0, [0; 16]),
            Self::Refused(code) => (REFUSED, code, 0, [0; 16]),
            Self::Unsupported => (UNSUPPORTED, 0, 0, [0; 16]),
        }
    }

    /// `None` if the kind is none.
    pub(crate) fn of((kind, code, label, host): Parts) -> Option<Self> {
        Some(match kind {
            MOVED => Self::Moved { host: Ipv6Addr::from(host).to_canonical(), label },
            GONE => Self::Gone,
            REFUSED => Self::Refused(code),
            UNSUPPORTED => Self::Unsupported,
            _ => return None,
        })
    }
}
