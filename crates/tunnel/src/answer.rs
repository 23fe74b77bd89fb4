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

use units::Class;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::message::Stream;

/// Why a frame is given back.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Answer {
    /// Its port is at another host now, and has another label there.
    Moved {
        /// The host, by a tunnel address. An IPv4 address is never mapped into an IPv6 one.
        host: IpAddr,
        /// The label.
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

/// Frames of a stream that are given back, all for the same reason.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Return {
    /// The stream.
    pub stream: Stream,
    /// Where the first of them begins, its low 32 bits.
    pub from: u32,
    /// Where the last of them ends, its low 32 bits.
    pub until: u32,
    /// Why.
    pub answer: Answer,
}

/// A return, as it is sent.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ReturnRecord {
    label: U32,
    class: u8,
    kind: u8,
    /// Of [`REFUSED`]; otherwise unused.
    code: U16,
    from: U32,
    until: U32,
    /// Of [`MOVED`]; otherwise unused.
    new_label: U32,
    host: [u8; 16],
}

const MOVED: u8 = 1;
const GONE: u8 = 2;
const REFUSED: u8 = 3;
const UNSUPPORTED: u8 = 4;

impl ReturnRecord {
    pub(crate) fn of(it: &Return) -> Self {
        let (kind, code, new_label, host) = match it.answer {
            Answer::Moved { host, label } => {
                let host = match host {
                    IpAddr::V4(host) => host.to_ipv6_mapped(),
                    IpAddr::V6(host) => host,
                };
                (MOVED, 0, label, host.octets())
            }
            Answer::Gone => (GONE, 0, 0, [0; 16]),
            Answer::Refused(code) => (REFUSED, code, 0, [0; 16]),
            Answer::Unsupported => (UNSUPPORTED, 0, 0, [0; 16]),
        };
        Self {
            label: U32::new(it.stream.label),
            class: it.stream.class.pcp(),
            kind,
            code: U16::new(code),
            from: U32::new(it.from),
            until: U32::new(it.until),
            new_label: U32::new(new_label),
            host,
        }
    }

    /// `None` if its class or kind is none.
    pub(crate) fn read(&self) -> Option<Return> {
        let answer = match self.kind {
            MOVED => {
                let host = Ipv6Addr::from(self.host).to_canonical();
                Answer::Moved { host, label: self.new_label.get() }
            }
            GONE => Answer::Gone,
            REFUSED => Answer::Refused(self.code.get()),
            UNSUPPORTED => Answer::Unsupported,
            _ => return None,
        };
        let stream = Stream { label: self.label.get(), class: Class::new(self.class)? };
        Some(Return { stream, from: self.from.get(), until: self.until.get(), answer })
    }
}
