//! From a sender into the switch: what is offered, and for whom.

use alloc::vec::Vec;

use units::{Class, Instant};

use crate::account::{Load, Refusal};
use crate::cells::{Label, Queue, Stamp};
use crate::flows::Flow;
use crate::forward::{Step, left};
use crate::id::PortId;
use crate::port::Port;
use crate::set::PortSet;
use crate::switch::{Offered, Switch};

/// For whom a frame is, as its sender's owner has decided.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// One receiver.
    One(PortId),
    /// One of many receivers behind a port, as a port of a far host: its frames have a queue of
    /// their own. Those of a lossy class are refused beyond the port's [egress
    /// limits](crate::PortConfig::egress).
    Flow(PortId, Flow),
    /// A copy for each of these.
    Many(&'a Audience),
}

/// For whom a frame is that is for many: a copy goes to each, but to the port that the frame comes
/// by, and those that are [closed](Switch::close) or [absent](Switch::set_absent).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Audience {
    /// Receivers at ports.
    pub ports: PortSet,
    /// One each of many behind a port.
    pub flows: Vec<(PortId, Flow)>,
    /// Those of these ports, and of the ports that these flows are behind, that have not asked for
    /// the frame. What is copied for them holds its sender's other frames back for nobody: all
    /// such copies together take up half of what the sender may have held, and 1,024 frames, at the
    /// most. What finds no room is refused as [slow](crate::Reason::SlowReceiver).
    pub bystanders: PortSet,
}

/// What a frame counts as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Size {
    /// Bytes on a wire, from the Ethernet header on. A large segment counts what it stands for.
    pub bytes: u32,
    /// Frames on a wire; 1 unless it is a large segment.
    pub frames: u16,
}

/// A visit to a sender: takes frames over, one after the other. See [`Switch::arrivals`].
///
/// Frames for one receiver in one class follow each other. So the first of a run finds out how much
/// room there is, the others follow, and what is the same for all is booked when the run ends: at
/// the latest when the visit is dropped.
#[derive(Debug)]
pub struct Arrivals<'a, F: Copy> {
    switch: &'a mut Switch<F>,
    now: Instant,
    from: PortId,
    run: Run,
    /// What was held of the sender's copies for bystanders when the visit began; unknown until it
    /// has one.
    standing: Option<u32>,
}

/// Frames of one visit for one receiver in one class that are in no queue yet, and how many more
/// may follow.
#[derive(Debug)]
struct Run {
    /// Class, and what each counts as on a wire; no frame's if there is no run.
    stamp: Stamp,
    to: PortId,
    /// What the frame that was offered last counts as, if it is in the run; 0 if it is not.
    repeats: u16,
    /// Into the queue of their VOQ, not of their egress.
    waits: bool,
    cells: Queue,
    frames: u32,
    bytes: u64,
    /// What the sender may have held, and the egress has room for.
    most_frames: u32,
    most_bytes: u64,
}

impl Run {
    const NONE: Self = Self {
        stamp: Stamp::NONE,
        to: PortId::NONE,
        repeats: 0,
        waits: false,
        cells: Queue::EMPTY,
        frames: 0,
        bytes: 0,
        most_frames: 0,
        most_bytes: 0,
    };
}

