//! Hosts: machines, the virtual switch between them, and the NIC.
//!
//! ```text
//!  machine ─▶ backlog ─▶ ┌─────────────────┐ ─▶ NIC's queues ─▶ link
//!  machine ◀──────────── │ lossless::Switch│
//!  machine ◀──────────── └─────────────────┘ ◀─ NIC's memory ◀─ link
//! ```
//!
//! The switch is the very one that runs on real hosts. Each machine is a port of it, and the up-link is one for each lane, as
//! a NIC has a queue for each: so a lane that is paused holds back no other.

use std::num::NonZeroU32;
use std::ops::Range;

use lossless::{
    Arrival, ClassKind, Classes, Limits, Passed, PortConfig, PortId, Scheduling, Settings, Shaping, Switch,
};
use units::{Class, ClassMap, Mac};
use wire::ethernet::{Peek, Tag};

use crate::clock::{Burst, Clock, Event, Maker};
use crate::events::EventList;
use crate::fabric::Fabric;
use crate::graph::Graph;
use crate::packet::{Handle, Packets, Queue, Target};
use crate::scenario::{self, Scenario};
use crate::time::{Pace, Time};

/// What all hosts have in common.
#[derive(Debug)]
struct Rules {
    lanes: Vec<Lane>,
    /// What a NIC queues, in bytes.
    nic_queue: u64,
    stack_delay: Time,
    /// The pace of a virtual NIC, if it has a rate.
    pace: Option<Pace>,
}

/// A class, in the virtual network.
#[derive(Clone, Copy, Debug)]
struct Lane {
    class: Class,
    lossless: bool,
}

/// A host.
#[derive(Debug)]
struct Host {
    nic: u32,
    /// Its virtual switch, if it has one.
    bridge: Option<Bridge>,
    /// Its machines, by their numbers.
    machines: Range<u32>,
    /// How many of its machines have a backlog.
    blocked: u32,
    /// The lanes of which frames wait in the NIC's memory.
    waiting: u8,
    /// Lanes of which the NIC had no room.
    nic_full: u8,
    /// Whether its switch may hold something.
    holds: bool,
}

/// A virtual switch.
#[derive(Debug)]
struct Bridge {
    switch: Switch<Handle>,
    /// The port of each machine, then of each lane's up-link.
    ports: Vec<PortId>,
    /// By lane: what the switch has no room for yet.
    arrived: Vec<Queue>,
    /// When an event says that something falls due.
    tick_at: Time,
}

/// A machine.
#[derive(Debug)]
struct Machine {
    host: u32,
    slot: u16,
    /// What has left the stack, and is still to pass a virtual NIC that has a rate; and when that can send again.
    outbox: Queue,
    free_at: Time,
    /// By lane: what has left the virtual NIC, and the switch has no room for yet.
    backlog: Vec<Queue>,
}

/// All hosts, and the machines on them.
#[derive(Debug)]
pub(crate) struct Hosts {
    rules: Rules,
    hosts: Vec<Host>,
    machines: Vec<Machine>,
    /// Frames lost for want of room in a virtual switch's ingress or behind it, in its NIC, by lane.
    lost: Vec<u64>,
}

/// What hosts work with.
pub(crate) struct Surroundings<'a, L> {
    pub clock: &'a mut Clock<L>,
    pub packets: &'a mut Packets,
    pub fabric: &'a mut Fabric,
    /// What machines are handed, in order.
    pub delivered: &'a mut Queue,
}

/// The address of a machine on its own switch, by its slot; the up-links' follow.
fn address(place: usize) -> Mac {
    Mac::local(place as u32 + 1)
}

