//! Hosts: machines, the virtual switch between them, and the NIC.
//!
//! ```text
//!  machine ─▶ backlog ─▶ ┌─────────────────┐ ─▶ NIC's queues ─▶ link
//!  machine ◀──────────── │ lossless::Switch│
//!  machine ◀──────────── └─────────────────┘ ◀─ NIC's memory ◀─ link
//! ```
//!
//! The switch is the very one that runs on real hosts. Each machine is a port of it, and the
//! up-link is one for each lane, as a NIC has a queue for each: so a lane that is paused holds back
//! no other.

mod carried;
mod controlled;
mod granted;

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::num::NonZeroU32;
use std::ops::Range;

use lossless::{
    ClassKind, Classes, Limits, Offered, PortConfig, PortId, Scheduling, Settings, Shaping, Size,
    Switch,
};
use units::{Bytes, Class, ClassMap, Rng};

use crate::clock::{Burst, Clock, Event, Maker};
use crate::congestion::{Downlinks, Ways};
use crate::events::EventList;
use crate::fabric::Fabric;
use crate::graph::Graph;
use crate::packet::{Handle, Packets, Queue, Target};
use crate::processor::Processor;
use crate::scenario::{self, Scenario};
use crate::time::{Pace, Time};
use crate::whose::Whose;

/// What all hosts have in common.
#[derive(Debug)]
struct Rules {
    lanes: Vec<Lane>,
    stack_delay: Time,
    /// How many machines a server has.
    machines: usize,
    /// The ports of every server's switch: of each machine, then of each lane's up-link.
    ports: Vec<PortId>,
}

/// A class, in the virtual network.
#[derive(Clone, Copy, Debug)]
struct Lane {
    class: Class,
    lossless: bool,
}

/// A host. What each frame looks at lies in its first cache line, and so does how its switch finds
/// its ports.
#[derive(Debug)]
#[repr(C, align(64))]
struct Host {
    nic: u32,
    /// Its machines, by their numbers.
    machines: Range<u32>,
    /// How many of its machines' backlogs hold something.
    blocked: u32,
    /// The lanes of which frames wait in the NIC's memory.
    waiting: u8,
    /// Lanes of which the NIC had no room.
    nic_full: u8,
    /// Whether its switch may hold something.
    holds: bool,
    /// None outside of servers, and in a scenario without virtual switches.
    bridge: Option<Bridge>,
}

/// A server's virtual switch.
#[derive(Debug)]
#[repr(C)]
struct Bridge {
    switch: Switch<Handle>,
    /// When an event says that something falls due.
    tick_at: Time,
    /// None where it carries whatever comes.
    processor: Option<Processor>,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(
        offset_of!(Host, bridge) + offset_of!(Bridge, switch) + 32 <= 64,
        "what frames look at of a switch"
    );
    assert!(
        size_of::<Option<Bridge>>() == size_of::<Bridge>(),
        "whether there is a switch takes no room of its own"
    );
};

/// Stacks that send one burst after the other, for want of a processor.
#[derive(Debug)]
struct Turns {
    gap: Time,
    jitter: Time,
    /// By machine: when its next burst may leave.
    free_at: Vec<Time>,
    rng: Rng,
}

/// Virtual NICs that have a rate.
#[derive(Debug)]
struct Pacing {
    pace: Pace,
    /// By machine.
    outboxes: Vec<Outbox>,
}

/// What has left a machine's stack and is still to pass its virtual NIC, and when that can send
/// again.
#[derive(Clone, Debug, Default)]
struct Outbox {
    queue: Queue,
    free_at: Time,
}

/// All hosts, and the machines on them.
#[derive(Debug)]
pub(crate) struct Hosts {
    rules: Rules,
    hosts: Vec<Host>,
    machines: Vec<Target>,
    /// None where stacks send everything at once.
    turns: Option<Turns>,
    pacing: Option<Pacing>,
    /// By machine and lane: what has left the stack, and the switch or the NIC has no room for yet.
    backlogs: Vec<Queue>,
    /// By machine and lane: flows of datagrams whose sockets block until the backlog is gone, in
    /// the order in which they did.
    sleepers: BTreeMap<usize, Vec<u32>>,
    /// By host and lane: what lies in the NIC's memory, and the switch has no room for yet.
    arrived: Vec<Queue>,
    /// Frames lost for want of room in a virtual switch's ingress or behind it, in its NIC, by
    /// lane.
    lost: Vec<u64>,
    /// None where congestion is not controlled.
    ways: Option<Box<Ways>>,
    /// None where no credit is granted.
    downlinks: Option<Box<Downlinks>>,
}

