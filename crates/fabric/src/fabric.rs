//! The switch and its links as they move on in time.

use alloc::vec::Vec;

use lossless::{Limits, Offered, Reason, Settings, Size, Switch};
use units::{Class, ClassMap, Instant, Span};
use wire::{ethernet, pfc};

use crate::code_points::CodePoints;
use crate::forwarding::Forwarding;
use crate::frames::{Frame, Frames, Number};
use crate::input::Input;
use crate::mark::is_ecn_capable;
use crate::port::{Inbound, Outbound, Port, address, told};
use crate::transmitter::SHORTEST;
use crate::{Config, Counters, DropReason, InvalidConfig};

/// How often stalled hosts and old addresses are looked for.
const TICK: Span = Span::from_millis(100);

/// A physical switch and its links, over frames that it knows by a handle `F`. See the
/// [crate](crate).
#[derive(Debug)]
pub struct Fabric<F> {
    switch: Switch<Number>,
    ports: Vec<Port>,
    /// By port: when something happens there next; a time in the past is now.
    due: Vec<Option<Instant>>,
    frames: Frames<F>,
    rules: Rules,
    forwarding: Forwarding,
    /// Bytes that frames of lossy classes take of all buffers.
    shared_used: u64,
    /// What has happened until now has been seen to.
    now: Instant,
    tick_at: Instant,
    released: Vec<Released<F>>,
}

/// What all ports have in common.
#[derive(Debug)]
struct Rules {
    shared: u64,
    mark_at: Option<u64>,
    loss: f64,
    code_points: Option<CodePoints>,
}

/// What is on its way from one switch to another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crossing<F> {
    Frame(Frame<F>),
    Pause(ClassMap<Option<u16>>),
}

/// A frame that a host sends.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a, F> {
    /// The owner's handle.
    pub handle: F,
    /// The frame, or the part that holds all its headers.
    pub head: &'a [u8],
    /// How long the whole frame is, in bytes.
    pub len: usize,
    /// How many frames it stands for on a wire; 1 unless it is a large segment.
    pub frames: u16,
    /// How many bytes it stands for on a wire, from the Ethernet header on.
    pub bytes: u32,
}

/// What a host receives.
#[derive(Clone, Copy, Debug)]
pub enum Delivery<F> {
    /// A frame that a host has sent.
    Frame {
        /// That host's port.
        from: usize,
        /// The handle it was sent by.
        handle: F,
        /// It is to be [marked](crate::mark) first. Other receivers get the same frame, perhaps
        /// without a mark.
        mark: bool,
    },
    /// What the switch itself says.
    Pause(pfc::Frame),
}

/// A frame that the fabric is done with: its owner may have its memory back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Released<F> {
    /// The port of the host that sent it.
    pub port: usize,
    /// The handle.
    pub handle: F,
}

impl<F: Copy> Fabric<F> {
    /// A switch whose links are idle.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`]
    pub fn new(config: &Config) -> Result<Self, InvalidConfig> {
        config.check()?;
        let settings = Settings {
            classes: config.classes,
            stall_after: config.stall_after,
            ..Settings::default()
        };
        let mut switch = Switch::new(settings);
        // What has found room in its input's buffer may wait for any output.
        let boundless = Limits::frames(u32::MAX);
        // What came by a trunk goes by another only where there are no hosts.
        let is_leaf = config.ports.iter().any(|port| !port.trunk);
        let mut ports = Vec::with_capacity(config.ports.len());
        let mut forwarded = Vec::with_capacity(config.ports.len());
        for (number, it) in config.ports.iter().enumerate() {
            let attached = lossless::PortConfig {
                ingress: boundless,
                egress: boundless,
                scheduling: config.scheduling,
                ..lossless::PortConfig::default()
            };
            let too_many = |_| InvalidConfig::TooManyPorts(config.ports.len());
            let id = switch.attach(Instant::ZERO, attached).map_err(too_many)?;
            forwarded.push((id, it.class, is_leaf && it.trunk));
            ports.push(Port::new(config, number, id));
        }
        Ok(Self {
            switch,
            due: ports.iter().map(|_| None).collect(),
            ports,
            frames: Frames::new(),
            rules: Rules {
                shared: config.shared.map_or(u64::MAX, |bytes| bytes.0),
                mark_at: config.ecn.map(|bytes| bytes.0),
                loss: config.loss,
                code_points: config.dscp.as_ref().map(CodePoints::new),
            },
            forwarding: Forwarding::new(&config.routes, &forwarded),
            shared_used: 0,
            now: Instant::ZERO,
            tick_at: Instant::ZERO,
            released: Vec::new(),
        })
    }