impl Hosts {
    pub(crate) fn new(scenario: &Scenario, graph: &Graph, lanes: &[String]) -> Self {
        let network = &scenario.virtual_network;
        let lanes: Vec<Lane> = lanes
            .iter()
            .map(|name| Lane {
                class: scenario.priority(name),
                lossless: scenario.virtual_kind(name) == model::ClassKind::Lossless,
            })
            .collect();
        let mut machines = Vec::new();
        let mut hosts = Vec::new();
        for number in 0..graph.hosts {
            let is_server = number < graph.servers;
            let count = if is_server { network.vms_per_server() as u32 } else { 1 };
            let first = machines.len() as u32;
            machines.extend((0..count).map(|slot| Machine {
                host: number,
                slot: slot as u16,
                outbox: Queue::default(),
                free_at: Time::ZERO,
                backlog: vec![Queue::default(); lanes.len()],
            }));
            hosts.push(Host {
                nic: graph.nic(number),
                bridge: (is_server && network.switch).then(|| Bridge::new(scenario, &lanes, count)),
                machines: first..first + count,
                blocked: 0,
                waiting: 0,
                nic_full: 0,
                holds: false,
            });
        }
        let rules = Rules {
            nic_queue: scenario.fabric.nic_queue.0,
            stack_delay: network.stack_delay.into(),
            pace: network.rate.map(Pace::of),
            lanes,
        };
        let lost = vec![0; rules.lanes.len()];
        Self { rules, hosts, machines, lost }
    }

    /// A machine by its host and its slot there.
    #[inline]
    pub(crate) fn machine(&self, target: Target) -> u32 {
        self.hosts[target.host as usize].machines.start + u32::from(target.slot)
    }

    /// Where a machine is.
    #[inline]
    pub(crate) fn target(&self, machine: u32) -> Target {
        let Machine { host, slot, .. } = self.machines[machine as usize];
        Target { host, slot }
    }

    /// The host of a machine.
    #[inline]
    pub(crate) fn host_of(&self, machine: u32) -> u32 {
        self.machines[machine as usize].host
    }

    /// Whether a machine's virtual NIC still has frames that are not sent, or that its switch has no room for in a lane: a
    /// socket that blocks would, now.
    pub(crate) fn is_blocked(&self, machine: u32, lane: u8) -> bool {
        let it = &self.machines[machine as usize];
        !it.outbox.is_empty() || !it.backlog[usize::from(lane)].is_empty()
    }

    /// A machine's stack begins to send. Stacks and applications live by a clock that is late by the stack's delay: what
    /// comes needs no event to reach them, and what they send is at the virtual NIC after two delays.
    #[inline]
    pub(crate) fn emit<L: EventList<Event>>(&self, clock: &mut Clock<L>, machine: u32, burst: Burst) {
        let maker = Maker(self.host_of(machine));
        let delay = self.rules.stack_delay;
        clock.at(clock.now() + delay + delay, maker, Event::Send { machine, burst });
    }

