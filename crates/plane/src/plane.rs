//! Devices, far hosts and a switch between them: one thread's worth of forwarding.
//!
//! ```text
//!           receive            offer            head              transmit
//! device j ────────▶ slot ───────────▶ switch ────────▶ (gate) ───────────▶ device k
//!             ▲                                                        │
//!             └──────────────────── release ◀──────────────────────────┘
//! ```
//!
//! A turn receives what each sender has, as far as the switch has room for that sender, and
//! transmits to each receiver what waits for it, as far as the receiver takes it. It visits only
//! ports that may have something to do, so that idle ones cost nothing. The plane is told the time
//! and never sleeps.
//!
//! A port that has nothing to receive leaves the `rx_ready` set, and enters it again by an event. A
//! device without events of its own is asked for one first ([`Plane::arm`]).

use std::collections::BTreeMap;

use binding::Networks;
use datapath::{Datapath, Network};
use lossless::{
    Defect, Limits, PortConfig, PortId, PortSet, Reason, Settings, Shaping, Switch, TooManyPorts,
};
use port::{Port, PortError, Slot};
use units::{Gcra, Instant, NoTicks, Ticks};

use crate::audit::Audit;
use crate::booking::{Booking, Work};
use crate::divert::Diversions;
use crate::line::{End, Line, Lines, Round, owner_of};
use crate::peers::{NoPeers, Peers};
use crate::retag::Retagged;
use crate::sharing::Sharing;
use crate::stages::{Gate, NoGate, NoResponder, Responder};
use crate::taps::Taps;
use crate::waits::Moves;

/// The most frames of one port in one visit.
pub const BURST: u32 = port::BURST as u32;

/// How much of a lossless class a port without a rate has [switched
/// ahead](lossless::PortConfig::permits): what it is handed in one visit.
pub const PERMITS: Limits = Limits::frames(BURST);

/// How many connections of logical networks a tick forgets at most.
const EXPIRED_AT_ONCE: u32 = 4096;

/// What a visit to a sender relies on.
pub const HAS_ROOM: &str = "no more is received than there is room for";

/// Devices that were armed: for a frame, for room for one.
#[derive(Default)]
pub(crate) struct Armed {
    pub(crate) ingress: PortSet,
    egress: PortSet,
}

/// Ports, far hosts, and the switch between them: devices of type `P`, peers of type `F`, and the
/// stages `R` at their ingress and `G` at their egress. `T` counts the time that visits take.
pub struct Plane<P, F = NoPeers, R = NoResponder, G = NoGate, T = NoTicks> {
    /// Decides where frames go.
    pub(crate) datapath: Datapath,
    /// Queues them.
    pub(crate) switch: Switch<Slot>,
    pub(crate) lines: Lines<P, F>,
    /// Ports that may have frames to receive. The others were seen empty, and an event will tell.
    pub(crate) rx_ready: PortSet,
    /// Those of `rx_ready` that were seen empty, and make no event unless they are armed.
    pub(crate) unarmed: PortSet,
    /// Devices that were armed since the last [check](Self::check_armed), and those to check next.
    pub(crate) armed: Armed,
    doubtful: Armed,
    /// Ports that were touched since their last flush.
    pub(crate) needs_flush: PortSet,
    /// Ports whose senders have used up their rate for now.
    pub(crate) paced: PortSet,
    /// Ports that had no room when a frame was last offered to them, or could not finish their
    /// flush.
    pub(crate) tx_blocked: PortSet,
    /// The port that far hosts are behind.
    pub(crate) uplink: Option<PortId>,
    pub(crate) responder: R,
    pub(crate) gate: G,
    /// Frames that were refused or intercepted in this visit, to be released at its end.
    pub(crate) refused: Vec<Slot>,
    /// The same of frames from far hosts.
    pub(crate) turned_away: Vec<(Slot, Reason)>,
    pub(crate) diversions: Diversions,
    /// The number of the round in which flows that are set aside are asked about. One begins when
    /// something has moved, and when all were asked about.
    pub(crate) round: u64,
    /// Some flows were not asked about in this round.
    pub(crate) is_asking: bool,
    audit: Audit,
    /// The frame whose tag was changed last.
    pub(crate) retagged: Retagged,
    /// Captures, if there are any.
    pub(crate) taps: Option<Box<Taps>>,
    /// Whose the thread's time was.
    pub(crate) booking: Booking<T>,
    /// Whose turn it is, where networks share the thread on terms.
    pub(crate) sharing: Option<Box<Sharing>>,
    /// The host's logical networks, if it has any, and the ports that are theirs.
    pub(crate) logical: Option<Box<Networks>>,
    pub(crate) logical_ports: PortSet,
    /// What is held for logical ports that have moved.
    pub(crate) moves: Moves,
    /// The port that hands back what it is given, if there is one.
    pub(crate) turned: Option<PortId>,
    /// The frame of one of those that is looked at, if it does not lie in one piece.
    pub(crate) gathered: Vec<u8>,
}