    /// When a port's host has sent what it is sending.
    pub fn host_free_at(&self, port: usize) -> Instant {
        self.ports[port].host.free_at()
    }

    /// Whether a frame that a port's host sends now is sure to find room in every lossless class.
    /// If not, a host that has obeyed its pauses has nothing to send, and another may be held back
    /// by other means.
    pub fn has_room(&self, port: usize) -> bool {
        self.ports[port].inputs.0.iter().all(Input::has_room)
    }

    /// A port's host sends a frame as soon as its end of the link is free, and not before `now`.
    ///
    /// A pause (802.3x or 802.1Qbb) is for the switch: its handle is released at once.
    pub fn send(&mut self, now: Instant, port: usize, sent: Sent<'_, F>) {
        let Sent { handle, head, len, frames, .. } = sent;
        let bytes = sent.bytes.max(u32::from(frames) * SHORTEST as u32);
        let it = &self.ports[port];
        let what = if let Some(told) = told(head) {
            self.released.push(Released { port, handle });
            Inbound::Pause(told)
        } else {
            let plain = ethernet::peek(head);
            let header = match &self.rules.code_points {
                None => plain,
                Some(code_points) => plain.map(|plain| code_points.tag(plain, head, len)),
            };
            let class = it.class_of(header);
            let frame = Frame {
                handle,
                from: port as u16,
                class,
                frames,
                bytes,
                header,
                flow: self.forwarding.flow(head, len),
                ecn_capable: self.rules.mark_at.is_some() && is_ecn_capable(head, len),
                marked: false,
                switched: false,
                underway: 0,
                taken: false,
                gone: false,
            };
            Inbound::Frame(self.receive(port, frame))
        };
        self.ports[port].host.send(now, frames, bytes, what);
        self.refresh(port);
    }

    /// Something has come from another switch, `at` this time: its link is that switch's to keep.
    pub(crate) fn enter(&mut self, at: Instant, port: usize, what: Crossing<F>) {
        let what = match what {
            Crossing::Frame(frame) => {
                let class = self.ports[port].class_of(frame.header);
                Inbound::Frame(self.receive(port, Frame { from: port as u16, class, ..frame }))
            }
            Crossing::Pause(told) => Inbound::Pause(told),
        };
        self.ports[port].host.bring(at, what);
        self.refresh(port);
    }

    /// Books a frame that is on its way to the switch.
    fn receive(&mut self, port: usize, frame: Frame<F>) -> Number {
        let it = &mut self.ports[port];
        it.counters[frame.class].receive(frame.frames, frame.bytes);
        it.inputs[frame.class].underway_bytes += u64::from(frame.bytes);
        self.frames.insert(frame)
    }

    /// Hands over what has reached other switches by `now`: by which trunk and what it is.
    pub(crate) fn cross(&mut self, now: Instant, mut over: impl FnMut(usize, Crossing<F>)) {
        for port in 0..self.ports.len() {
            if !self.ports[port].trunk {
                continue;
            }
            while let Some(what) = self.ports[port].output.arrived(now) {
                match what {
                    Outbound::Pause(told) => over(port, Crossing::Pause(told)),
                    Outbound::Frame { number, mark } => {
                        let frame = self.frames.get_mut(number);
                        let marked = frame.marked || mark;
                        let onward = Frame {
                            marked,
                            switched: false,
                            underway: 0,
                            taken: false,
                            gone: false,
                            ..*frame
                        };
                        over(port, Crossing::Frame(onward));
                        (frame.taken, frame.gone) = (true, true);
                        frame.underway -= 1;
                        self.end(number, DropReason::Untaken);
                    }
                }
            }
        }
    }

    /// When something happens here, or reaches another switch.
    pub(crate) fn happens_at(&self) -> Option<Instant> {
        let trunks = self.ports.iter().filter(|port| port.trunk);
        let crosses = trunks.filter_map(|port| port.output.arrives_at());
        crosses.chain(self.next().map(|(at, _)| at)).min()
    }

