//! One uplink of the host: its tunnels' sockets, the pauses of the link below, and the state of the
//! paths that begin there.

use std::cell::RefCell;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use lossless::Classes;
use model::{LargeSegments, PauseFramesStatus, ShapingStatus, Uplink};
use plane::taps::{Direction, Taps};
use tunnel::outer::Vteps;
use underlay::{Counters, Fate, Received, Sent, Transport, Turn, Underlay};
use units::Instant;

use crate::error::OpenError;
use crate::monitor::Monitor;
use crate::outer::Outer;
use crate::pauses::Pauses;

/// An uplink.
pub struct Link {
    vtep: IpAddr,
    underlay: Rc<RefCell<Underlay>>,
    monitor: Box<dyn Monitor>,
    pauses: Option<Pauses>,
    /// The bit mask of classes that the link pauses.
    paused: u8,
    /// When pauses are to be checked again, although none has arrived.
    pauses_due: Option<Instant>,
    /// Datagrams may have arrived.
    rx_ready: bool,
}

impl Link {
    /// Opens the uplink at one of this host's addresses. `monitor` watches no path yet.
    ///
    /// # Errors
    ///
    /// [`OpenError`]
    pub(crate) fn open(
        uplink: &Uplink,
        vtep: IpAddr,
        transport: Transport,
        monitor: Box<dyn Monitor>,
    ) -> Result<Self, OpenError> {
        let mut underlay = Underlay::open(vtep, transport, uplink.ttl)?;
        if let Some(rate) = uplink.rate {
            underlay.set_rate(rate)?;
        }
        let pauses = uplink.pfc.map(|rate| Pauses::open(vtep, rate)).transpose();
        Ok(Self {
            vtep,
            underlay: Rc::new(RefCell::new(underlay)),
            monitor,
            pauses: pauses.map_err(OpenError::Pauses)?,
            paused: 0,
            pauses_due: None,
            rx_ready: true,
        })
    }

    /// This host's address there.
    pub(crate) fn vtep(&self) -> IpAddr {
        self.vtep
    }

    /// The sockets that datagrams are sent by.
    pub(crate) fn underlay(&self) -> &Rc<RefCell<Underlay>> {
        &self.underlay
    }

    /// What watches the paths that begin there.
    pub fn monitor(&self) -> &dyn Monitor {
        &*self.monitor
    }

    /// What watches the paths that begin there.
    pub(crate) fn monitor_mut(&mut self) -> &mut dyn Monitor {
        &mut *self.monitor
    }

    /// Calls `wait` with what becomes readable when datagrams have arrived.
    pub fn with_events<T>(&self, wait: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        wait(self.underlay.borrow().as_fd())
    }

    /// What becomes readable when a pause frame has arrived. `None` if the link's pauses are not
    /// obeyed.
    pub fn pauses(&self) -> Option<BorrowedFd<'_>> {
        self.pauses.as_ref().map(AsFd::as_fd)
    }

    /// Whether the link's pauses are obeyed.
    pub(crate) fn obeys_pauses(&self) -> bool {
        self.pauses.is_some()
    }

    /// Notes that a pause frame may have arrived.
    pub fn mark_paused(&mut self) {
        self.pauses_due = Some(Instant::ZERO);
    }

    /// Obeys the link's pauses, and pauses its far end while memory for arriving frames is `short`.
    /// Returns whether the mask of paused classes has changed.
    pub(crate) fn pause(&mut self, now: Instant, short: bool, classes: &Classes) -> bool {
        let Some(pauses) = &mut self.pauses else { return false };
        pauses.ask(now, short, classes);
        if self.pauses_due.is_none_or(|at| at > now) {
            return false;
        }
        let paused = pauses.obey(now);
        self.pauses_due = pauses.deadline(now);
        paused != std::mem::replace(&mut self.paused, paused)
    }

    /// The bit mask of classes that the link pauses.
    pub(crate) fn paused(&self) -> u8 {
        self.paused
    }

    /// When pauses are to be checked again, although none arrives.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.pauses.as_ref().and_then(|pauses| pauses.deadline(now))
    }

    /// How many pause frames there were, if pauses are obeyed.
    pub(crate) fn pauses_status(&self) -> Option<PauseFramesStatus> {
        self.pauses.as_ref().map(|pauses| pauses.status(self.vtep))
    }

    /// When the link's rate lets the next frame go, if it does not now.
    pub(crate) fn busy_until(&self) -> Option<Instant> {
        let underlay = self.underlay.borrow();
        (!underlay.is_ready(Turn::New)).then(|| underlay.ready_at(Turn::New))
    }

    /// What the link is given, if its rate is declared.
    pub(crate) fn shaping(&self) -> Option<ShapingStatus> {
        let (rate, sent_bytes) = self.underlay.borrow().paced()?;
        Some(ShapingStatus { vtep: self.vtep, rate, sent_bytes })
    }

    /// Notes that datagrams may have arrived.
    pub fn mark_rx_ready(&mut self) {
        self.rx_ready = true;
    }

    /// Receives datagrams, if any may have arrived, and tells between which addresses each is. It
    /// is `now` for what is sent, too, until the next call.
    pub(crate) fn receive(&mut self, now: Instant, mut arrived: impl FnMut(Vteps, Received<'_>)) {
        self.underlay.borrow_mut().set_now(now);
        if self.rx_ready {
            let own = self.vtep;
            self.rx_ready = self.underlay.borrow_mut().receive(|datagram| {
                arrived(vteps(own, datagram.from), datagram);
            });
        }
    }

    /// Passes pending datagrams to the kernel. Returns whether it had room for all.
    pub(crate) fn flush(&mut self, now: Instant, taps: Option<&mut Taps>) -> bool {
        let mut underlay = self.underlay.borrow_mut();
        let Some(taps) = taps else { return underlay.flush() };
        underlay.flush_telling(|Sent { to, ports, traffic_class, payload }| {
            let vteps = vteps(self.vtep, to);
            Outer { direction: Direction::Out, vteps, ports, traffic_class, payload }
                .show(now, taps);
        })
    }

    /// How large segments travel to this far end.
    pub(crate) fn large_segments(&self, remote: IpAddr) -> Option<LargeSegments> {
        self.underlay.borrow().large_fate(remote).map(|fate| match fate {
            Fate::Whole => LargeSegments::Whole,
            Fate::Cut => LargeSegments::Nic,
            Fate::Lost(why) => LargeSegments::Parts { reason: why },
        })
    }

    /// What the sockets have counted.
    pub(crate) fn counters(&self) -> Counters {
        self.underlay.borrow().counters().clone()
    }
}

/// Both ends of a path.
fn vteps(local: IpAddr, remote: IpAddr) -> Vteps {
    Vteps::new(local, remote).expect("both ends of a path are of one family")
}