/// What hosts work with.
pub(crate) struct Surroundings<'a, L> {
    pub clock: &'a mut Clock<L>,
    pub packets: &'a mut Packets,
    pub fabric: &'a mut Fabric,
    /// What machines are handed, in order.
    pub delivered: &'a mut Queue,
}

impl Turns {
    fn new(scenario: &Scenario, machines: usize) -> Option<Self> {
        let network = &scenario.virtual_network;
        let [gap, jitter] = [network.stack_gap, network.stack_jitter].map(Time::from);
        (gap + jitter > Time::ZERO).then(|| Self {
            gap,
            jitter,
            free_at: vec![Time::ZERO; machines],
            rng: Rng::new(scenario.run.seed),
        })
    }

    /// When a burst leaves that is ready now. None passes another of its machine.
    fn next(&mut self, machine: u32, now: Time) -> Time {
        let late = Time::from_picos(self.rng.below(self.jitter.as_picos() + 1));
        let free_at = &mut self.free_at[machine as usize];
        let at = (now + late).max(*free_at);
        *free_at = at + self.gap;
        at
    }
}

impl Rules {
    /// Whether a frame may be handed to a port of a switch now: machines take whatever comes, a NIC
    /// what it has room for.
    #[inline]
    fn takes(&self, fabric: &Fabric, nic: u32, port: PortId, bytes: u32) -> bool {
        port.index()
            .checked_sub(self.machines)
            .is_none_or(|lane| fabric.can_queue(nic, lane as u8, bytes))
    }

    /// Hands a frame to a port that takes it.
    #[inline]
    fn hand<L: EventList<Event>>(
        &self,
        with: &mut Surroundings<'_, L>,
        nic: u32,
        port: PortId,
        handle: Handle,
    ) {
        if port.index() < self.machines {
            with.delivered.push(with.packets, handle);
        } else {
            with.fabric.send(with.clock, with.packets, nic, handle);
        }
    }
}

impl Hosts {
    pub(crate) fn new(scenario: &Scenario, graph: &Graph, names: &[String]) -> Self {
        let network = &scenario.virtual_network;
        let lanes: Vec<Lane> = names
            .iter()
            .map(|name| Lane {
                class: scenario.priority(name),
                lossless: scenario.virtual_kind(name) == model::ClassKind::Lossless,
            })
            .collect();
        let per_server = network.vms_per_server() as usize;
        let mut hosts: Vec<Host> = Vec::new();
        let mut machines = Vec::new();
        for host in 0..graph.hosts {
            let is_server = host < graph.servers;
            let count = if is_server { per_server as u16 } else { 1 };
            let first = machines.len() as u32;
            machines.extend((0..count).map(|slot| Target { host, slot }));
            hosts.push(Host {
                nic: graph.nic(host),
                machines: first..machines.len() as u32,
                blocked: 0,
                waiting: 0,
                nic_full: 0,
                holds: false,
                bridge: (is_server && network.switch).then(|| Bridge::new(scenario, &lanes, host)),
            });
        }
        // Servers come first, and their switches have the same ports, at their places in the order
        // of attaching.
        let bridge = hosts.first().and_then(|host| host.bridge.as_ref());
        let ports: Vec<PortId> =
            bridge.map(|bridge| bridge.switch.attached().collect()).unwrap_or_default();
        debug_assert!(ports.iter().enumerate().all(|(place, port)| port.index() == place));
        Self {
            backlogs: vec![Queue::default(); machines.len() * lanes.len()],
            sleepers: BTreeMap::new(),
            arrived: vec![Queue::default(); hosts.len() * lanes.len()],
            lost: vec![0; lanes.len()],
            ways: Ways::new(scenario, graph.hosts, names).map(Box::new),
            downlinks: Downlinks::new(scenario, graph).map(Box::new),
            rules: Rules {
                stack_delay: network.stack_delay.into(),
                machines: per_server,
                ports,
                lanes,
            },
            turns: Turns::new(scenario, machines.len()),
            pacing: network.pace().map(|rate| Pacing {
                pace: Pace::of(rate),
                outboxes: vec![Outbox::default(); machines.len()],
            }),
            hosts,
            machines,
        }
    }