    /// Sees to what has happened by `now`, one after the other.
    pub fn run(&mut self, now: Instant) {
        while let Some((at, port)) = self.next()
            && at <= now
        {
            self.now = self.now.max(at);
            self.step(port);
        }
        self.now = self.now.max(now);
        if self.tick_at <= now {
            self.tick_at = now + TICK;
            self.tick();
        }
    }

    /// Hands hosts what has reached them by `now`: the port and what it is. `take` says whether the
    /// host took it.
    pub fn deliver(&mut self, now: Instant, mut take: impl FnMut(usize, Delivery<F>) -> bool) {
        for port in 0..self.ports.len() {
            if self.ports[port].trunk {
                continue;
            }
            while let Some(what) = self.ports[port].output.arrived(now) {
                match what {
                    Outbound::Pause(told) => {
                        take(port, Delivery::Pause(pfc::Frame::new(address(port), &told)));
                    }
                    Outbound::Frame { number, mark } => {
                        let frame = self.frames.get_mut(number);
                        let mark = mark || frame.marked;
                        let delivery =
                            Delivery::Frame { from: frame.from.into(), handle: frame.handle, mark };
                        frame.taken |= take(port, delivery);
                        frame.underway -= 1;
                        self.end(number, DropReason::Untaken);
                    }
                }
            }
        }
    }

    /// The frames that it is done with since this was asked last.
    pub fn released(&mut self) -> impl Iterator<Item = Released<F>> {
        self.released.drain(..)
    }

    /// When there is something to [`run`](Self::run) or to [`deliver`](Self::deliver), if nothing
    /// is sent before.
    pub fn deadline(&self) -> Option<Instant> {
        let happens = self.next().map(|(at, _)| at);
        let arrives = self.ports.iter().filter_map(|port| port.output.arrives_at()).min();
        let tick = (!self.switch.pending().is_empty()).then_some(self.tick_at);
        [happens, arrives, tick].into_iter().flatten().min()
    }

    /// What was counted at a port in a class.
    pub fn counters(&self, port: usize, class: Class) -> &Counters {
        &self.ports[port].counters[class]
    }

    /// Whether all books balance, the switch's and ours.
    pub fn balances(&self) -> bool {
        let ours = self.ports.iter().flat_map(|port| &port.counters.0).all(Counters::balances);
        ours && self.switch.audit().is_ok()
    }

    /// What happens next, and where.
    fn next(&self) -> Option<(Instant, usize)> {
        let due = self.due.iter().enumerate();
        due.filter_map(|(port, at)| Some(((*at)?, port))).min()
    }

    /// Sees to what is due at a port now.
    fn step(&mut self, port: usize) {
        let now = self.now;
        while let Some(what) = self.ports[port].host.arrived(now) {
            match what {
                Inbound::Frame(number) => self.arrive(port, number),
                Inbound::Pause(told) => self.ports[port].obey(now, &told),
            }
        }
        self.ports[port].inputs.0.iter_mut().for_each(|input| input.renew(now));
        if self.sends_at(port).is_some_and(|at| at <= now) {
            self.transmit(port);
        }
        self.refresh(port);
    }

    /// A frame has arrived at the switch.
    fn arrive(&mut self, port: usize, number: Number) {
        let Frame { class, frames, bytes, header, flow, .. } = *self.frames.get(number);
        let it = &mut self.ports[port];
        it.inputs[class].underway_bytes -= u64::from(bytes);
        let shared = if it.inputs[class].is_lossless() { 0 } else { u64::from(bytes) };
        let fate = match header {
            _ if self.rules.loss > 0.0 && it.rng.unit_f64() < self.rules.loss => {
                Err(DropReason::Random)
            }
            None => Err(DropReason::Refused(Reason::Malformed)),
            Some(_) if self.shared_used + shared > self.rules.shared => {
                Err(DropReason::Refused(Reason::Full))
            }
            Some(header) => it.inputs[class].hold(frames, bytes).map(|()| header),
        };
        let header = match fate {
            Ok(header) => header,
            Err(reason) => return self.end(number, reason),
        };
        self.shared_used += shared;
        self.frames.get_mut(number).switched = true;
        let (now, from, size) = (self.now, it.id, Size { bytes, frames });
        let mut visit = self.switch.arrivals(now, from);
        let refused = match self.forwarding.decide(now, from, &header, flow) {
            Ok(destination) => match visit.offer(destination, class, number, size) {
                Offered::Held => None,
                Offered::Refused(_, reason) => Some(reason),
                Offered::Through(_) | Offered::Full(_) => unreachable!("its ingress is boundless"),
            },
            Err(refusal) => {
                visit.refuse(class, bytes, refusal);
                Some(refusal.reason())
            }
        };
        drop(visit);
        if let Some(reason) = refused {
            self.leave(number);
            self.end(number, DropReason::Refused(reason));
        }
        for id in self.switch.pending().iter() {
            self.refresh(id.index());
        }
    }