impl<F: Copy> Switch<F> {
    /// Begins a visit to the sender at `from`.
    #[inline]
    pub fn arrivals(&mut self, now: Instant, from: PortId) -> Arrivals<'_, F> {
        Arrivals { switch: self, now, from, run: Run::NONE, standing: None }
    }

    /// Takes over one frame from the sender at `from`, as [`Arrivals::offer`] does, and hands it
    /// straight to its receiver if neither has anything in the switch, and `takes` says that the
    /// receiver has room now. The books are the same as if the receiver had been visited.
    #[inline]
    #[expect(
        clippy::too_many_arguments,
        reason = "a simulator calls it for each frame, and keeps none of these together"
    )]
    pub fn pass(
        &mut self,
        now: Instant,
        from: PortId,
        to: PortId,
        class: Class,
        frame: F,
        size: Size,
        takes: impl FnOnce() -> bool,
    ) -> Offered<F> {
        if let Some([sender, receiver]) = self.ports.pair_mut([from, to])
            && sender.ingress.holds_none(class)
            && receiver.egress.is_free(now, class)
            && takes()
        {
            sender.ingress.classes[class].account.pass(size.bytes);
            receiver.egress.classes[class].account.pass(size.bytes);
            receiver.egress.progressed(now, size.bytes.into());
            return Offered::Through(to);
        }
        if self.room_in(now, from, class) == 0 {
            return Offered::Full(frame);
        }
        self.arrivals(now, from).offer(Destination::One(to), class, frame, size)
    }

    /// A copy to everybody who is to have it. Each waits for its own egress: a slow one holds back
    /// nobody's later frames until the sender's share, or its quota there, is used up. Of its
    /// copies for bystanders so many were `standing` when the sender's visit began.
    #[cold]
    fn flood(
        &mut self,
        now: Instant,
        from: PortId,
        audience: &Audience,
        frame: F,
        label: Label,
        standing: u32,
    ) -> Offered<F> {
        let class = label.stamp.class();
        let is_open = |port: &PortId| {
            let egress = &self.port(*port).egress;
            *port != from && !egress.closed && !egress.absent
        };
        let ports = audience.ports.iter().map(|port| (port, None));
        let flows = audience.flows.iter().map(|(port, flow)| (*port, Some(*flow)));
        let receivers: Vec<_> = ports.chain(flows).filter(|(port, _)| is_open(port)).collect();
        let Some(((last, last_flow), others)) = receivers.split_last() else {
            return self.refuse_at_once(from, class, label.bytes, frame, Refusal::NO_EGRESS);
        };
        self.ports[from].ingress.classes[class].accept(1, label.bytes.into());
        let node = self.cells.insert_for_many(frame, label);
        let standing = |to| audience.bystanders.contains(to).then_some(standing);
        for (to, flow) in others {
            let copy = self.cells.copy(node);
            self.place(now, from, *to, *flow, copy, standing(*to));
        }
        // The frame's own node goes to the last, so that no copy finishes the frame while others
        // are to come.
        match self.place(now, from, *last, *last_flow, node, standing(*last)) {
            None => Offered::Held,
            Some((frame, reason)) => Offered::Refused(frame, reason),
        }
    }
}

