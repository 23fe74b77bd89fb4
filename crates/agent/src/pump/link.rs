//! One uplink of the host: its tunnels' sockets, the pauses of the link below, and whether the ways that begin there work.

use std::cell::RefCell;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use lossless::Classes;
use model::{LargeSegments, PauseFramesStatus, Uplink};
use tunnel::outer::Vteps;
use underlay::{Counters, Fate, Received, Sent, Transport, Underlay};
use units::Instant;

use super::UplinkError;
use super::pauses::Pauses;
use super::taps::{Outer, Taps, Way};
use super::ways::Ways;

/// An uplink.
pub(super) struct Link {
    vtep: IpAddr,
    underlay: Rc<RefCell<Underlay>>,
    ways: Ways,
    pauses: Option<Pauses>,
    /// The classes that are silent, a bit each.
    silent: u8,
    /// When pauses are to be looked at again, although none has come.
    pauses_due: Option<Instant>,
    /// Something may have come.
    is_wet: bool,
}

impl Link {
    /// The uplink at one of this host's addresses, of which no way is watched yet; the seed is as of [`Ways::new`].
    ///
    /// # Errors
    ///
    /// [`UplinkError`]
    pub(super) fn open(
        uplink: &Uplink,
        vtep: IpAddr,
        transport: Transport,
        seed: u64,
    ) -> Result<Self, UplinkError> {
        let underlay = Underlay::open(vtep, transport, uplink.ttl)?;
        let pauses = uplink.pfc.map(|rate| Pauses::open(vtep, rate)).transpose();
        Ok(Self {
            vtep,
            underlay: Rc::new(RefCell::new(underlay)),
            ways: Ways::new(uplink, vtep, seed),
            pauses: pauses.map_err(UplinkError::Pauses)?,
            silent: 0,
            pauses_due: None,
            is_wet: true,
        })
    }

    /// This host's address there.
    pub(super) fn vtep(&self) -> IpAddr {
        self.vtep
    }

    /// What datagrams are sent by.
    pub(super) fn underlay(&self) -> &Rc<RefCell<Underlay>> {
        &self.underlay
    }

    /// The ways that begin there.
    pub(super) fn ways(&self) -> &Ways {
        &self.ways
    }

    /// The ways that begin there.
    pub(super) fn ways_mut(&mut self) -> &mut Ways {
        &mut self.ways
    }

    /// What becomes readable when datagrams have come.
    pub(super) fn with_events<T>(&self, wait: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        wait(self.underlay.borrow().as_fd())
    }

    /// What becomes readable when the link below is to be silent, if it speaks of such.
    pub(super) fn pauses(&self) -> Option<&Pauses> {
        self.pauses.as_ref()
    }

    /// A pause may have come.
    pub(super) fn stir_pauses(&mut self) {
        self.pauses_due = Some(Instant::ZERO);
    }

    /// Obeys the link's pauses, and asks for one while memory for what comes is `short`. Whether other classes than before are silent.
    pub(super) fn pause(&mut self, now: Instant, short: bool, classes: &Classes) -> bool {
        let Some(pauses) = &mut self.pauses else { return false };
        pauses.ask(now, short, classes);
        if self.pauses_due.is_none_or(|at| at > now) {
            return false;
        }
        let silent = pauses.obey(now);
        self.pauses_due = pauses.deadline(now);
        silent != std::mem::replace(&mut self.silent, silent)
    }

    /// The classes that are silent, a bit each.
    pub(super) fn silent(&self) -> u8 {
        self.silent
    }

    /// When pauses are to be looked at again, although none comes.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.pauses.as_ref().and_then(|pauses| pauses.deadline(now))
    }

    /// How many pauses there were, if the link speaks of such.
    pub(super) fn pauses_status(&self) -> Option<PauseFramesStatus> {
        self.pauses.as_ref().map(|pauses| pauses.status(self.vtep))
    }

    /// Datagrams may have come.
    pub(super) fn stir(&mut self) {
        self.is_wet = true;
    }

    /// Receives what has come, if anything may have: each datagram, and between whom it is.
    pub(super) fn receive(&mut self, mut arrived: impl FnMut(Vteps, Received<'_>)) {
        if self.is_wet {
            let own = self.vtep;
            self.is_wet = self.underlay.borrow_mut().receive(|datagram| {
                arrived(vteps(own, datagram.from), datagram);
            });
        }
    }

    /// Hands over what is to be sent. Whether the kernel had room for all.
    pub(super) fn flush(&mut self, now: Instant, taps: Option<&mut Taps>) -> bool {
        let mut underlay = self.underlay.borrow_mut();
        let Some(taps) = taps else { return underlay.flush() };
        underlay.flush_telling(|Sent { to, ports, traffic_class, payload }| {
            taps.outer(
                now,
                &Outer { way: Way::Out, vteps: vteps(self.vtep, to), ports, traffic_class, payload },
            );
        })
    }

    /// What becomes of large segments on the way to this end.
    pub(super) fn large_segments(&self, remote: IpAddr) -> Option<LargeSegments> {
        self.underlay.borrow().large_fate(remote).map(|fate| match fate {
            Fate::Whole => LargeSegments::Whole,
            Fate::Cut => LargeSegments::Nic,
            Fate::Lost(why) => LargeSegments::Parts { reason: why },
        })
    }

    /// What went wrong below.
    pub(super) fn counters(&self) -> Counters {
        self.underlay.borrow().counters().clone()
    }
}

/// Both ends of a way.
fn vteps(local: IpAddr, remote: IpAddr) -> Vteps {
    Vteps::new(local, remote).expect("both ends of a way are of one family")
}