    /// A machine by its host and its slot there.
    #[inline]
    pub(crate) fn machine(&self, target: Target) -> u32 {
        self.hosts[target.host as usize].machines.start + u32::from(target.slot)
    }

    /// Where a machine is.
    #[inline]
    pub(crate) fn target(&self, machine: u32) -> Target {
        self.machines[machine as usize]
    }

    /// The host of a machine.
    #[inline]
    pub(crate) fn host_of(&self, machine: u32) -> u32 {
        self.target(machine).host
    }

    /// Whether a machine's virtual NIC still has frames that are not sent, or that its switch has
    /// no room for in a lane: a socket that blocks would, now.
    pub(crate) fn is_blocked(&self, machine: u32, lane: u8) -> bool {
        let outbox = self.pacing.as_ref().map(|pacing| &pacing.outboxes[machine as usize]);
        outbox.is_some_and(|outbox| !outbox.queue.is_empty()) || self.has_backlog(machine, lane)
    }

    /// When what a machine's stack begins to send finds that it is its turn.
    pub(crate) fn turn(&self, machine: u32) -> Time {
        let free_at =
            self.turns.as_ref().map_or(Time::ZERO, |turns| turns.free_at[machine as usize]);
        let delays = self.rules.stack_delay + self.rules.stack_delay;
        free_at.max(delays) - delays
    }

    /// Whether a socket that blocks would, now, for a datagram of a flow to a host.
    pub(crate) fn would_block(&self, machine: u32, host: u32, lane: u8, hash: u32) -> bool {
        self.is_blocked(machine, lane) || self.is_held_back(machine, host, lane, hash)
    }

    /// Whether as many frames of a machine to a host wait in their way as may.
    fn is_held_back(&self, machine: u32, host: u32, lane: u8, hash: u32) -> bool {
        self.ways.as_ref().is_some_and(|ways| ways.is_full(machine, host, lane, hash))
    }

    /// Has a flow of datagrams wait until it is worth to look again whether its socket would block.
    pub(crate) fn wait(&mut self, machine: u32, host: u32, lane: u8, hash: u32, flow: u32) {
        if self.is_held_back(machine, host, lane, hash)
            && let Some(ways) = &mut self.ways
        {
            ways.wait(machine, host, lane, hash, flow);
            return;
        }
        let place = self.place(machine, lane);
        self.sleepers.entry(place).or_default().push(flow);
    }

    /// Has the flows go on that wait for a lane of a machine.
    fn wake<L: EventList<Event>>(&mut self, clock: &mut Clock<L>, machine: u32, lane: u8) {
        let (maker, place) = (Maker(self.host_of(machine)), self.place(machine, lane));
        for flow in self.sleepers.remove(&place).into_iter().flatten() {
            clock.at(clock.now(), maker, Event::Pace { flow });
        }
    }

    #[inline]
    fn has_backlog(&self, machine: u32, lane: u8) -> bool {
        // Seldom has anybody on a host.
        self.hosts[self.host_of(machine) as usize].blocked > 0
            && !self.backlogs[self.place(machine, lane)].is_empty()
    }

    /// Where a lane of a machine, or of a host, is among all.
    #[inline]
    fn place(&self, owner: u32, lane: u8) -> usize {
        owner as usize * self.rules.lanes.len() + usize::from(lane)
    }

    /// A machine's stack begins to send. Stacks and applications live by a clock that is late by
    /// the stack's delay: what comes needs no event to reach them, and what they send is at the
    /// virtual NIC after two delays.
    #[inline]
    pub(crate) fn emit<L: EventList<Event>>(
        &self,
        clock: &mut Clock<L>,
        machine: u32,
        burst: Burst,
    ) {
        let maker = Maker(self.host_of(machine));
        let delay = self.rules.stack_delay;
        clock.at(clock.now() + delay + delay, maker, Event::Send { machine, burst });
    }

