//! The switch as a whole: its ports, its queues, its books.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::offset_of;

use units::{Class, ClassMap, Instant, Span};

use crate::cells::{Cells, Finished, Label, Node, Queue};
use crate::parked::Parked;
use crate::port::{Egress, MAX_PORTS, Port};
use crate::ports::Ports;
use crate::refused::Refused;
use crate::shaper::Shaper;
use crate::voqs::{Voq, VoqId, Voqs};
use crate::{Account, Load, PortConfig, PortId, PortSet, Refusal, Settings};

/// A switch over frames that it knows by a handle `F`. Each frame looks at the first 32 bytes, the ports, and one that passes
/// straight through at no others, as a rule.
#[derive(Debug)]
#[repr(C)]
pub struct Switch<F> {
    pub(crate) ports: Ports,
    pub(crate) cells: Cells<F>,
    pub(crate) voqs: Voqs,
    /// Those whose egress holds something, in its queue or set aside; now and then one more.
    pub(crate) pending: PortSet,
    pub(crate) settings: Settings,
    /// The ingress accounts of ports that were detached.
    retired: Account,
    /// What was refused of late, while somebody wants to know.
    pub(crate) refused: Option<Vec<Refused<F>>>,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(offset_of!(Switch<u32>, ports) == 0 && offset_of!(Switch<u32>, cells) == 32);

/// A frame that the switch is done with: its sender may have its handle, and its memory, back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Released<F> {
    /// The port that offered it.
    pub port: PortId,
    /// The handle.
    pub frame: F,
}

/// A switch has 1,024 ports at the most: detach one first.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("attaching a port: the switch has {MAX_PORTS} already; detach one first")]
pub struct TooManyPorts;

/// The switch breaks its word: a defect of ours.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Defect {
    /// The books do not balance.
    #[error("port {port} class {class} {side}: {account:?} but {counted} frames lie in queues")]
    Imbalance {
        /// The port's number.
        port: usize,
        /// The class.
        class: Class,
        /// `ingress` or `egress`.
        side: &'static str,
        /// The account that is wrong.
        account: Box<Account>,
        /// What really waits.
        counted: u64,
    },
    /// A frame waits for an egress that has room for it.
    #[error("port {port} class {class}: a frame waits although there is room")]
    Idle {
        /// The egress's number.
        port: usize,
        /// The class.
        class: Class,
    },
    /// A frame waits for a receiver that nobody would visit.
    #[error("port {port}: frames wait for its receiver, which is not known to be visited")]
    Forgotten {
        /// The egress's number.
        port: usize,
    },
}

/// How a frame's stay at one egress ended.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Delivered,
    Refused(Refusal),
}

