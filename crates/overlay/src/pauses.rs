//! Pause frames of an uplink's link (802.1Qbb): those of its far end, and ours when memory for
//! arriving frames runs low.
//!
//! Credit keeps what other hosts send below the memory that there is. Pauses are for hosts that
//! send without credit, and for the fabric, whose switches pause us as they would any host.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use lossless::Classes;
use model::PauseFramesStatus;
use underlay::pauses::PauseSocket;
use units::{Class, ClassMap, Instant, Rate};

/// The longest pause that can be asked for, in quanta of 512 bit times.
const LONGEST: u16 = u16::MAX;

/// A quantum in bytes.
const QUANTUM: u64 = 64;

/// One link's pauses.
pub(crate) struct Pauses {
    socket: PauseSocket,
    rate: Rate,
    /// Until when each class is paused.
    until: ClassMap<Instant>,
    /// When our pause has to be renewed. `None` if the far end may send.
    renew_at: Option<Instant>,
    received: u64,
    sent: u64,
}

impl Pauses {
    /// Listens at the interface with this address, whose link has this rate.
    pub(crate) fn open(address: IpAddr, rate: Rate) -> io::Result<Self> {
        let (until, renew_at) = (ClassMap([Instant::ZERO; Class::COUNT]), None);
        Ok(Self {
            socket: PauseSocket::open(address)?,
            rate,
            until,
            renew_at,
            received: 0,
            sent: 0,
        })
    }

    /// Receives pause frames. Returns the bit mask of classes that are paused now.
    pub(crate) fn obey(&mut self, now: Instant) -> u8 {
        let Self { socket, rate, until, received, .. } = self;
        socket.receive(|told| {
            *received += 1;
            for (class, quanta) in told.iter() {
                if let Some(quanta) = quanta {
                    until[class] = now + rate.time_for(u64::from(*quanta) * QUANTUM);
                }
            }
        });
        let paused = Class::all().filter(|class| until[*class] > now);
        paused.fold(0, |bits, class| bits | 1 << class.pcp())
    }

    /// When a paused class may go on, or our pause has to be renewed.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let ends = self.until.0.iter().copied().filter(|at| *at > now);
        ends.chain(self.renew_at).min()
    }

    /// Pauses all lossless classes of the far end while memory is `short`.
    pub(crate) fn ask(&mut self, now: Instant, short: bool, classes: &Classes) {
        let lossless =
            |quanta| ClassMap::from_fn(|class| classes.lossy(class).is_none().then_some(quanta));
        match (short, self.renew_at) {
            (true, at) if at.is_none_or(|at| at <= now) => {
                if self.socket.send(&lossless(LONGEST)) {
                    self.sent += 1;
                }
                // Well before it expires.
                self.renew_at = Some(now + self.rate.time_for(u64::from(LONGEST) * QUANTUM / 2));
            }
            (false, Some(_)) => {
                self.sent += u64::from(self.socket.send(&lossless(0)));
                self.renew_at = None;
            }
            _ => {}
        }
    }

    /// How many pause frames were received and sent at this address of ours.
    pub(crate) fn status(&self, vtep: IpAddr) -> PauseFramesStatus {
        PauseFramesStatus { vtep, received: self.received, sent: self.sent }
    }
}

/// Readable when a pause frame has arrived.
impl AsFd for Pauses {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