    /// What a machine's stack has sent is at its virtual NIC, unless it is not its turn yet.
    #[inline]
    pub(crate) fn send<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        machine: u32,
        burst: Burst,
    ) {
        match &mut self.turns {
            None => self.leave(with, machine, burst),
            Some(turns) => {
                let at = turns.next(machine, with.clock.now());
                with.clock.at(at, Maker(self.host_of(machine)), Event::Leave { machine, burst });
            }
        }
    }

    /// What a machine's stack has sent enters its virtual NIC.
    #[inline]
    pub(crate) fn leave<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        machine: u32,
        burst: Burst,
    ) {
        let Some(pacing) = &mut self.pacing else {
            self.forward(with, machine, burst);
            return;
        };
        let queue = &mut pacing.outboxes[machine as usize].queue;
        let was_empty = queue.is_empty();
        let mut next = Some(burst.0);
        while let Some(handle) = next {
            next = Queue::after(with.packets, handle);
            queue.push(with.packets, handle);
        }
        if was_empty {
            self.let_out(with, machine);
        }
    }

    /// Lets go what a virtual NIC's rate allows now.
    pub(crate) fn let_out<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        machine: u32,
    ) {
        let (now, maker) = (with.clock.now(), Maker(self.host_of(machine)));
        while let Some(Pacing { pace, outboxes }) = &mut self.pacing {
            let outbox = &mut outboxes[machine as usize];
            let Some(handle) = outbox.queue.head() else {
                for lane in 0..self.rules.lanes.len() as u8 {
                    self.wake(with.clock, machine, lane);
                }
                return;
            };
            if outbox.free_at > now {
                with.clock.at(outbox.free_at, maker, Event::Out { machine });
                return;
            }
            outbox.queue.pop(with.packets);
            outbox.free_at = now + pace.time_for(with.packets[handle].bytes);
            let mut alone = Queue::default();
            alone.push(with.packets, handle);
            self.forward(with, machine, Burst(handle));
        }
    }

    /// Has what a machine's virtual NIC has sent go on.
    #[inline]
    fn forward<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        machine: u32,
        burst: Burst,
    ) {
        if self.ways.is_some() && self.hold_back(with, machine, burst) {
            return;
        }
        let from = self.target(machine);
        let lane = with.packets[burst.0].lane;
        let mut next = Some(burst.0);
        // Who came before goes before.
        if !self.has_backlog(machine, lane) {
            while let Some(handle) = next {
                let behind = Queue::after(with.packets, handle);
                if !self.enter(with, from, handle) {
                    break;
                }
                next = behind;
            }
        }
        if next.is_some() {
            let place = self.place(machine, lane);
            let backlog = &mut self.backlogs[place];
            self.hosts[from.host as usize].blocked += u32::from(backlog.is_empty());
            while let Some(handle) = next {
                next = Queue::after(with.packets, handle);
                backlog.push(with.packets, handle);
            }
        }
        self.pump(with, from.host);
    }

    /// Has a frame go from a machine into its switch or, without one, to its NIC. Whether it did: a
    /// lossy one that finds no room is gone too.
    #[inline]
    fn enter<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        from: Target,
        handle: Handle,
    ) -> bool {
        let Self { rules, hosts, lost, .. } = self;
        let host = &mut hosts[from.host as usize];
        let packet = &with.packets[handle];
        let (lane, bytes) = (packet.lane, packet.bytes);
        let lossless = rules.lanes[usize::from(lane)].lossless;
        let taken = if host.bridge.is_some() {
            host.take(with, rules, from.host, usize::from(from.slot), handle)
        } else if with.fabric.can_queue(host.nic, lane, bytes) {
            with.fabric.send(with.clock, with.packets, host.nic, handle);
            true
        } else {
            host.nic_full |= u8::from(lossless) << lane;
            false
        };
        if !taken && !lossless {
            lost[usize::from(lane)] += 1;
            with.packets.lose(handle);
        }
        taken || !lossless
    }

    /// Has the machines of a host that have a backlog go on, as far as there is room.
    fn offer<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        for machine in self.hosts[number as usize].machines.clone() {
            for lane in 0..self.rules.lanes.len() as u8 {
                while self.offer_one(with, machine, lane) {}
            }
        }
    }

    /// Has the first frame of a machine's backlog go on, if there is one and room for it. Whether
    /// it did.
    fn offer_one<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        machine: u32,
        lane: u8,
    ) -> bool {
        let (from, place) = (self.target(machine), self.place(machine, lane));
        // Its place in the queue is not needed to take it: the queue forgets it first.
        let Some((handle, rest)) = self.backlogs[place].split(with.packets) else { return false };
        if !self.enter(with, from, handle) {
            return false;
        }
        self.backlogs[place] = rest;
        if rest.is_empty() {
            self.hosts[from.host as usize].blocked -= 1;
            self.wake(with.clock, machine, lane);
        }
        true
    }

    /// Moves what can move through a host's switch.
    #[inline]
    fn pump<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        if self.hosts[number as usize].holds {
            self.move_on(with, number);
        }
    }

    #[inline(never)]
    fn move_on<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        loop {
            let moved = self.hand_out(with, number);
            let host = &self.hosts[number as usize];
            // Only who waits outside the switch can make use of the room that there is now.
            if !moved || host.blocked == 0 && host.waiting == 0 {
                break;
            }
            if self.carries_in_turn(number) {
                self.take_in_turn(with, number);
                continue;
            }
            if self.hosts[number as usize].blocked > 0 {
                self.offer(with, number);
            }
            self.take_arrived(with, number);
        }
        self.arm(with, number);
    }

    /// Hands out what receivers may have. Whether anything moved.
    fn hand_out<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
    ) -> bool {
        let Self { rules, hosts, lost, .. } = self;
        let Host { nic, nic_full, bridge, .. } = &mut hosts[number as usize];
        let Some(bridge) = bridge else { return false };
        let now = with.clock.instant();
        let mut moved = false;
        for port in bridge.switch.pending().iter() {
            let lane = port.index().checked_sub(rules.machines);
            if lane.is_some_and(|lane| *nic_full & 1 << lane != 0) {
                continue;
            }
            let mut visit = bridge.switch.departures(now, port);
            while let Some(head) = visit.head() {
                let takes = rules.takes(with.fabric, *nic, port, head.bytes());
                if let Some(lane) = lane.filter(|&lane| !takes && rules.lanes[lane].lossless) {
                    *nic_full |= 1 << lane;
                    break;
                }
                let handle = head.delivered().expect("one receiver is meant");
                moved = true;
                match lane {
                    Some(lane) if !takes => {
                        lost[lane] += 1;
                        with.packets.lose(handle);
                    }
                    _ => rules.hand(with, *nic, port, handle),
                }
            }
        }
        moved
    }

    /// A frame has come to a host by its link.
    #[inline]
    pub(crate) fn arrive<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        handle: Handle,
    ) {
        if self.ways.is_some() && self.note(with, number, handle) {
            return;
        }
        let host = &mut self.hosts[number as usize];
        if host.bridge.is_none() {
            with.delivered.push(with.packets, handle);
            return;
        }
        let lane = with.packets[handle].lane;
        let uplink = self.rules.machines + usize::from(lane);
        // Who came before goes before.
        let taken =
            host.waiting & 1 << lane == 0 && host.take(with, &self.rules, number, uplink, handle);
        if taken {
            self.pump(with, number);
        } else {
            self.store(with, number, handle);
        }
    }

    /// Has a frame wait in the NIC's memory, if its switch promises to lose nothing, and there is
    /// room.
    #[inline(never)]
    fn store<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        handle: Handle,
    ) {
        let packet = &with.packets[handle];
        let (lane, bytes) = (packet.lane, u64::from(packet.bytes));
        let place = self.place(number, lane);
        let host = &mut self.hosts[number as usize];
        if !self.rules.lanes[usize::from(lane)].lossless {
            self.lost[usize::from(lane)] += 1;
            with.packets.lose(handle);
        } else if with.fabric.has_room(host.nic, lane, bytes) {
            self.arrived[place].push(with.packets, handle);
            host.waiting |= 1 << lane;
            with.fabric.hold(with.clock, host.nic, lane, bytes);
        } else {
            with.fabric.lose(host.nic, lane);
            with.packets.lose(handle);
        }
    }

    /// Has the switch take what waits in the NIC's memory.
    fn take_arrived<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        for lane in 0..self.rules.lanes.len() as u8 {
            while self.take_one_arrived(with, number, lane) {}
        }
    }

    /// Has the switch take the first frame that waits in the NIC's memory, if there is one and room
    /// for it. Whether it did.
    fn take_one_arrived<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        lane: u8,
    ) -> bool {
        let place = self.place(number, lane);
        let Self { rules, hosts, arrived, .. } = self;
        let host = &mut hosts[number as usize];
        let uplink = rules.machines + usize::from(lane);
        // Its place in the queue is not needed to take it: the queue forgets it first.
        let Some((handle, rest)) = arrived[place].split(with.packets) else { return false };
        let bytes = u64::from(with.packets[handle].bytes);
        if !host.take(with, rules, number, uplink, handle) {
            return false;
        }
        arrived[place] = rest;
        if rest.is_empty() {
            host.waiting &= !(1 << lane);
        }
        with.fabric.release(with.clock, host.nic, lane, bytes);
        true
    }

    /// A NIC has sent a frame, or was let go: there may be room for more.
    #[inline]
    pub(crate) fn refill<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
    ) {
        let host = &mut self.hosts[number as usize];
        if host.nic_full == 0 {
            return;
        }
        let lanes = std::mem::take(&mut host.nic_full);
        if host.bridge.is_some() {
            self.pump(with, number);
        } else {
            self.offer(with, number);
        }
        if self.ways.is_some() {
            self.let_go_all(with, number, lanes);
        }
    }

    /// Something falls due in a virtual switch.
    pub(crate) fn tick<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
    ) {
        let Some(bridge) = &mut self.hosts[number as usize].bridge else { return };
        if bridge.tick_at != with.clock.now() {
            return;
        }
        bridge.tick_at = Time::NEVER;
        let packets = &mut *with.packets;
        bridge.switch.tick(with.clock.instant(), |released| packets.lose(released.frame));
        self.pump(with, number);
    }

    /// Sees to it that an event says when something falls due in a switch that holds frames.
    fn arm<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        let Host { holds, bridge, .. } = &mut self.hosts[number as usize];
        let Some(bridge) = bridge else { return };
        *holds = !bridge.switch.pending().is_empty();
        if !*holds {
            return;
        }
        let Some(due) = bridge.switch.deadline(with.clock.instant()) else { return };
        let due = Time::from(due).max(with.clock.now());
        if due < bridge.tick_at {
            bridge.tick_at = due;
            with.clock.at(due, Maker(number), Event::Tick { host: number });
        }
    }

    /// Tells of every machine, and of every virtual switch's up-link, what waits for it in each
    /// lane, and whether what it has itself finds no room.
    pub(crate) fn look(&self, mut see: impl FnMut(Whose, u8, u64, bool)) {
        let waiting = |bridge: &Bridge, place: usize, lane: &Lane| {
            bridge.switch.egress_load(self.rules.ports[place], lane.class).bytes
        };
        for (number, host) in (0..).zip(&self.hosts) {
            let bridge = host.bridge.as_ref();
            for (place, machine) in host.machines.clone().enumerate() {
                for (lane, it) in (0..).zip(&self.rules.lanes) {
                    let bytes = bridge.map_or(0, |bridge| waiting(bridge, place, it));
                    see(Whose::Machine(machine), lane, bytes, self.is_blocked(machine, lane));
                }
            }
            let Some(bridge) = bridge else { continue };
            for (lane, it) in (0..).zip(&self.rules.lanes) {
                let bytes = waiting(bridge, self.rules.machines + usize::from(lane), it);
                see(Whose::Uplink(number), lane, bytes, host.nic_full & 1 << lane != 0);
            }
        }
    }

    /// Frames that virtual switches, and virtual NICs before them, have lost in a lane.
    pub(crate) fn lost(&self, lane: u8) -> u64 {
        let class = self.rules.lanes[usize::from(lane)].class;
        let refused = self.bridges().flat_map(|bridge| {
            let ports = self.rules.ports.iter();
            ports.map(move |&port| bridge.switch.ingress_account(port, class).refused_total())
        });
        refused.sum::<u64>() + self.lost[usize::from(lane)]
    }

    /// Frames that wait at machines and NICs, and in virtual switches.
    pub(crate) fn held(&self, packets: &Packets) -> u64 {
        let outboxes =
            self.pacing.iter().flat_map(|pacing| &pacing.outboxes).map(|outbox| &outbox.queue);
        let queues = self.backlogs.iter().chain(&self.arrived).chain(outboxes);
        let switched = self.bridges().map(|bridge| bridge.switch.total().held);
        let held_back = self.ways.as_ref().map_or(0, |ways| ways.held(packets));
        queues.map(|queue| queue.len(packets)).sum::<u64>() + switched.sum::<u64>() + held_back
    }

    /// Whether a lane promises that nothing is lost in the virtual network.
    pub(crate) fn is_lossless(&self, lane: u8) -> bool {
        self.rules.lanes[usize::from(lane)].lossless
    }

    fn bridges(&self) -> impl Iterator<Item = &Bridge> {
        self.hosts.iter().filter_map(|host| host.bridge.as_ref())
    }

    /// Proves the switches' books: see [`Switch::audit`].
    pub(crate) fn audit(&self) -> Result<(), lossless::Defect> {
        self.bridges().try_for_each(|bridge| bridge.switch.audit())
    }
}