    /// A port's transmitter is free and has something to send: pauses before everything else, then
    /// what the host does not pause.
    fn transmit(&mut self, port: usize) {
        let now = self.now;
        let it = &mut self.ports[port];
        if it.has_news() {
            it.tell(now);
            return;
        }
        self.switch.pause_classes(it.id, it.pauses.paused(now));
        let mut visit = self.switch.departures(now, it.id);
        let head = visit.head().expect("a class that waits and is not paused has a frame");
        let (number, class) = (head.frame(), head.class());
        let last = head.delivered().is_some();
        drop(visit);
        let behind = self.switch.egress_load(it.id, class).bytes;
        let frame = self.frames.get_mut(number);
        frame.underway += 1;
        let mark = frame.ecn_capable && self.rules.mark_at.is_some_and(|at| behind >= at);
        let Frame { frames, bytes, from, .. } = *frame;
        let counters = &mut it.counters[class];
        counters.sent.add(frames, bytes);
        counters.marked += if mark { u64::from(frames) } else { 0 };
        it.output.send(now, frames, bytes, Outbound::Frame { number, mark });
        if last {
            self.leave(number);
            self.refresh(from.into());
        }
    }

    /// The switch is done with a frame: its memory is free.
    fn leave(&mut self, number: Number) {
        let frame = self.frames.get_mut(number);
        frame.switched = false;
        let Frame { from, class, frames, bytes, .. } = *frame;
        let input = &mut self.ports[usize::from(from)].inputs[class];
        input.release(frames, bytes);
        if !input.is_lossless() {
            self.shared_used -= u64::from(bytes);
        }
    }

    /// Books a frame that is nowhere any more: as passed if any host has taken it, and otherwise as
    /// dropped for this reason.
    fn end(&mut self, number: Number, reason: DropReason) {
        let Frame { handle, from, class, frames, bytes, switched, underway, taken, gone, .. } =
            *self.frames.get(number);
        if switched || underway > 0 {
            return;
        }
        let port = usize::from(from);
        let counters = &mut self.ports[port].counters[class];
        if taken {
            counters.pass(frames, bytes);
        } else {
            counters.drop(reason, frames, bytes);
        }
        self.frames.forget(number);
        if !gone {
            self.released.push(Released { port, handle });
        }
    }

    /// Has the switch look for stalled hosts and old addresses.
    fn tick(&mut self) {
        let mut refused = Vec::new();
        self.forwarding.tick(self.now);
        self.switch.tick(self.now, |released| refused.push(released.frame));
        for number in refused {
            self.leave(number);
            self.end(number, DropReason::Refused(Reason::StalledReceiver));
        }
        (0..self.ports.len()).for_each(|port| self.refresh(port));
    }

    /// When a port's transmitter has something that it may send.
    fn sends_at(&self, port: usize) -> Option<Instant> {
        let it = &self.ports[port];
        let free_at = it.output.free_at();
        if it.has_news() {
            return Some(free_at);
        }
        let waits = |class: &Class| self.switch.egress_load(it.id, *class).frames > 0;
        let may = Class::all().filter(waits).map(|class| it.pauses.until(class)).min();
        may.map(|at| at.max(free_at))
    }

    /// Something at a port has changed: what happens there next, and when?
    fn refresh(&mut self, port: usize) {
        let it = &self.ports[port];
        let renewals = it.inputs.0.iter().filter_map(Input::renew_at).min();
        let all = [it.host.arrives_at(), renewals, self.sends_at(port)];
        self.due[port] = all.into_iter().flatten().min();
    }
}