impl<F: Copy> Switch<F> {
    /// A switch with no ports.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ports: Ports::default(),
            pending: PortSet::default(),
            cells: Cells::new(),
            voqs: Voqs::new(),
            retired: Account::default(),
            refused: None,
        }
    }

    /// What the switch was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Adds a port, with the lowest number that is free.
    ///
    /// # Errors
    ///
    /// [`TooManyPorts`] at the 1,025th.
    pub fn attach(&mut self, now: Instant, config: PortConfig) -> Result<PortId, TooManyPorts> {
        let id = self.ports.attach(now, config).ok_or(TooManyPorts)?;
        let frames = |(_, port): (PortId, &Port)| port.config.ingress.frames.min(4096) as usize;
        self.cells.reserve(self.ports.iter().map(frames).sum());
        Ok(id)
    }

    /// Changes a port while frames flow. What it holds stays, even where new limits are lower; where they are higher,
    /// who waited goes on.
    pub fn configure(&mut self, now: Instant, id: PortId, config: PortConfig) {
        let port = self.port_mut(id);
        if port.config.shaping != config.shaping {
            port.egress.shaper = config.shaping.map(Shaper::boxed);
        }
        port.config = config;
        let at_quota = self
            .voqs
            .iter()
            .filter(|(_, voq)| voq.ingress() == id && voq.frames >= config.quota.get())
            .count();
        let port = self.port_mut(id);
        port.ingress.at_quota = at_quota as u16;
        port.ingress.resume(now, &port.config);
        for class in Class::all() {
            self.pull(now, id, class);
        }
    }

    /// Before a port is taken away: it gets no copy of what is for many, and what is held from it and for it goes on. What is for
    /// it alone is the caller's to redirect, and its own sender the caller's to silence.
    pub fn close(&mut self, port: PortId) {
        self.port_mut(port).egress.closed = true;
    }

    /// Takes a port away. Every frame from it or for it alone that is still held is refused and released. Close it
    /// first, and wait until it holds nothing ([`Switch::holds`]), where nothing is to be refused.
    pub fn detach(&mut self, now: Instant, port: PortId, mut released: impl FnMut(Released<F>)) {
        self.empty_egress(now, port, Refusal::DETACHED, &mut released);
        for egress in self.attached() {
            self.withdraw(now, port, egress, &mut released);
        }
        let gone = self.ports.detach(port);
        for account in gone.ingress.accounts() {
            self.retired.merge(account);
        }
        self.pending.remove(port);
    }

    /// The ports that are attached, by number.
    pub fn attached(&self) -> impl Iterator<Item = PortId> + use<F> {
        let ids: Vec<PortId> = self.ports.iter().map(|(id, _)| id).collect();
        ids.into_iter()
    }

    /// How a port is configured.
    pub fn config(&self, port: PortId) -> &PortConfig {
        &self.port(port).config
    }

    /// How many frames may be offered by this port now, whatever their class, without one being turned away.
    ///
    /// Zero says that the sender is held back; its paused time runs from here until there is room again.
    pub fn room(&mut self, now: Instant, port: PortId) -> u32 {
        let port = self.port_mut(port);
        let room = port.ingress.room(&port.config);
        if room == 0 {
            port.ingress.pause(now);
        }
        room
    }

    /// The same; looking does not begin a pause.
    pub fn peek_room(&self, port: PortId) -> u32 {
        let port = self.port(port);
        port.ingress.room(&port.config)
    }

    /// Whether a port gets no more copies of what is for many, as it is [about to go](Self::close).
    pub fn is_closed(&self, port: PortId) -> bool {
        self.port(port).egress.closed
    }

    /// How many frames of one class may be offered by this port now: for a sender whose classes wait apart. As
    /// [`Switch::room`], zero says that the sender is held back.
    pub(crate) fn room_in(&mut self, now: Instant, port: PortId, class: Class) -> u32 {
        let port = self.port_mut(port);
        let room = port.ingress.room_in(&port.config, class);
        if room == 0 {
            port.ingress.pause(now);
        }
        room
    }

    /// What a port's sender has held uses up the port's own memory: its paused time runs until some of it is released.
    pub fn pause(&mut self, now: Instant, port: PortId) {
        let ingress = &mut self.port_mut(port).ingress;
        if ingress.accounts().any(|account| account.held > 0) {
            ingress.pause(now);
        }
    }

    /// How long a port's sender has been held back, and whether it is now.
    pub fn paused(&self, now: Instant, port: PortId) -> (Span, bool) {
        let ingress = &self.port(port).ingress;
        let running = ingress.paused_since.map_or(Span::ZERO, |since| now.since(since));
        (ingress.paused + running, ingress.paused_since.is_some())
    }

    /// Whether as many of a port's frames as may be wait for one receiver.
    pub fn at_quota(&self, port: PortId) -> bool {
        self.port(port).ingress.at_quota > 0
    }

    /// Whether a port's receiver is stalled, or was [abandoned](Self::abandon).
    pub fn stalled(&self, port: PortId) -> bool {
        self.port(port).egress.refuses()
    }

    /// Whether anything from this port or for it is held.
    pub fn holds(&self, port: PortId) -> bool {
        let port = self.port(port);
        let held = |account: &Account| account.held > 0;
        port.ingress.accounts().any(held) || port.egress.accounts().any(held)
    }

    /// What came in at a port in a class.
    pub fn ingress_account(&self, port: PortId, class: Class) -> &Account {
        &self.port(port).ingress.classes[class].account
    }

    /// What was meant for a port in a class; each copy of a flooded frame counts.
    pub fn egress_account(&self, port: PortId, class: Class) -> &Account {
        &self.port(port).egress.classes[class].account
    }

    /// What is switched and waits for a port's receiver in a class, parked frames aside.
    pub fn egress_load(&self, port: PortId, class: Class) -> Load {
        self.port(port).egress.classes[class].load
    }

    /// Everything that ever came in, by ports that are attached and ports that were.
    pub fn total(&self) -> Account {
        let mut total = self.retired;
        for account in self.ports.iter().flat_map(|(_, port)| port.ingress.accounts()) {
            total.merge(account);
        }
        total
    }

    /// The ports whose receivers may have something to take; the others have nothing, and need no visit.
    #[inline]
    pub fn pending(&self) -> PortSet {
        self.pending
    }

    /// Does what time asks for: declares receivers stalled and refuses what waits for them.
    pub fn tick(&mut self, now: Instant, mut released: impl FnMut(Released<F>)) {
        for port in self.pending.iter() {
            self.watch(now, port, &mut released);
        }
    }

    /// When the next shaped frame may leave or the next verdict falls due, if nothing else happens before.
    ///
    /// A frame that may leave already is no deadline: its receiver has to ask.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let verdict = self.settings.stall_after;
        let of_port = |port: &Port| {
            let egress = &port.egress;
            let shaped = egress
                .shaper
                .as_ref()
                .map(|shaper| shaper.ready_at())
                .filter(|at| !egress.is_idle() && *at > now);
            let stall =
                (egress.ready != 0 && !egress.stalled).then(|| egress.idle_since(egress.progress) + verdict);
            let flows = egress.parked.values().map(|flow| egress.idle_since(flow.progress) + verdict).min();
            [shaped, stall, flows].into_iter().flatten().min()
        };
        self.pending.iter().filter_map(|port| of_port(self.port(port))).min()
    }

    /// Proves the law: counts what lies in every queue and compares it with the books, and finds nobody waiting without
    /// need.
    ///
    /// # Errors
    ///
    /// The first [`Defect`].
    pub fn audit(&self) -> Result<(), Defect> {
        let mut came = vec![ClassMap([0; Class::COUNT]); self.ports.len()];
        for label in self.cells.held() {
            came[usize::from(label.stamp.ingress())][label.stamp.class()] += 1;
        }
        let mut meant = vec![ClassMap([0; Class::COUNT]); self.ports.len()];
        for (id, port) in self.ports.iter() {
            let switched = port.egress.classes.0.iter().map(|class| &class.queue);
            let parked = port.egress.parked.values().flat_map(Parked::queues);
            let waiting = Class::all().flat_map(|class| self.waiting(id, class)).map(|voq| &voq.queue);
            let away = port.egress.away.values();
            let queues = switched.chain(parked).chain(away).chain(waiting);
            for node in queues.flat_map(|queue| self.cells.iter(queue)) {
                meant[id.index()][self.cells.label(node).stamp.class()] += 1;
            }
        }
        for (id, port) in self.ports.iter() {
            let index = id.index();
            if !port.egress.is_idle() && !self.pending.contains(id) {
                return Err(Defect::Forgotten { port: index });
            }
            for class in Class::all() {
                let sides = [
                    ("ingress", port.ingress.classes[class].account, came[index][class]),
                    ("egress", port.egress.classes[class].account, meant[index][class]),
                ];
                for (side, account, counted) in sides {
                    if !account.balances() || account.held != counted {
                        let account = Box::new(account);
                        return Err(Defect::Imbalance { port: index, class, side, account, counted });
                    }
                }
                let next = self.waiting(id, class).next().and_then(|voq| voq.queue.head());
                if next.is_some_and(|node| port.permits(class, self.cells.label(node).load())) {
                    return Err(Defect::Idle { port: index, class });
                }
            }
        }
        Ok(())
    }

    /// The VOQs in which frames wait for an egress, in the order of its round.
    pub(crate) fn waiting(&self, egress: PortId, class: Class) -> impl Iterator<Item = &Voq> {
        let voq = |id: VoqId| (id != VoqId::NONE).then(|| &self.voqs[id]);
        core::iter::successors(voq(self.port(egress).egress.classes[class].waiting), move |last| {
            voq(last.next)
        })
    }

    #[inline]
    pub(crate) fn port(&self, port: PortId) -> &Port {
        &self.ports[port]
    }

    #[inline]
    pub(crate) fn port_mut(&mut self, port: PortId) -> &mut Port {
        &mut self.ports[port]
    }

    /// One egress is done with a frame that lies in none of its queues any more: books it on both sides, and forgets
    /// it if no other egress wants it.
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        egress: PortId,
        node: Node,
        end: End,
    ) -> Option<Released<F>> {
        let Label { stamp, bytes, .. } = self.cells.label(node);
        let (ingress, class) = (PortId(stamp.ingress()), stamp.class());
        self.port_mut(egress).egress.classes[class].account.end(end, bytes);
        let Finished { frame, delivered } = self.cells.finish(node, matches!(end, End::Delivered))?;
        let port = self.port_mut(ingress);
        let side = &mut port.ingress.classes[class];
        match end {
            End::Refused(refusal) if !delivered => side.refuse(refusal, bytes),
            _ => side.deliver(1, bytes.into()),
        }
        port.ingress.resume(now, &port.config);
        Some(Released { port: ingress, frame })
    }

    /// Refuses everything that waits for `egress` in VOQs: its receiver will not take it.
    fn refuse_waiting(
        &mut self,
        now: Instant,
        egress: PortId,
        refusal: Refusal,
        released: &mut impl FnMut(Released<F>),
    ) {
        for class in Class::all() {
            while let Some(node) = self.pop_waiting(now, egress, class) {
                self.refuse(now, egress, node, refusal).into_iter().for_each(&mut *released);
            }
        }
    }

    /// Refuses everything for `egress`.
    pub(crate) fn empty_egress(
        &mut self,
        now: Instant,
        egress: PortId,
        refusal: Refusal,
        released: &mut impl FnMut(Released<F>),
    ) {
        self.refuse_waiting(now, egress, refusal, released);
        let mut queues: Vec<_> = self.port(egress).egress.classes.0.iter().map(|class| class.queue).collect();
        queues.extend(self.port(egress).egress.parked.values().flat_map(Parked::queues));
        queues.extend(self.port(egress).egress.away.values());
        for mut queue in queues {
            self.refuse_queue(now, egress, &mut queue, refusal, released);
        }
        let Port { config, egress, .. } = self.port_mut(egress);
        let accounts = egress.classes.0.map(|class| class.account);
        let (closed, paused) = (egress.closed, egress.paused);
        *egress = Egress { closed, paused, ..Egress::new(config, now, ClassMap(accounts)) };
    }

    /// Refuses everything from `ingress` that is held for `egress`.
    fn withdraw(
        &mut self,
        now: Instant,
        ingress: PortId,
        egress: PortId,
        released: &mut impl FnMut(Released<F>),
    ) {
        for class in Class::all() {
            let mut gone = self.leave_waiting(ingress, egress, class);
            self.refuse_queue(now, egress, &mut gone, Refusal::DETACHED, released);

            let mut queue = self.port(egress).egress.classes[class].queue;
            let mut gone = self.cells.extract(&mut queue, |frame| frame.stamp.ingress() == ingress.0);
            for node in self.cells.iter(&gone).collect::<Vec<_>>() {
                let load = self.cells.label(node).load();
                self.port_mut(egress).egress.classes[class].load.remove(load);
            }
            let side = &mut self.port_mut(egress).egress;
            side.classes[class].queue = queue;
            if queue.is_empty() {
                side.ready &= !(1 << class.pcp());
            }
            self.refuse_queue(now, egress, &mut gone, Refusal::DETACHED, released);
            self.pull(now, egress, class);
        }
        let Self { ports, cells, .. } = self;
        let Egress { parked, away, .. } = &mut ports[egress].egress;
        let mut gone: Vec<_> = parked.values_mut().map(|flow| flow.remove(ingress, cells)).collect();
        parked.retain(|_, flow| !flow.is_empty());
        let is_its = |label: Label| label.stamp.ingress() == ingress.0;
        gone.extend(away.values_mut().map(|queue| cells.extract(queue, is_its)));
        away.retain(|_, queue| !queue.is_empty());
        for mut queue in gone {
            self.refuse_queue(now, egress, &mut queue, Refusal::DETACHED, released);
        }
    }

    fn refuse_queue(
        &mut self,
        now: Instant,
        egress: PortId,
        queue: &mut Queue,
        refusal: Refusal,
        released: &mut impl FnMut(Released<F>),
    ) {
        while let Some(node) = self.cells.pop(queue) {
            self.refuse(now, egress, node, refusal).into_iter().for_each(&mut *released);
        }
    }

    /// The stall verdict on one receiver and on each of its flows.
    fn watch(&mut self, now: Instant, id: PortId, released: &mut impl FnMut(Released<F>)) {
        let patience = self.settings.stall_after;
        let egress = &mut self.port_mut(id).egress;
        if egress.ready == 0 {
            egress.progress = now;
            egress.stalled = false;
        }
        if now >= egress.idle_since(egress.progress) + patience {
            egress.stalled = true;
            self.refuse_waiting(now, id, Refusal::STALLED, released);
            self.refuse_switched(now, id, released);
        }
        let egress = &self.port(id).egress;
        let dead = |parked: &Parked| now >= egress.idle_since(parked.progress) + patience;
        let flows: Vec<_> =
            egress.parked.iter().filter(|(_, flow)| dead(flow)).map(|(key, _)| *key).collect();
        for flow in flows {
            let Some(parked) = self.port_mut(id).egress.parked.remove(&flow) else { continue };
            for mut queue in parked.queues().copied() {
                self.refuse_queue(now, id, &mut queue, Refusal::STALLED, released);
            }
        }
        self.rest(id);
    }

    /// Has a port's receiver left in peace if it has nothing to take.
    #[inline]
    pub(crate) fn rest(&mut self, id: PortId) {
        let Self { ports, pending, .. } = self;
        let egress = &mut ports[id].egress;
        if egress.is_idle() {
            egress.stalled = false;
            pending.remove(id);
        }
    }

    /// Refuses what is switched to a stalled receiver, so that its senders have their share back for others. The first
    /// of each class stays: with it the receiver shows that it is there again.
    fn refuse_switched(&mut self, now: Instant, id: PortId, released: &mut impl FnMut(Released<F>)) {
        for class in Class::all() {
            let Self { ports, cells, .. } = self;
            let side = &mut ports[id].egress.classes[class];
            let Some(first) = cells.pop(&mut side.queue) else { continue };
            let mut gone = core::mem::replace(&mut side.queue, Queue::EMPTY);
            cells.push(&mut side.queue, first);
            side.load = cells.label(first).load();
            self.refuse_queue(now, id, &mut gone, Refusal::STALLED, released);
        }
    }
}