impl<P: Port> Plane<P> {
    /// A plane without ports, far hosts and stages.
    pub fn new(settings: Settings, datapath: datapath::Settings) -> Self {
        Self::with_stages(settings, datapath, NoResponder, NoGate)
    }
}

impl<P: Port, F: Peers, R: Responder, G: Gate, T: Ticks> Plane<P, F, R, G, T> {
    /// A plane without ports.
    pub fn with_stages(
        settings: Settings,
        datapath: datapath::Settings,
        responder: R,
        gate: G,
    ) -> Self {
        Self {
            datapath: Datapath::new(datapath),
            switch: Switch::new(settings),
            lines: Vec::new(),
            rx_ready: PortSet::default(),
            unarmed: PortSet::default(),
            armed: Armed::default(),
            doubtful: Armed::default(),
            needs_flush: PortSet::default(),
            paced: PortSet::default(),
            tx_blocked: PortSet::default(),
            uplink: None,
            responder,
            gate,
            refused: Vec::with_capacity(BURST as usize),
            turned_away: Vec::new(),
            diversions: Diversions::default(),
            round: 1,
            is_asking: false,
            audit: Audit::default(),
            retagged: Retagged::default(),
            taps: None,
            booking: Booking::default(),
            sharing: None,
            logical: None,
            logical_ports: PortSet::default(),
            moves: Moves::default(),
            turned: None,
            gathered: Vec::new(),
        }
    }

    /// Attaches a device.
    ///
    /// # Errors
    ///
    /// [`TooManyPorts`]; the device is dropped.
    pub fn attach(
        &mut self,
        now: Instant,
        device: P,
        config: PortConfig,
        forwarding: datapath::PortConfig,
    ) -> Result<PortId, TooManyPorts> {
        let id = self.switch.attach(now, config)?;
        let network = forwarding.network;
        self.datapath.attach(id, forwarding);
        self.put_line(id, End::Device(device), network);
        Ok(id)
    }

    /// Puts what is behind a new port in its place.
    pub(crate) fn put_line(&mut self, id: PortId, end: End<P, F>, network: Network) {
        if id.index() == self.lines.len() {
            self.lines.push(None);
        }
        self.switch.set_owner(id, owner_of(network));
        let round = Round::default();
        let is_far = matches!(end, End::Uplink(_));
        let departed = BTreeMap::new();
        let line =
            Line { id, end, network, muted: false, pace: None, failed: None, round, departed };
        self.lines[id.index()] = Some(Box::new(line));
        self.booking.open(id);
        if let Some(sharing) = &mut self.sharing {
            sharing.open(id, (!is_far).then_some(network));
        }
        self.rx_ready.insert(id);
        self.needs_flush.insert(id);
    }

    /// Detaches a device. What is still held from it or for it is refused, and its memory released.
    ///
    /// # Panics
    ///
    /// If no device is attached there.
    pub fn detach(&mut self, now: Instant, id: PortId) -> P {
        assert!(self.uplink != Some(id), "port {} is the uplink", id.index());
        self.forget_sender(now, id);
        self.booking.close(id, self.line(id).network, self.delivered(id));
        let mut gone = Vec::new();
        self.switch.detach(now, id, |released| gone.push(released));
        self.datapath.detach(id);
        self.release_all(now, gone);
        // Its number may soon be another port's: nothing of it may stay.
        self.diversions.forget(id);
        self.sharing.iter_mut().for_each(|sharing| sharing.close(id));
        self.unbind(id);
        let Self { rx_ready, unarmed, armed, doubtful, needs_flush, paced, tx_blocked, .. } = self;
        let [armed, doubtful] =
            [armed, doubtful].map(|Armed { ingress, egress }| [ingress, egress]);
        let sets = [rx_ready, unarmed, needs_flush, paced, tx_blocked].into_iter();
        sets.chain(armed).chain(doubtful).for_each(|set| set.remove(id));
        match self.lines[id.index()].take().expect("a port is detached once").end {
            End::Device(device) => device,
            End::Uplink(_) => unreachable!("the uplink is known"),
        }
    }

