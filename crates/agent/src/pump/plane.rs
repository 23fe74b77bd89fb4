//! Ports and a switch between them: one thread's worth of forwarding.
//!
//! ```text
//!           receive            offer            head              transmit
//! device j ────────▶ slot ───────────▶ switch ────────▶ (gate) ───────────▶ device k
//!             ▲                                                        │
//!             └──────────────────── release ◀──────────────────────────┘
//! ```
//!
//! A turn visits every port twice: it lifts what its sender has, as far as the switch has room for that sender, and
//! hands out what its receiver may have, as far as the receiver takes it. The plane is told the time and never
//! sleeps.

use lossless::{Arrival, Flow, PortConfig, PortId, Refusal, Released, Settings, Switch, TooManyPorts};
use ports::{FrameView, Port, PortError, Slot, Taken};
use units::Instant;

/// The most frames of one port in one visit, so that a turn stays short and its cache lines warm.
const BURST: u32 = 64;

/// Says of a frame whether its last receiver, behind the device, has room for it.
pub trait Gate {
    /// Whether `frame` may go to the receiver behind `port` now, and with which others it shares its fate.
    fn ask(&mut self, port: PortId, frame: &FrameView<'_>) -> Verdict;

    /// The frame that was asked about last has been handed over.
    fn passed(&mut self);
}

/// A gate's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
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
    fn ask(&mut self, _: PortId, _: &FrameView<'_>) -> Verdict {
        Verdict::Free
    }

    #[inline]
    fn passed(&mut self) {}
}

/// A device at its port.
struct Line<P> {
    device: P,
    /// It was seen empty: its next event is worth waiting for.
    dry: bool,
    /// Its sender is not listened to any more.
    muted: bool,
    /// Its receiver had no room when it was last offered a frame, or the last flush was left undone.
    busy: bool,
    /// Touched since its last flush.
    dirty: bool,
    failed: Option<PortError>,
}

/// Ports, and the switch between them.
pub struct Plane<P, G> {
    switch: Switch<Slot>,
    /// By port number.
    lines: Vec<Option<Box<Line<P>>>>,
    ids: Vec<PortId>,
    gate: G,
    /// Refused in this visit, to be released after it.
    refused: Vec<Slot>,
}

impl<P: Port, G: Gate> Plane<P, G> {
    /// No ports yet.
    pub fn new(settings: Settings, gate: G) -> Self {
        Self {
            switch: Switch::new(settings),
            lines: Vec::new(),
            ids: Vec::new(),
            gate,
            refused: Vec::with_capacity(BURST as usize),
        }
    }

    /// Adds a device.
    ///
    /// # Errors
    ///
    /// [`TooManyPorts`]; the device is dropped.
    pub fn attach(&mut self, now: Instant, device: P, config: PortConfig) -> Result<PortId, TooManyPorts> {
        let id = self.switch.attach(now, config)?;
        if id.index() == self.lines.len() {
            self.lines.push(None);
        }
        let line = Line { device, dry: false, muted: false, busy: false, dirty: true, failed: None };
        self.lines[id.index()] = Some(Box::new(line));
        self.ids.push(id);
        Ok(id)
    }