    /// What a machine's stack has sent is at its virtual NIC.
    pub(crate) fn send<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        machine: u32,
        burst: Burst,
    ) {
        let it = &mut self.machines[machine as usize];
        let (host, was_blocked) = (it.host, it.backlog.iter().any(|queue| !queue.is_empty()));
        let (was_busy, mut next) = (!it.outbox.is_empty(), burst.first());
        let is_due = next.is_none();
        while let Some(handle) = next {
            next = Queue::after(with.packets, handle);
            let lane = with.packets[handle].lane;
            let queue =
                if self.rules.pace.is_some() { &mut it.outbox } else { &mut it.backlog[usize::from(lane)] };
            queue.push(with.packets, handle);
        }
        if let Some(pace) = self.rules.pace {
            if was_busy && !is_due {
                return;
            }
            it.let_out(with, machine, pace);
        }
        self.hosts[host as usize].blocked += u32::from(!was_blocked);
        self.offer(with, machine);
        self.pump(with, host);
    }

    /// Has the switch take what a machine has, as far as there is room.
    fn offer<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, machine: u32) {
        let Self { rules, hosts, machines, lost } = self;
        let Machine { host: number, slot, backlog, .. } = &mut machines[machine as usize];
        let host = &mut hosts[*number as usize];
        let now = with.clock.instant();
        let mut is_left = false;
        for (place, (lane, queue)) in rules.lanes.iter().zip(&mut *backlog).enumerate() {
            if queue.is_empty() {
                continue;
            }
            match &mut host.bridge {
                Some(bridge) => {
                    let from = bridge.ports[usize::from(*slot)];
                    let count = host.machines.len();
                    let mut room = bridge.switch.room_in(now, from, lane.class);
                    while let Some(handle) = queue.head() {
                        if room == 0 && lane.lossless {
                            break;
                        }
                        let packet = &with.packets[handle];
                        let to = match packet.host == *number {
                            true => usize::from(packet.slot),
                            false => count + place,
                        };
                        let header = header(lane.class, usize::from(*slot), to);
                        let arrival = Arrival { frame: handle, header, bytes: packet.bytes, frames: 1 };
                        queue.pop(with.packets);
                        if room == 0 {
                            lost[place] += 1;
                            with.packets.lose(handle);
                            continue;
                        }
                        room -= 1;
                        let fabric = &*with.fabric;
                        let takes = |port: PortId| {
                            let bytes = u64::from(arrival.bytes);
                            let lane = port.index().checked_sub(count);
                            lane.is_none_or(|lane| {
                                fabric.waiting(host.nic, lane as u8) + bytes <= rules.nic_queue
                            })
                        };
                        match bridge.switch.pass(now, from, arrival, takes).expect("there was room") {
                            Passed::Through(port) if port.index() >= count => {
                                with.fabric.send(with.clock, with.packets, host.nic, handle);
                            }
                            Passed::Through(_) => with.delivered.push(with.packets, handle),
                            Passed::Held => host.holds = true,
                            Passed::Refused(refused) => with.packets.lose(refused),
                        }
                    }
                }
                None => {
                    while let Some(handle) = queue.head() {
                        let bytes = u64::from(with.packets[handle].bytes);
                        let has_room = with.fabric.waiting(host.nic, place as u8) + bytes <= rules.nic_queue;
                        if !has_room && lane.lossless {
                            host.nic_full |= 1 << place;
                            break;
                        }
                        queue.pop(with.packets);
                        if has_room {
                            with.fabric.send(with.clock, with.packets, host.nic, handle);
                        } else {
                            with.packets.lose(handle);
                            lost[place] += 1;
                        }
                    }
                }
            }
            is_left |= !queue.is_empty();
        }
        host.blocked -= u32::from(!is_left);
    }

    /// Moves what can move through a host's switch.
    fn pump<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        if !self.hosts[number as usize].holds {
            return;
        }
        loop {
            let moved = self.hand_out(with, number);
            let host = &self.hosts[number as usize];
            // Only who waits outside the switch can make use of the room that there is now.
            if !moved || host.blocked == 0 && host.waiting == 0 {
                break;
            }
            if host.blocked > 0 {
                for machine in host.machines.clone() {
                    if self.machines[machine as usize].backlog.iter().any(|queue| !queue.is_empty()) {
                        self.offer(with, machine);
                    }
                }
            }
            self.take_arrived(with, number);
        }
        self.arm(with, number);
    }

    /// Hands out what receivers may have: machines take all, a NIC what it has room for. Whether anything moved.
    fn hand_out<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) -> bool {
        let Self { rules, hosts, lost, .. } = self;
        let Host { nic, bridge: Some(bridge), machines, nic_full, .. } = &mut hosts[number as usize] else {
            return false;
        };
        let now = with.clock.instant();
        let mut moved = false;
        for port in bridge.switch.pending().iter() {
            let place = port.index();
            if let Some(lane) = place.checked_sub(machines.len()) {
                if *nic_full & 1 << lane != 0 {
                    continue;
                }
                let mut visit = bridge.switch.departures(now, port);
                while let Some(head) = visit.head() {
                    let waiting = with.fabric.waiting(*nic, lane as u8);
                    let has_room = waiting + u64::from(head.bytes()) <= rules.nic_queue;
                    if !has_room && rules.lanes[lane].lossless {
                        *nic_full |= 1 << lane;
                        break;
                    }
                    let handle = head.delivered().expect("one receiver is meant");
                    moved = true;
                    if has_room {
                        with.fabric.send(with.clock, with.packets, *nic, handle);
                    } else {
                        lost[lane] += 1;
                        with.packets.lose(handle);
                    }
                }
            } else {
                let mut visit = bridge.switch.departures(now, port);
                while let Some(head) = visit.head() {
                    with.delivered.push(with.packets, head.delivered().expect("one receiver is meant"));
                    moved = true;
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
        let host = &mut self.hosts[number as usize];
        let packet = &with.packets[handle];
        let (lane, bytes) = (packet.lane, u64::from(packet.bytes));
        let Some(bridge) = &mut host.bridge else {
            with.delivered.push(with.packets, handle);
            return;
        };
        let machines = host.machines.len();
        let taken = host.waiting & 1 << lane == 0
            && bridge.take(with, machines, &self.rules.lanes, handle, &mut host.holds);
        if !taken {
            if !self.rules.lanes[usize::from(lane)].lossless {
                self.lost[usize::from(lane)] += 1;
                with.packets.lose(handle);
            } else if with.fabric.has_room(host.nic, lane, bytes) {
                bridge.arrived[usize::from(lane)].push(with.packets, handle);
                host.waiting |= 1 << lane;
                with.fabric.hold(with.clock, host.nic, lane, bytes);
            } else {
                with.fabric.lose(host.nic, lane);
                with.packets.lose(handle);
            }
            return;
        }
        self.pump(with, number);
    }

    /// Has the switch take what waits in the NIC's memory.
    fn take_arrived<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        let Self { rules, hosts, .. } = self;
        let host = &mut hosts[number as usize];
        let Some(bridge) = &mut host.bridge else { return };
        let waiting = host.waiting;
        for lane in (0..rules.lanes.len()).filter(|lane| waiting & 1 << lane != 0) {
            while let Some(handle) = bridge.arrived[lane].head() {
                let bytes = u64::from(with.packets[handle].bytes);
                // Its place in the queue is not needed to take it: the queue forgets it first.
                let mut rest = bridge.arrived[lane];
                rest.pop(with.packets);
                let machines = host.machines.len();
                if !bridge.take(with, machines, &rules.lanes, handle, &mut host.holds) {
                    break;
                }
                bridge.arrived[lane] = rest;
                with.fabric.release(with.clock, host.nic, lane as u8, bytes);
            }
            if bridge.arrived[lane].is_empty() {
                host.waiting &= !(1 << lane);
            }
        }
    }

    /// A NIC has sent a frame, or was let go: there may be room for more.
    #[inline]
    pub(crate) fn refill<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        let host = &mut self.hosts[number as usize];
        if host.nic_full == 0 {
            return;
        }
        host.nic_full = 0;
        if host.bridge.is_some() {
            self.pump(with, number);
            return;
        }
        for machine in host.machines.clone() {
            if self.machines[machine as usize].backlog.iter().any(|queue| !queue.is_empty()) {
                self.offer(with, machine);
            }
        }
    }

    /// Something falls due in a virtual switch.
    pub(crate) fn tick<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        let host = &mut self.hosts[number as usize];
        let Some(bridge) = &mut host.bridge else { return };
        if bridge.tick_at != with.clock.now() {
            return;
        }
        bridge.tick_at = Time::NEVER;
        let packets = &mut *with.packets;
        bridge.switch.tick(with.clock.instant(), |released| packets.lose(released.frame));
        self.pump(with, number);
    }

    /// Sees to it that an event says when something falls due in a switch that holds frames.
    #[inline]
    fn arm<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        let host = &mut self.hosts[number as usize];
        let Some(bridge) = &mut host.bridge else { return };
        host.holds = !bridge.switch.pending().is_empty();
        if !host.holds {
            return;
        }
        let Some(due) = bridge.switch.deadline(with.clock.instant()) else { return };
        let due = Time::from(due).max(with.clock.now());
        if due < bridge.tick_at {
            bridge.tick_at = due;
            with.clock.at(due, Maker(number), Event::Tick { host: number });
        }
    }

    /// Frames that virtual switches, and virtual NICs before them, have lost in a lane.
    pub(crate) fn lost(&self, lane: u8) -> u64 {
        let class = self.rules.lanes[usize::from(lane)].class;
        let bridges = self.hosts.iter().filter_map(|host| host.bridge.as_ref());
        let refused = bridges.flat_map(|bridge| {
            bridge.ports.iter().map(move |&port| bridge.switch.ingress_account(port, class).refused_total())
        });
        refused.sum::<u64>() + self.lost[usize::from(lane)]
    }

    /// Whether a lane promises that nothing is lost in the virtual network.
    pub(crate) fn is_lossless(&self, lane: u8) -> bool {
        self.rules.lanes[usize::from(lane)].lossless
    }

    /// Proves the switches' books: see [`Switch::audit`].
    pub(crate) fn audit(&self) -> Result<(), lossless::Defect> {
        self.hosts.iter().filter_map(|host| host.bridge.as_ref()).try_for_each(|bridge| bridge.switch.audit())
    }
}