impl<F: Copy> Arrivals<'_, F> {
    /// Takes a frame over from the sender, and forwards it as far as there is room. It cannot be
    /// [full](Offered::Full) if [`Switch::room`] is asked before.
    // A driver has one place that offers. There, the offer need not be put into memory for a call.
    #[inline(always)]
    pub fn offer(&mut self, to: Destination<'_>, class: Class, frame: F, size: Size) -> Offered<F> {
        let stamp = Stamp::new(self.from.0, class, size.frames);
        if let Destination::One(to) = to
            && to == self.run.to
            && stamp == self.run.stamp
            && self.follow(frame, size.bytes)
        {
            self.run.repeats = size.frames;
            return Offered::Held;
        }
        self.begin(to, stamp, frame, size.bytes)
    }

    /// Takes over a frame that goes where the one before went, in the same class. Whether it did;
    /// if not, it is to be [offered](Self::offer). This is what most frames of a busy sender cost.
    #[inline(always)]
    pub fn repeat(&mut self, frame: F, size: Size) -> bool {
        size.frames == self.run.repeats && self.follow(frame, size.bytes)
    }

    /// Takes a frame into the run, which goes its way, if there is room. Whether there is.
    #[inline(always)]
    fn follow(&mut self, frame: F, bytes: u32) -> bool {
        let Self { switch, run, .. } = self;
        let label = Label { stamp: run.stamp, bytes };
        let all_bytes = run.bytes + u64::from(bytes);
        if run.frames < run.most_frames
            && all_bytes <= run.most_bytes
            && let Some(node) = switch.cells.take(frame, label)
        {
            run.cells.extend(node);
            run.frames += 1;
            run.bytes = all_bytes;
            return true;
        }
        false
    }

    /// Books a frame that its sender's owner refuses: it is accepted and refused in one, and its
    /// memory its sender's again.
    #[cold]
    pub fn refuse(&mut self, class: Class, bytes: u32, refusal: Refusal) {
        self.run.repeats = 0;
        let ingress = &mut self.switch.port_mut(self.from).ingress;
        ingress.classes[class].account.turn_away(bytes, refusal);
    }

    /// Takes a frame over that does not follow the one before.
    #[inline(never)]
    fn begin(&mut self, to: Destination<'_>, stamp: Stamp, frame: F, bytes: u32) -> Offered<F> {
        self.settle();
        let Self { switch, now, from, standing, .. } = self;
        let (now, from, class) = (*now, *from, stamp.class());
        let Port { config, ingress, .. } = &mut switch.ports[from];
        let most = config.ingress.frames.max(1) + ingress.lent;
        let most = most.saturating_sub(ingress.classes[class].held.frames);
        if most == 0 {
            ingress.pause(now);
            return Offered::Full(frame);
        }
        let label = Label { stamp, bytes };
        let to = match to {
            Destination::One(to) if to != from => to,
            Destination::One(_) => {
                return switch.refuse_at_once(from, class, bytes, frame, Refusal::SAME_PORT);
            }
            Destination::Flow(to, flow) => {
                ingress.classes[class].accept(1, bytes.into());
                let node = switch.cells.insert(frame, label);
                return match switch.place(now, from, to, Some(flow), node, None) {
                    None => Offered::Held,
                    Some((frame, reason)) => Offered::Refused(frame, reason),
                };
            }
            Destination::Many(audience) => {
                let standing = *standing.get_or_insert_with(|| switch.copies_held(from));
                return switch.flood(now, from, audience, frame, label, standing);
            }
        };
        let node = switch.cells.insert(frame, label);
        let step = switch.step(to, class, label.load());
        if let Step::Refused(refusal) = step {
            switch.port_mut(from).ingress.classes[class].accept(1, bytes.into());
            switch.port_mut(to).egress.classes[class].account.accept(1);
            return match switch.refuse(now, to, node, refusal) {
                Some(released) => Offered::Refused(released.frame, refusal.reason()),
                None => unreachable!("no other egress wants the frame"),
            };
        }
        let Port { places, egress, .. } = switch.port(to);
        let waits = matches!(step, Step::Waits);
        let places = &places[usize::from(switch.settings.classes.lossy(class).is_some())];
        let permits = if waits { Load::ANY } else { left(places, egress.classes[class].load) };
        let permitted = permits.frames.checked_div(stamp.frames().into()).unwrap_or(most);
        self.run = Run {
            stamp,
            to,
            repeats: stamp.frames(),
            waits,
            cells: Queue::of(node),
            frames: 1,
            bytes: bytes.into(),
            most_frames: most.min(permitted),
            most_bytes: permits.bytes,
        };
        Offered::Held
    }

    /// Books the run, and puts its frames where they go.
    fn settle(&mut self) {
        let Self { switch, now, from, run, .. } = self;
        if run.frames == 0 {
            return;
        }
        let Run { stamp, to, waits, cells, frames, bytes, .. } = core::mem::replace(run, Run::NONE);
        let class = stamp.class();
        switch.port_mut(*from).ingress.classes[class].accept(frames, bytes);
        if waits {
            switch.hold_back(*from, to, class, cells, frames);
        } else {
            switch.switch(*now, to, class, cells, frames, Load::of(frames, stamp.frames(), bytes));
        }
    }
}

impl<F: Copy> Drop for Arrivals<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.settle();
    }
}