    /// Takes a device away. What is still held from it or for it is refused, and its memory with it.
    pub fn detach(&mut self, now: Instant, id: PortId) -> P {
        let lines = &mut self.lines;
        self.switch.detach(now, id, |released| release(lines, released));
        self.ids.retain(|other| *other != id);
        self.lines[id.index()].take().expect("a port is detached once").device
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
    pub fn device_mut(&mut self, id: PortId) -> &mut P {
        &mut self.lines[id.index()].as_mut().expect("the port is attached").device
    }

    /// Whether a device had no room for a frame, or could not end its burst: nothing tells when it can.
    pub fn is_any_busy(&self) -> bool {
        self.lines.iter().flatten().any(|line| line.busy)
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
    pub fn stir(&mut self, port: usize) {
        if let Some(Some(line)) = self.lines.get_mut(port) {
            line.dry = false;
        }
    }

    /// Every device may have something again.
    pub fn stir_all(&mut self) {
        for line in self.lines.iter_mut().flatten() {
            line.dry = false;
        }
    }

    /// One visit to every port. Whether a frame moved.
    pub fn turn(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for place in 0..self.ids.len() {
            moved |= self.receive(now, self.ids[place]);
        }
        for place in 0..self.ids.len() {
            moved |= self.transmit(now, self.ids[place]);
        }
        for line in self.lines.iter_mut().flatten().filter(|line| line.dirty && line.failed.is_none()) {
            match line.device.flush() {
                Ok(done) => (line.dirty, line.busy) = (!done, line.busy || !done),
                Err(error) => line.failed = Some(error),
            }
        }
        moved
    }

    /// Does what time asks for: see [`Switch::tick`].
    pub fn tick(&mut self, now: Instant) {
        let Self { switch, lines, .. } = self;
        switch.tick(now, |released| release(lines, released));
    }

    fn line(&self, id: PortId) -> &Line<P> {
        self.lines[id.index()].as_ref().expect("the port is attached")
    }

    /// Lifts what a sender has, as far as the switch has room for it.
    // A visit each for `receive` and `transmit`: as parts of a turn, their loops would not fit the processor's registers.
    #[inline(never)]
    fn receive(&mut self, now: Instant, id: PortId) -> bool {
        let Self { switch, lines, refused, .. } = self;
        let line = lines[id.index()].as_mut().expect("the port is attached");
        if line.dry || line.muted || line.failed.is_some() {
            return false;
        }
        let most = switch.room(now, id).min(BURST);
        if most == 0 {
            return false;
        }
        let mut lifted = false;
        let mut visit = switch.arrivals(now, id);
        let arrived = |slot: Slot, view: FrameView<'_>| {
            lifted = true;
            let Some(header) = wire::ethernet::peek(view.bytes) else {
                visit.malformed();
                refused.push(slot);
                return;
            };
            let (bytes, frames) = view.on_wire();
            match visit.offer(Arrival { frame: slot, header, bytes: bytes as u32, frames: frames as u16 }) {
                Ok(None) => {}
                Ok(Some(slot)) => refused.push(slot),
                Err(_) => unreachable!("no more was lifted than there was room for"),
            }
        };
        let received = line.device.receive(most as usize, arrived);
        drop(visit);
        match received {
            Ok(more) => {
                line.dry = !more;
                if more && !lifted {
                    switch.pause(now, id);
                }
            }
            Err(error) => line.failed = Some(error),
        }
        for slot in refused.drain(..) {
            line.device.release(slot);
        }
        line.dirty |= lifted;
        lifted
    }

    /// Hands out what a receiver may have, as far as it takes it: first what was set aside and may go now.
    #[inline(never)]
    fn transmit(&mut self, now: Instant, id: PortId) -> bool {
        // For the visit, the receiver's line leaves its place: so every sender's can be borrowed beside it.
        let mut line = self.lines[id.index()].take().expect("the port is attached");
        line.busy = false;
        let mut moved = false;
        if self.switch.parked_flows(id).len() > 0 {
            let flows: Vec<_> = self.switch.parked_flows(id).collect();
            for flow in flows {
                moved |= self.drain(now, id, &mut line, Some(flow));
            }
        }
        moved |= self.drain(now, id, &mut line, None);
        self.lines[id.index()] = Some(line);
        moved
    }

    /// Hands out the frames of one flow that was set aside, or those of the queue.
    #[inline(always)]
    fn drain(&mut self, now: Instant, id: PortId, line: &mut Line<P>, parked: Option<Flow>) -> bool {
        let Self { switch, lines, gate, .. } = self;
        if line.failed.is_some() {
            return false;
        }
        let mut visit = switch.departures(now, id);
        let mut handed = 0;
        while handed < BURST {
            let head = match parked {
                None => visit.head(),
                Some(flow) => visit.parked_head(flow),
            };
            let Some(head) = head else { break };
            let source = lines[head.ingress().index()].as_deref_mut();
            let source = source.expect("a frame leaves by another port than it came, which is attached");
            let frame = source.device.frame(head.frame());
            match gate.ask(id, &frame) {
                Verdict::Hold(_) if parked.is_some() => break,
                Verdict::Hold(flow) => head.park(flow),
                Verdict::Go(flow) if parked.is_none() && head.is_parked(flow) => head.park(flow),
                Verdict::Go(_) | Verdict::Free => {
                    let released = match line.device.transmit(frame) {
                        Ok(Taken::Yes) => {
                            gate.passed();
                            head.delivered()
                        }
                        Ok(Taken::Unfit) => head.refuse(Refusal::UNFIT),
                        Ok(Taken::Busy) => {
                            line.busy = true;
                            break;
                        }
                        Err(error) => {
                            line.failed = Some(error);
                            break;
                        }
                    };
                    if let Some(slot) = released {
                        source.release(slot);
                    }
                }
            }
            handed += 1;
        }
        line.dirty |= handed > 0;
        handed > 0
    }
}

impl<P: Port> Line<P> {
    /// Gives a frame's memory back to its sender.
    #[inline]
    fn release(&mut self, slot: Slot) {
        self.device.release(slot);
        self.dirty = true;
    }
}

fn release<P: Port>(lines: &mut [Option<Box<Line<P>>>], released: Released<Slot>) {
    let line = lines[released.port.index()].as_mut().expect("frames of detached ports were released before");
    line.release(released.frame);
}
