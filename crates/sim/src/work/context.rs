//! What workloads share: the machines that they mean, their connections, and the messages they
//! send.

use std::collections::HashMap;

use units::Rng;

use crate::clock::{Clock, Event, Maker};
use crate::events::EventList;
use crate::graph::Graph;
use crate::host::Hosts;
use crate::packet::{Packets, Target};
use crate::record::Record;
use crate::scenario::{Scenario, Transport, UDP_HEADERS, Vms};
use crate::stack::{Note, Pour, Stack};
use crate::time::{Pace, Time};

/// What a workload works with.
pub(crate) struct Context<'a, L> {
    pub clock: &'a mut Clock<L>,
    pub packets: &'a mut Packets,
    pub hosts: &'a Hosts,
    pub graph: &'a Graph,
    pub stack: &'a mut Stack,
    pub lines: &'a mut Lines,
    pub record: &'a mut Record,
}

/// Connections that stay, by workload and machines, the lower number first.
#[derive(Debug, Default)]
pub(crate) struct Lines(HashMap<(u16, u32, u32), u32>);

/// What every workload has.
#[derive(Debug)]
pub(super) struct Common {
    pub number: u16,
    pub maker: Maker,
    pub lane: u8,
    pub start: Time,
    pub stop: Time,
    pub rng: Rng,
    /// What opens a connection before the start takes for granted.
    pub stack_delay: Time,
}

/// Where workloads are.
pub(super) struct Place<'a> {
    pub scenario: &'a Scenario,
    pub graph: &'a Graph,
    pub hosts: &'a Hosts,
}

impl Place<'_> {
    /// The machines that a choice means.
    pub(super) fn machines(&self, vms: &Vms) -> Vec<u32> {
        let vms = vms.iter(&self.scenario.virtual_network, self.graph.servers);
        vms.map(|vm| self.hosts.machine(Target { host: vm.server, slot: vm.slot as u16 })).collect()
    }

    /// The machines that a choice means, by the switches of their servers; switches without any are
    /// left out.
    pub(super) fn groups(&self, vms: &Vms) -> Vec<(u32, Vec<u32>)> {
        let mut groups: Vec<(u32, Vec<u32>)> = Vec::new();
        for machine in self.machines(vms) {
            let group = self.scenario.topology.group_of(self.hosts.host_of(machine));
            match groups.last_mut() {
                Some((last, members)) if *last == group => members.push(machine),
                _ => groups.push((group, vec![machine])),
            }
        }
        groups
    }

    /// The external clients.
    pub(super) fn clients(&self) -> Vec<u32> {
        let client = |host| self.hosts.machine(Target { host, slot: 0 });
        (self.graph.servers..self.graph.hosts).map(client).collect()
    }

    /// The payload of a full datagram.
    pub(super) fn datagram(&self) -> u16 {
        (self.scenario.virtual_network.mtu - UDP_HEADERS) as u16
    }

    /// From one datagram to the next of a sender that has this rate, in payload; at the virtual
    /// NIC's or the link's if it has none.
    pub(super) fn gap(&self, rate: Option<units::Rate>, datagram: u16) -> Time {
        let link = self.scenario.topology.access(self.scenario.link);
        let network = &self.scenario.virtual_network;
        let frame = u32::from(datagram) + UDP_HEADERS + network.encapsulation.0 as u32;
        match (rate, network.pace()) {
            (Some(rate), _) => Pace::of(rate).time_for(datagram.into()),
            (None, Some(rate)) => Pace::of(rate).time_for(frame),
            (None, None) => Pace::of(link.rate).time_for(frame + link.overhead.0 as u32),
        }
    }
}

impl Common {
    /// Has the workload go on after a while, unless it has stopped by then.
    pub(super) fn after<L: EventList<Event>>(
        &self,
        with: &mut Context<'_, L>,
        gap: Time,
        what: u32,
    ) {
        let at = with.clock.now().max(self.start) + gap;
        if at <= self.stop {
            with.clock.at(at, self.maker, Event::Work { workload: self.number, what });
        }
    }

    pub(super) fn note(&self, step: u16, about: u32, from: u32) -> Note {
        Note { workload: self.number, step, about, from, lost: false }
    }

    /// Sends a message over the connection that two machines have had all along.
    pub(super) fn tell<L: EventList<Event>>(
        &self,
        with: &mut Context<'_, L>,
        from: u32,
        to: u32,
        bytes: u64,
        note: Note,
    ) {
        let end = self.line(with, from, to);
        write(with, end, bytes, note);
    }

    /// The connection that two machines have had all along: the number of its side at `from`.
    pub(super) fn line<L: EventList<Event>>(
        &self,
        with: &mut Context<'_, L>,
        from: u32,
        to: u32,
    ) -> u32 {
        let key = (self.number, from.min(to), from.max(to));
        let first = match with.lines.0.get(&key) {
            Some(first) => *first,
            None => {
                let round_trip = self.round_trip(with, key.1, key.2);
                let now = with.clock.now();
                let first =
                    with.stack.open_before(with.hosts, now, round_trip, [key.1, key.2], self.lane);
                with.lines.0.insert(key, first);
                first
            }
        };
        if from == key.1 { first } else { first ^ 1 }
    }

    /// Sends a message over a connection of its own.
    pub(super) fn tell_anew<L: EventList<Event>>(
        &self,
        with: &mut Context<'_, L>,
        from: u32,
        to: u32,
        bytes: u64,
        note: Note,
    ) {
        let end = with.stack.open(with.hosts, from, to, self.lane);
        write(with, end, bytes, note);
        with.stack.close(with.clock, with.packets, with.hosts, end);
    }

    /// How long a round trip of small frames takes where nothing waits.
    fn round_trip<L>(&self, with: &Context<'_, L>, a: u32, b: u32) -> Time {
        const SMALL: u32 = 128;
        let [from, to] = [a, b].map(|machine| with.hosts.host_of(machine));
        let stacks = self.stack_delay + self.stack_delay;
        let one_way = |from: u32, to: u32| {
            let (mut total, mut node, mut port) = (stacks, from, with.graph.nic(from));
            while node != to {
                let end = with.graph.ends[port as usize];
                total += Pace::of(end.link.rate).time_for(SMALL) + end.link.delay.into();
                node = with.graph.ends[end.peer as usize].node;
                if node != to {
                    port = with.graph.route(node, to, 0);
                }
            }
            total
        };
        one_way(from, to) + one_way(to, from)
    }
}

/// Sends a message from this side of a connection.
pub(super) fn write<L: EventList<Event>>(
    with: &mut Context<'_, L>,
    end: u32,
    bytes: u64,
    note: Note,
) {
    with.stack.write(with.clock, with.packets, with.hosts, end, bytes, note);
}

/// A length of time that was drawn in nanoseconds.
pub(super) fn drawn(ns: f64) -> Time {
    Time::from_picos((ns * 1000.0) as u64)
}

/// Begins one flow: TCP over a connection of its own, or UDP.
pub(super) fn begin<L: EventList<Event>>(
    common: &Common,
    with: &mut Context<'_, L>,
    transport: Transport,
    flow: Pour,
) {
    match (transport, flow.bytes) {
        (Transport::Tcp, Some(bytes)) => {
            common.tell_anew(with, flow.from, flow.to, bytes, flow.note)
        }
        _ => {
            with.stack.pour(with.clock, with.hosts, flow);
        }
    }
}