impl Machine {
    /// Lets go what a virtual NIC's pace allows now. An event without a burst says when it allows the next.
    fn let_out<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, machine: u32, pace: Pace) {
        let now = with.clock.now();
        while let Some(handle) = self.outbox.head() {
            if self.free_at > now {
                with.clock.at(self.free_at, Maker(self.host), Event::Send { machine, burst: Burst::NONE });
                return;
            }
            self.outbox.pop(with.packets);
            let (lane, bytes) = (with.packets[handle].lane, with.packets[handle].bytes);
            self.free_at = now + pace.time_for(bytes);
            self.backlog[usize::from(lane)].push(with.packets, handle);
        }
    }
}

fn header(class: Class, from: usize, to: usize) -> Peek {
    Peek { destination: address(to), source: address(from), tag: Some(Tag { class, vlan: 0 }) }
}

impl Bridge {
    fn new(scenario: &Scenario, lanes: &[Lane], machines: u32) -> Self {
        let network = &scenario.virtual_network;
        let mut kinds = ClassMap([ClassKind::Lossy; Class::COUNT]);
        let mut weights = ClassMap([1; Class::COUNT]);
        for lane in lanes {
            kinds[lane.class] = if lane.lossless { ClassKind::Lossless } else { ClassKind::Lossy };
        }
        for class in scenario.classes.values() {
            weights[class.priority] = class.weight;
        }
        let settings = Settings {
            classes: Classes(kinds),
            stall_after: network.stall_after,
            // Every address is pinned.
            mac_age: units::Span::from_secs(1 << 30),
            ..Settings::default()
        };
        let mut switch = Switch::new(settings);
        let limits = |bytes: u64| Limits { frames: u32::MAX, bytes };
        let config = PortConfig {
            ingress: limits(network.ingress.0),
            egress: limits(network.egress.0),
            quota: network.quota.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX),
            shaping: network
                .rate
                .map(|rate| Shaping { rate, burst: network.mtu + network.encapsulation.0 as u32 }),
            scheduling: match network.scheduling {
                scenario::Scheduling::Strict => Scheduling::Strict,
                scenario::Scheduling::Weighted => Scheduling::Weighted(weights),
            },
            ..PortConfig::default()
        };
        let uplink = PortConfig { shaping: None, ..config };
        let count = machines as usize + lanes.len();
        let ports: Vec<PortId> = (0..count)
            .map(|place| {
                let config = if place < machines as usize { config } else { uplink };
                let port =
                    switch.attach(units::Instant::ZERO, config).expect("a checked scenario's machines fit");
                switch.pin(address(place), 0, port);
                port
            })
            .collect();
        Self { switch, ports, arrived: vec![Queue::default(); lanes.len()], tick_at: Time::NEVER }
    }

    /// Takes a frame from the NIC, if there is room. Whether it did.
    #[inline]
    fn take<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        machines: usize,
        lanes: &[Lane],
        handle: Handle,
        holds: &mut bool,
    ) -> bool {
        let packet = &with.packets[handle];
        let lane = usize::from(packet.lane);
        let uplink = machines + lane;
        let (now, from, class) = (with.clock.instant(), self.ports[uplink], lanes[lane].class);
        if self.switch.room_in(now, from, class) == 0 {
            return false;
        }
        let header = header(class, uplink, usize::from(packet.slot));
        let arrival = Arrival { frame: handle, header, bytes: packet.bytes, frames: 1 };
        // A machine takes whatever comes.
        match self.switch.pass(now, from, arrival, |_| true).expect("there was room") {
            Passed::Through(_) => with.delivered.push(with.packets, handle),
            Passed::Held => *holds = true,
            Passed::Refused(refused) => with.packets.lose(refused),
        }
        true
    }
}