impl Host {
    /// Has its switch take a frame over that comes by a port, for a machine of this host, the
    /// `number`th, or for others. Whether there is a switch, and it had room.
    #[inline]
    fn take<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        rules: &Rules,
        number: u32,
        from: usize,
        handle: Handle,
    ) -> bool {
        let &mut Self { nic, ref mut holds, ref mut bridge, .. } = self;
        let Some(bridge) = bridge else { return false };
        if let Some(processor) = &mut bridge.processor
            && !processor.is_free(with.clock, number)
        {
            return false;
        }
        let packet = &with.packets[handle];
        let (lane, bytes) = (usize::from(packet.lane), packet.bytes);
        let to =
            if packet.host == number { usize::from(packet.slot) } else { rules.machines + lane };
        let (from, to, class) = (rules.ports[from], rules.ports[to], rules.lanes[lane].class);
        let (now, size) = (with.clock.instant(), Size { bytes, frames: 1 });
        let takes = || rules.takes(with.fabric, nic, to, bytes);
        match bridge.switch.pass(now, from, to, class, handle, size, takes) {
            Offered::Through(port) => rules.hand(with, nic, port, handle),
            Offered::Held => *holds = true,
            Offered::Refused(refused, _) => with.packets.lose(refused),
            Offered::Full(_) => return false,
        }
        if let Some(processor) = &mut bridge.processor {
            processor.carry(with.clock.now(), bytes);
        }
        true
    }
}

