//! Ports and a switch between them: one thread's worth of forwarding.
//!
//! ```text
//!           receive            offer            head              transmit
//! device j ────────▶ slot ───────────▶ switch ────────▶ (gate) ───────────▶ device k
//!             ▲                                                        │
//!             └──────────────────── release ◀──────────────────────────┘
//! ```
//!
//! A turn lifts what each sender has, as far as the switch has room for that sender, and hands out what each receiver
//! may have, as far as the receiver takes it. It visits only ports that may have something, so that idle ones cost
//! nothing. The plane is told the time and never sleeps.

mod far;
#[cfg(test)]
mod tests;

use datapath::{Datapath, Decision, Network, Verdict};
use lossless::{
    Flow, Offered, PortConfig, PortId, PortSet, Reason, Refusal, Refused, Released, Settings, Size, Switch,
    TooManyPorts,
};
use port::{FrameView, Left, Port, PortError, Slot, Taken};
use units::Instant;

pub use self::far::MaybeTrunk;
use super::taps::{Taps, Way};

/// The most frames of one port in one visit.
const BURST: u32 = port::BURST as u32;

/// Of how many frames a sender gets its memory back who may not be able to speak: a few words' worth.
const KEPT: usize = 8;

/// Says of a frame whether its last receiver, behind the device, has room for it.
pub trait Gate {
    /// Whether `frame` may go to the receiver behind `port` now, and with which others it shares its fate.
    fn ask(&mut self, port: PortId, frame: &FrameView<'_>) -> Clearance;

    /// The frame that was asked about last has been handed over.
    fn passed(&mut self);

    /// Whether a frame from behind `port`, which is a member of a virtual network, may be for the gate itself.
    #[inline]
    fn may_concern(&self, _port: PortId, _frame: &FrameView<'_>) -> bool {
        false
    }

    /// Whether a frame from behind `port` is meant for the gate itself, which then has it: nobody else gets it, and it is in
    /// no books. Asked of frames that may be, [by their address](wire::room::may_be) or as [the gate](Self::may_concern) says.
    fn hear(&mut self, port: PortId, frame: &FrameView<'_>) -> bool;

    /// Hands over what the gate itself has to say to whoever is behind a port, after all that went there before. Whoever
    /// transmits it says whether it is done with; if not, it is said another time.
    fn say(&mut self, transmit: impl FnMut(PortId, FrameView<'_>) -> bool);

    /// Tells of those who should have answered by now. Perhaps they cannot: what they sent before waits for others, who
    /// wait for that answer.
    fn unheard(&mut self, those: impl FnMut(PortId));
}

/// What a visit to a sender relies on.
const HAS_ROOM: &str = "no more was lifted than there was room for";

/// A gate's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Clearance {
    /// The gate has no say in this frame.
    Free,
    /// It belongs to a flow that may go.
    Go(Flow),
    /// It belongs to a flow that must wait.
    Hold(Flow),
}

/// No gate: every frame may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl Gate for Open {
    #[inline]
    fn ask(&mut self, _: PortId, _: &FrameView<'_>) -> Clearance {
        Clearance::Free
    }

    #[inline]
    fn passed(&mut self) {}

    fn hear(&mut self, _: PortId, _: &FrameView<'_>) -> bool {
        false
    }

    #[inline]
    fn say(&mut self, _: impl FnMut(PortId, FrameView<'_>) -> bool) {}

    #[inline]
    fn unheard(&mut self, _: impl FnMut(PortId)) {}
}

/// A device at its port.
struct Line<P> {
    id: PortId,
    device: P,
    /// That of the frames that come by it.
    network: Network,
    /// Its sender is not listened to any more.
    muted: bool,
    failed: Option<PortError>,
}

/// Devices that were asked for an event: of a frame, of room for one.
#[derive(Default)]
struct Armed {
    ingress: PortSet,
    egress: PortSet,
}

/// Ports, and the switch between them.
pub struct Plane<P, G> {
    /// Where frames go.
    datapath: Datapath,
    /// Where they wait.
    switch: Switch<Slot>,
    /// By port number.
    lines: Vec<Option<Box<Line<P>>>>,
    /// Those whose senders may have something; the others were seen empty, and their next event is worth waiting for.
    wet: PortSet,
    /// Those of the wet that were seen empty, and make no events before they are armed.
    silent: PortSet,
    /// Those that were asked for an event since somebody looked [again](Self::look_again), and those to be looked at then.
    armed: Armed,
    doubtful: Armed,
    /// Those touched since their last flush.
    dirty: PortSet,
    /// Those that had no room when they were last offered a frame, or could not end their last flush.
    busy: PortSet,
    /// Those that lead to other hosts.
    trunks: PortSet,
    gate: G,
    /// Refused in this visit, or heard, to be released after it.
    refused: Vec<Slot>,
    /// Those who capture, if anybody does.
    taps: Option<Box<Taps>>,
}

impl<P: MaybeTrunk, G: Gate> Plane<P, G> {
    /// No ports yet.
    pub fn new(settings: Settings, datapath: datapath::Settings, gate: G) -> Self {
        Self {
            datapath: Datapath::new(datapath),
            switch: Switch::new(settings),
            lines: Vec::new(),
            wet: PortSet::default(),
            silent: PortSet::default(),
            armed: Armed::default(),
            doubtful: Armed::default(),
            dirty: PortSet::default(),
            busy: PortSet::default(),
            trunks: PortSet::default(),
            gate,
            refused: Vec::with_capacity(BURST as usize),
            taps: None,
        }
    }

    /// Adds a device.
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
        self.datapath.attach(id, forwarding);
        if id.index() == self.lines.len() {
            self.lines.push(None);
        }
        self.lines[id.index()] =
            Some(Box::new(Line { id, device, network: forwarding.network, muted: false, failed: None }));
        if forwarding.trunk {
            self.trunks.insert(id);
        }
        self.wet.insert(id);
        self.dirty.insert(id);
        Ok(id)
    }

    /// Takes a device away. What is still held from it or for it is refused, and its memory with it.
    pub fn detach(&mut self, now: Instant, id: PortId) -> P {
        self.forget(id);
        let mut gone = Vec::new();
        self.switch.detach(now, id, |released| gone.push(released));
        self.datapath.detach(id);
        self.let_go(now, gone);
        let Self { wet, silent, dirty, busy, trunks, .. } = self;
        for set in [wet, silent, dirty, busy, trunks] {
            set.remove(id);
        }
        self.lines[id.index()].take().expect("a port is detached once").device
    }

    /// Before a port is taken away: nothing new goes there, as if it had gone already, nor comes from there. What is held goes on.
    pub fn close(&mut self, id: PortId) {
        self.mute(id);
        self.switch.close(id);
        self.datapath.close(id);
    }

    /// What decides where frames go, to be asked and configured.
    pub fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    /// What decides where frames go, to be asked and configured.
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

    /// The gate.
    pub fn gate(&self) -> &G {
        &self.gate
    }

    /// The gate.
    pub fn gate_mut(&mut self) -> &mut G {
        &mut self.gate
    }

    /// A port's device.
    pub fn device(&self, id: PortId) -> &P {
        &self.line(id).device
    }

    /// A port's device.
    pub fn device_mut(&mut self, id: PortId) -> &mut P {
        &mut self.lines[id.index()].as_mut().expect("the port is attached").device
    }

    /// Whether a device had no room for a frame, or could not end its burst: nothing tells when it can.
    pub fn is_any_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Whether a device had no room for the last frame that it was offered.
    pub(super) fn is_busy(&self, id: PortId) -> bool {
        self.busy.contains(id)
    }

    /// Whether a port's sender is not listened to any more.
    pub(super) fn is_muted(&self, id: PortId) -> bool {
        self.line(id).muted
    }

    /// Why a port's device no longer works, if so.
    pub fn failure(&self, id: PortId) -> Option<&PortError> {
        self.line(id).failed.as_ref()
    }

    /// From now on a port's sender is not listened to; what is held goes on to its receivers.
    pub fn mute(&mut self, id: PortId) {
        if let Some(line) = self.lines[id.index()].as_mut() {
            line.muted = true;
        }
    }

    /// The device of the port with this number, if there is one, may have something again.
    pub fn stir(&mut self, port: usize) -> Option<&mut P> {
        let line = self.lines.get_mut(port)?.as_mut()?;
        self.wet.insert(line.id);
        Some(&mut line.device)
    }

    /// After a turn that moved nothing, and before its owner sleeps: has devices that make no events by themselves make one
    /// of whatever comes next. Whether something has come already, so that it is no time to sleep.
    pub fn arm(&mut self) -> bool {
        let mut ready = false;
        for id in self.silent.iter() {
            let line = self.lines[id.index()].as_mut().expect("the port is attached");
            match line.device.arm_ingress() {
                Ok(true) => ready = true,
                Ok(false) => {
                    self.silent.remove(id);
                    self.wet.remove(id);
                    self.armed.ingress.insert(id);
                }
                Err(error) => line.failed = Some(error),
            }
        }
        for id in self.busy.iter() {
            let line = self.lines[id.index()].as_mut().expect("the port is attached");
            match line.device.arm_egress() {
                Ok(Some(true)) => ready = true,
                Ok(Some(false)) => {
                    self.busy.remove(id);
                    self.armed.egress.insert(id);
                }
                Ok(None) => {}
                Err(error) => line.failed = Some(error),
            }
        }
        ready
    }

    /// Whether there are devices to look at [again](Self::look_again).
    pub fn is_armed(&self) -> bool {
        let sets = [&self.armed, &self.doubtful].map(|Armed { ingress, egress }| [ingress, egress]);
        !sets.iter().flatten().all(|set| set.is_empty())
    }

    /// Looks once more at devices that were asked for an event before this was called last. Whether one has something that it made
    /// no event of.
    ///
    /// A driver says that there is something, and then looks whether an event is wanted (VIRTIO 1.2 §2.7.13); we say that we want one,
    /// and look whether there is something. Both need a barrier in between, and a guest has none whose only processor QEMU emulates
    /// (TCG makes barriers for several). What it has said is seen a moment later.
    pub fn look_again(&mut self) -> bool {
        let armed = std::mem::take(&mut self.armed);
        let doubtful = std::mem::replace(&mut self.doubtful, armed);
        let mut found = false;
        for id in doubtful.ingress.iter() {
            let Some(line) = self.lines[id.index()].as_mut().filter(|line| line.failed.is_none()) else {
                continue;
            };
            match line.device.arm_ingress() {
                Ok(true) => {
                    self.wet.insert(id);
                    found = true;
                }
                Ok(false) => {}
                Err(error) => line.failed = Some(error),
            }
        }
        for id in doubtful.egress.iter() {
            let Some(line) = self.lines[id.index()].as_mut().filter(|line| line.failed.is_none()) else {
                continue;
            };
            match line.device.arm_egress() {
                Ok(has_room) => found |= has_room == Some(true),
                Err(error) => line.failed = Some(error),
            }
        }
        found
    }

    /// Every device may have something again.
    pub fn stir_all(&mut self) {
        self.lines.iter().flatten().for_each(|line| self.wet.insert(line.id));
    }

    /// One visit to every port that may have something. Whether a frame moved.
    pub fn turn(&mut self, now: Instant) -> bool {
        match self.taps {
            None => self.turn_as::<false>(now),
            Some(_) => self.turn_as::<true>(now),
        }
    }

    /// A turn in which frames are captured, or none is: what that takes is not there then.
    fn turn_as<const TAPPED: bool>(&mut self, now: Instant) -> bool {
        let mut moved = false;
        self.busy = PortSet::default();
        for id in self.wet.iter() {
            moved |=
                if self.trunks.contains(id) { self.lift(now, id) } else { self.receive::<TAPPED>(now, id) };
        }
        let mut handed = false;
        for id in self.switch.pending().iter() {
            let sent = self.transmit::<TAPPED>(now, id);
            handed |= sent && !self.trunks.contains(id);
            moved |= sent;
        }
        self.say(now);
        for id in self.dirty.iter() {
            if self.trunks.contains(id) {
                moved |= self.tend(now, id, handed);
            } else {
                self.flush(id);
            }
        }
        moved
    }

    /// Does what time asks for: see [`Switch::tick`]. Hosts of which nothing is heard are given up.
    pub fn tick(&mut self, now: Instant) {
        self.listen(now);
        self.datapath.tick(now);
        let mut gone = Vec::new();
        self.switch.tick(now, |released| gone.push(released));
        self.let_go(now, gone);
    }

    /// Those who capture: from now on there may be some.
    pub(super) fn taps_or_new(&mut self) -> &mut Taps {
        let Self { switch, taps, .. } = self;
        taps.get_or_insert_with(|| {
            switch.list_refused(true);
            Box::default()
        })
    }

    /// Those who capture, if anybody does.
    pub(super) fn taps_mut(&mut self) -> Option<&mut Taps> {
        self.taps.as_deref_mut()
    }

    /// Hands over what was captured since the last time.
    pub(super) fn flush_taps(&mut self) {
        if let Some(taps) = &mut self.taps
            && !taps.flush()
        {
            self.taps = None;
            self.switch.list_refused(false);
        }
    }

    /// Gives frames' memory back, after those who capture have seen which of them were refused.
    fn let_go(&mut self, now: Instant, gone: Vec<Released<Slot>>) {
        let Self { switch, lines, dirty, taps, .. } = self;
        if let Some(taps) = taps {
            show_refused(now, switch, taps, |port, slot| {
                lines[port.index()]
                    .as_deref()
                    .expect("it is attached as long as it has frames")
                    .device
                    .frame(slot)
            });
        }
        gone.into_iter().for_each(|released| release(lines, dirty, released));
    }

    fn line(&self, id: PortId) -> &Line<P> {
        self.lines[id.index()].as_ref().expect("the port is attached")
    }

    /// Lifts what a sender has, as far as the switch has room for it.
    // A visit each for `receive` and `transmit`: as parts of a turn, their loops would not fit the processor's registers.
    #[inline(never)]
    fn receive<const TAPPED: bool>(&mut self, now: Instant, id: PortId) -> bool {
        let Self { datapath, switch, lines, wet, silent, armed, dirty, gate, refused, taps, .. } = self;
        let line = lines[id.index()].as_mut().expect("the port is attached");
        silent.remove(id);
        if line.muted || line.failed.is_some() {
            wet.remove(id);
            return false;
        }
        let most = switch.room(now, id).min(BURST);
        if most == 0 {
            return false;
        }
        let mut lifted = false;
        let mut decisions = datapath.visit(now, id);
        let mut visit = switch.arrivals(now, id);
        let network = line.network;
        let arrived = |slot: Slot, view: &FrameView<'_>| {
            lifted = true;
            let mut taps = if TAPPED { taps.as_deref_mut() } else { None };
            let Some(header) = wire::ethernet::peek(view.bytes) else {
                visit.refuse(decisions.default_class(), view.len() as u32, Refusal::MALFORMED);
                refused.push(slot);
                if let Some(taps) = taps {
                    taps.refuse(now, id, None, Reason::Malformed, view);
                }
                return;
            };
            if let Some(taps) = &mut taps {
                taps.pass(now, id, Way::In, view);
            }
            let may_be = wire::room::may_be(header.destination())
                || network != Network::default() && gate.may_concern(id, view);
            if may_be && gate.hear(id, view) {
                refused.push(slot);
                return;
            }
            let (bytes, frames) = view.on_wire();
            let size = Size { bytes: bytes as u32, frames: frames as u16 };
            let reason = match decisions.decide(&header, network) {
                Decision { class, verdict: Verdict::Forward(to) } => match visit.offer(to, class, slot, size)
                {
                    Offered::Held => return,
                    Offered::Refused(_, reason) => reason,
                    Offered::Full(_) | Offered::Through(_) => unreachable!("{HAS_ROOM}"),
                },
                Decision { class, verdict: Verdict::Refuse(refusal) } => {
                    visit.refuse(class, size.bytes, refusal);
                    refusal.reason()
                }
            };
            refused.push(slot);
            if let Some(taps) = taps {
                taps.refuse(now, id, None, reason, view);
            }
        };
        let received = line.device.receive(most as usize, arrived);
        drop(visit);
        match received {
            Ok(Left::Full) if !lifted => switch.pause(now, id),
            Ok(Left::Full | Left::More) => {}
            Ok(Left::Silence) => silent.insert(id),
            Ok(Left::Nothing) => wet.remove(id),
            Ok(Left::Armed) => {
                wet.remove(id);
                armed.ingress.insert(id);
            }
            Err(error) => line.failed = Some(error),
        }
        if TAPPED && let Some(taps) = taps {
            show_refused(now, switch, taps, |_, slot| line.device.frame(slot));
        }
        for slot in refused.drain(..) {
            line.device.release(slot);
        }
        // Even if it lifted nothing: that it was seen empty may be what a grant was waiting for.
        dirty.insert(id);
        lifted
    }

    /// Hands out what a receiver may have, as far as it takes it: first what was set aside and may go now.
    #[inline(never)]
    fn transmit<const TAPPED: bool>(&mut self, now: Instant, id: PortId) -> bool {
        // For the visit, the receiver's line leaves its place: so every sender's can be borrowed beside it.
        let mut line = self.lines[id.index()].take().expect("the port is attached");
        let mut moved = false;
        if self.switch.parked_flows(id).len() > 0 {
            let flows: Vec<_> = self.switch.parked_flows(id).collect();
            for flow in flows {
                moved |= self.hand_out::<TAPPED>(now, id, &mut line, Some(flow));
            }
        }
        moved |= self.hand_out::<TAPPED>(now, id, &mut line, None);
        // Before anybody's flush, and before a trunk tells a far host: whoever had a frame may forget it then.
        if moved && let Err(error) = line.device.deliver() {
            line.failed.get_or_insert(error);
        }
        self.lines[id.index()] = Some(line);
        moved
    }

    /// Hands out the frames of one flow that was set aside, or those of the queue.
    #[inline(always)]
    fn hand_out<const TAPPED: bool>(
        &mut self,
        now: Instant,
        id: PortId,
        line: &mut Line<P>,
        parked: Option<Flow>,
    ) -> bool {
        if self.trunks.contains(id) {
            self.send(now, id, line, parked)
        } else {
            self.drain::<TAPPED>(now, id, line, parked)
        }
    }

    /// Hands them out to this host's own receiver.
    #[inline(always)]
    fn drain<const TAPPED: bool>(
        &mut self,
        now: Instant,
        id: PortId,
        line: &mut Line<P>,
        parked: Option<Flow>,
    ) -> bool {
        let Self { switch, lines, dirty, busy, gate, taps, .. } = self;
        if line.failed.is_some() {
            return false;
        }
        let mut visit = switch.departures(now, id);
        let mut handed = 0;
        let mut last = id;
        while handed < BURST {
            let head = match parked {
                None => visit.head(),
                Some(flow) => visit.parked_head(flow),
            };
            let Some(head) = head else { break };
            let ingress = head.ingress();
            let source = lines[ingress.index()].as_deref_mut();
            let source = source.expect("a frame leaves by another port than it came, which is attached");
            let frame = &source.device.frame(head.frame());
            let taps = if TAPPED { taps.as_deref_mut() } else { None };
            if frame.bytes.is_empty() {
                if let Some(taps) = taps {
                    taps.refuse(now, ingress, Some(id), Reason::Withdrawn, frame);
                }
                let gone = head.refuse(Refusal::WITHDRAWN);
                gone.into_iter().for_each(|frame| release(lines, dirty, Released { port: ingress, frame }));
                handed += 1;
                continue;
            }
            match gate.ask(id, frame) {
                Clearance::Hold(_) if parked.is_some() => break,
                Clearance::Hold(flow) => head.park(flow),
                Clearance::Go(flow) if parked.is_none() && head.is_parked(flow) => head.park(flow),
                Clearance::Go(_) | Clearance::Free => {
                    let released = match line.device.transmit(frame) {
                        Ok(Taken::Yes) => {
                            gate.passed();
                            if let Some(taps) = taps {
                                taps.pass(now, id, Way::Out, frame);
                            }
                            head.delivered()
                        }
                        Ok(Taken::Unfit) => {
                            if let Some(taps) = taps {
                                taps.refuse(now, ingress, Some(id), Reason::Unfit, frame);
                            }
                            head.refuse(Refusal::UNFIT)
                        }
                        Ok(Taken::Busy) => {
                            busy.insert(id);
                            // Whatever it found unfit for use, it gives back.
                            dirty.insert(id);
                            break;
                        }
                        Err(error) => {
                            line.failed = Some(error);
                            break;
                        }
                    };
                    if let Some(slot) = released {
                        source.device.release(slot);
                        if ingress != last {
                            dirty.insert(ingress);
                            last = ingress;
                        }
                    }
                }
            }
            handed += 1;
        }
        if handed > 0 {
            dirty.insert(id);
        }
        handed > 0
    }

    /// Transmits what the gate itself has to say.
    fn say(&mut self, now: Instant) {
        let Self { lines, dirty, busy, gate, taps, .. } = self;
        gate.say(|id, frame| {
            let line = lines[id.index()].as_mut().expect("the port is attached");
            if line.failed.is_some() {
                return true;
            }
            match line.device.transmit(&frame) {
                Ok(taken @ (Taken::Yes | Taken::Unfit)) => {
                    dirty.insert(id);
                    if let (Taken::Yes, Some(taps)) = (taken, taps.as_deref_mut()) {
                        taps.pass(now, id, Way::Out, &frame);
                    }
                }
                Ok(Taken::Busy) => {
                    busy.insert(id);
                    return false;
                }
                Err(error) => line.failed = Some(error),
            }
            true
        });
        gate.unheard(|id| {
            lines[id.index()].as_mut().expect("the port is attached").device.keep(KEPT);
            dirty.insert(id);
        });
    }

    /// Ends a device's burst.
    fn flush(&mut self, id: PortId) {
        let line = self.lines[id.index()].as_mut().expect("the port is attached");
        self.dirty.remove(id);
        if line.failed.is_some() {
            return;
        }
        match line.device.flush() {
            Ok(true) => {}
            Ok(false) => {
                self.dirty.insert(id);
                self.busy.insert(id);
            }
            Err(error) => line.failed = Some(error),
        }
    }
}

/// Shows those who capture what the switch has refused, as long as it lies where it did.
fn show_refused<'f>(
    now: Instant,
    switch: &mut Switch<Slot>,
    taps: &mut Taps,
    frame_of: impl Fn(PortId, Slot) -> FrameView<'f>,
) {
    for Refused { frame, ingress, egress, reason } in switch.take_refused() {
        taps.refuse(now, ingress, Some(egress), reason, &frame_of(ingress, frame));
    }
}

/// Gives a frame's memory back to its sender.
fn release<P: Port>(lines: &mut [Option<Box<Line<P>>>], dirty: &mut PortSet, released: Released<Slot>) {
    let Released { port, frame } = released;
    let line = lines[port.index()].as_mut().expect("frames of detached ports were released before");
    line.device.release(frame);
    dirty.insert(port);
}