    /// Puts another device in place of a port's, and returns the one before. What was received from
    /// that one and is still held is refused. What is held for the port waits for the new device.
    ///
    /// # Panics
    ///
    /// If no device is attached there.
    pub fn replace(&mut self, now: Instant, id: PortId, device: P) -> P {
        self.forget_sender(now, id);
        let mut gone = Vec::new();
        self.switch.withdraw_all(now, id, |released| gone.push(released));
        self.release_all(now, gone);
        let line = self.line_mut(id);
        (line.muted, line.failed) = (false, None);
        let before = std::mem::replace(line.device(), device);
        self.unarmed.remove(id);
        for Armed { ingress, egress } in [&mut self.armed, &mut self.doubtful] {
            ingress.remove(id);
            egress.remove(id);
        }
        self.tx_blocked.remove(id);
        self.rx_ready.insert(id);
        self.needs_flush.insert(id);
        before
    }

    /// Stops new frames to and from a port that will be detached, as if it were detached already.
    /// Frames that are held go on to their receivers.
    pub fn close(&mut self, id: PortId) {
        self.mute(id);
        self.switch.close(id);
        self.datapath.close(id);
    }

    /// The datapath, to be asked and configured.
    pub fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    /// The datapath, to be asked and configured.
    pub fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.datapath
    }

    /// The switch, to be asked and configured.
    pub fn switch(&self) -> &Switch<Slot> {
        &self.switch
    }

    /// The switch, to be asked and configured.
    pub fn switch_mut(&mut self) -> &mut Switch<Slot> {
        &mut self.switch
    }

    /// The responder at every ingress.
    pub fn responder(&self) -> &R {
        &self.responder
    }

    /// The responder at every ingress.
    pub fn responder_mut(&mut self) -> &mut R {
        &mut self.responder
    }

    /// The gate at every egress.
    pub fn gate(&self) -> &G {
        &self.gate
    }

    /// The gate at every egress.
    pub fn gate_mut(&mut self) -> &mut G {
        &mut self.gate
    }

    /// A port's device.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn device(&self, id: PortId) -> &P {
        match &self.line(id).end {
            End::Device(device) => device,
            End::Uplink(_) => panic!("port {} is the uplink", id.index()),
        }
    }

    /// A port's device.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn device_mut(&mut self, id: PortId) -> &mut P {
        self.line_mut(id).device()
    }

    /// Whether a port had no room for a frame, or could not finish its flush, and will make no
    /// event when it can.
    pub fn is_any_tx_blocked(&self) -> bool {
        !self.tx_blocked.is_empty()
    }

    /// Whether a port had no room for the last frame that it was offered.
    pub fn is_tx_blocked(&self, id: PortId) -> bool {
        self.tx_blocked.contains(id)
    }

    /// Whether nothing is received from a port any more.
    pub fn is_muted(&self, id: PortId) -> bool {
        self.line(id).muted
    }

    /// Why a port's device no longer works, if so.
    pub fn failure(&self, id: PortId) -> Option<&PortError> {
        self.line(id).failed.as_ref()
    }

    /// Receives nothing from a port from now on. Frames that are held go on to their receivers.
    pub fn mute(&mut self, id: PortId) {
        if let Some(line) = self.lines[id.index()].as_mut() {
            line.muted = true;
        }
    }

    /// Bounds the rate at which frames are received from a port, or does not any more. What is not
    /// received waits with its sender: nothing is lost.
    ///
    /// # Panics
    ///
    /// If there is no such port.
    pub fn set_pace(&mut self, id: PortId, pace: Option<Shaping>) {
        let line = self.line_mut(id);
        let bucket = pace.map(|Shaping { rate, burst }| Gcra::of_bytes(rate, burst));
        line.pace = match (bucket, &line.pace) {
            (Some(bucket), Some(before)) => Some(bucket.full_with(before)),
            (bucket, _) => bucket,
        };
    }

    /// Whether the next [tick](Self::tick) is not to be late, although nothing else happens.
    pub fn is_tick_urgent(&self) -> bool {
        self.diversions.are_urgent()
    }

    /// Whether there are to be [ticks](Self::tick) now and then, although nothing else happens.
    pub fn needs_ticks(&self) -> bool {
        self.diversions.are_there()
    }

    /// When a sender may go on that has used up its rate for now.
    pub fn pace_deadline(&self) -> Option<Instant> {
        let ready = |id: PortId| self.line(id).pace.as_ref().map(Gcra::ready_at);
        self.paced.iter().filter_map(ready).min()
    }

    /// Marks the port with this number as ready to receive from, and returns its device. `None` if
    /// there is none.
    pub fn mark_rx_ready(&mut self, port: usize) -> Option<&mut P> {
        let line = self.lines.get_mut(port)?.as_mut()?;
        self.rx_ready.insert(line.id);
        match &mut line.end {
            End::Device(device) => Some(device),
            End::Uplink(_) => None,
        }
    }

    /// Arms devices that make no events by themselves, so that the next frame or room for one makes
    /// an event. To be called after a turn that moved nothing, before its owner sleeps. Returns
    /// whether something has arrived already: then the owner must not sleep.
    pub fn arm(&mut self) -> bool {
        let mut ready = false;
        for id in self.unarmed.iter() {
            let line = self.lines[id.index()].as_mut().expect("the port is attached");
            match line.device().arm_ingress() {
                Ok(true) => ready = true,
                Ok(false) => {
                    self.unarmed.remove(id);
                    self.rx_ready.remove(id);
                    self.armed.ingress.insert(id);
                }
                Err(error) => line.failed = Some(error),
            }
        }
        for id in self.tx_blocked.iter() {
            let line = self.lines[id.index()].as_mut().expect("the port is attached");
            // Sockets to far hosts make no event of room.
            let End::Device(device) = &mut line.end else { continue };
            match device.arm_egress() {
                Ok(Some(true)) => ready = true,
                Ok(Some(false)) => {
                    self.tx_blocked.remove(id);
                    self.armed.egress.insert(id);
                }
                Ok(None) => {}
                Err(error) => line.failed = Some(error),
            }
        }
        ready
    }

    /// Whether there are devices to [check](Self::check_armed).
    pub fn is_armed(&self) -> bool {
        let sets = [&self.armed, &self.doubtful].map(|Armed { ingress, egress }| [ingress, egress]);
        !sets.iter().flatten().all(|set| set.is_empty())
    }

    /// Checks devices that were armed before the last call of this, and returns whether one has
    /// something that it made no event of.
    ///
    /// A driver publishes a buffer and then reads whether an event is wanted (VIRTIO 1.2 §2.7.13);
    /// we ask for an event and then read whether there is a buffer. Both sides need a full barrier
    /// in between. A guest whose only processor QEMU emulates has none (TCG emits barriers for
    /// several processors only), so its buffer may become visible a moment later.
    pub fn check_armed(&mut self) -> bool {
        let armed = std::mem::take(&mut self.armed);
        let doubtful = std::mem::replace(&mut self.doubtful, armed);
        let mut found = false;
        for id in doubtful.ingress.iter() {
            let Some(line) = self.lines[id.index()].as_mut().filter(|line| line.failed.is_none())
            else {
                continue;
            };
            match line.device().arm_ingress() {
                Ok(true) => {
                    self.rx_ready.insert(id);
                    found = true;
                }
                Ok(false) => {}
                Err(error) => line.failed = Some(error),
            }
        }
        for id in doubtful.egress.iter() {
            let Some(line) = self.lines[id.index()].as_mut().filter(|line| line.failed.is_none())
            else {
                continue;
            };
            match line.device().arm_egress() {
                Ok(has_room) => found |= has_room == Some(true),
                Err(error) => line.failed = Some(error),
            }
        }
        found
    }

    /// Marks all ports as ready to receive from.
    pub fn mark_all_rx_ready(&mut self) {
        self.lines.iter().flatten().for_each(|line| self.rx_ready.insert(line.id));
    }

    /// Visits every port that may have something to do. Returns whether a frame moved, or may move
    /// in the next turn already.
    ///
    /// Where networks [share the thread](Self::share_thread) it visits as many as have their turn
    /// in a while.
    pub fn turn(&mut self, now: Instant) -> bool {
        // What it was given by the last turn has come back.
        self.turned.iter().for_each(|id| self.rx_ready.insert(*id));
        match (&self.taps, &self.sharing) {
            (None, None) => self.turn_as::<false>(now),
            (Some(_), None) => self.turn_as::<true>(now),
            (_, Some(_)) => self.turn_of_shares(now),
        }
    }

    #[cold]
    fn turn_of_shares(&mut self, now: Instant) -> bool {
        let Some(mut sharing) = self.sharing.take() else { return false };
        let moved = self.turn_shared(now, &mut sharing);
        self.sharing = Some(sharing);
        moved
    }

    /// A turn whose visits are watched, by captures of frames, or one that is compiled without.
    fn turn_as<const WATCHED: bool>(&mut self, now: Instant) -> bool {
        let mut moved = false;
        self.is_asking = false;
        self.tx_blocked = PortSet::default();
        moved |= self.handle_peer_events(now);
        self.booking.worked(Work::Control);
        for id in self.rx_ready.iter() {
            if self.uplink == Some(id) {
                moved |= self.receive_uplink(now, id);
                self.booking.worked(Work::Arrivals);
            } else {
                moved |= self.receive::<WATCHED>(now, id);
                self.booking.visited(id);
            }
        }
        let mut delivered = false;
        for id in self.switch.pending().iter() {
            if self.uplink == Some(id) {
                moved |= self.send_to_peers(now, id);
                self.booking.worked(Work::Departures);
            } else {
                delivered |= self.transmit::<WATCHED>(now, id);
                self.booking.visited(id);
            }
        }
        moved |= delivered;
        moved |= self.transmit_own(now);
        self.booking.worked(Work::Control);
        for id in self.needs_flush.iter() {
            if self.uplink == Some(id) {
                moved |= self.maintain_peers(now, id, delivered);
                self.booking.worked(Work::Departures);
            } else {
                self.flush(id);
                self.booking.visited(id);
            }
        }
        // Who was asked about before something moved, or before its owner slept, is asked about
        // again before it sleeps.
        self.round += u64::from(moved || !self.is_asking);
        moved || self.is_asking
    }

    /// Does what is due by now: see [`Switch::tick`] and [`Datapath::tick`]. Audits a few
    /// ports.
    pub fn tick(&mut self, now: Instant) {
        self.datapath.tick(now);
        if let Some(logical) = &mut self.logical {
            logical.expire(now, EXPIRED_AT_ONCE);
        }
        self.ask_again(now);
        let mut gone = Vec::new();
        self.switch.tick(now, |released| gone.push(released));
        self.release_all(now, gone);
        let Self { audit, switch, lines, needs_flush, diversions, .. } = self;
        diversions.divert_slow(switch, lines, needs_flush);
        diversions.tend(now, switch, lines, needs_flush);
        audit.step(switch, lines.iter().map(|line| line.as_ref().map(|line| line.id)));
    }

    /// Whether audits have found no defect so far: each tick audits a few ports. They count what
    /// lies at egresses; of an ingress, they only sum up its own books. [`Switch::audit`] counts
    /// everything at once.
    pub fn is_balanced(&self) -> bool {
        self.audit.is_balanced()
    }

    /// The first defect that an audit found, once.
    pub fn take_defect(&mut self) -> Option<&Defect> {
        self.audit.take_news()
    }

    pub(crate) fn line(&self, id: PortId) -> &Line<P, F> {
        self.lines[id.index()].as_ref().expect("the port is attached")
    }

    pub(crate) fn line_mut(&mut self, id: PortId) -> &mut Line<P, F> {
        self.lines[id.index()].as_mut().expect("the port is attached")
    }
}