impl Bridge {
    fn new(scenario: &Scenario, lanes: &[Lane], server: u32) -> Self {
        let network = &scenario.virtual_network;
        let mut kinds = ClassMap([ClassKind::Lossy; Class::COUNT]);
        let mut weights = [1; Class::COUNT];
        for lane in lanes {
            kinds[lane.class] = if lane.lossless { ClassKind::Lossless } else { ClassKind::Lossy };
        }
        for class in scenario.classes.values() {
            weights[class.priority.index()] = class.weight;
        }
        let settings = Settings {
            classes: Classes(kinds),
            stall_after: network.stall_after,
            ..Settings::default()
        };
        let mut switch = Switch::new(settings);
        let limits = |bytes: Bytes| Limits { frames: u32::MAX, bytes };
        let config = PortConfig {
            ingress: limits(network.ingress),
            egress: limits(network.egress),
            quota: network.quota.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX),
            // As the agent's ports have it.
            shaping: network
                .rate
                .map(|rate| Shaping { rate, burst: rate.bucket_bytes(network.mtu) }),
            scheduling: match network.scheduling {
                scenario::Scheduling::Strict => Scheduling::Strict,
                scenario::Scheduling::Weighted => Scheduling::Weighted(weights),
            },
            permits: Limits::frames(u32::MAX),
        };
        let uplink = PortConfig { shaping: None, ..config };
        let machines = network.vms_per_server() as usize;
        for place in 0..machines + lanes.len() {
            let config = if place < machines { config } else { uplink };
            switch.attach(units::Instant::ZERO, config).expect("a checked scenario's machines fit");
        }
        let processor = Processor::new(network, server);
        Self { switch, tick_at: Time::NEVER, processor }
    }
}
