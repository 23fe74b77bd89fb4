//! A scenario, set up and run: every part, and who is told of which event.

use std::io;

use crate::capture::{Capture, Sink};
use crate::clock::{Clock, Event, Maker};
use crate::events::{EventList, Wheel};
use crate::fabric::{Fabric, Sampled};
use crate::graph::Graph;
use crate::host::{Hosts, Surroundings};
use crate::outcome::{ClassOutcome, Ending, Outcome};
use crate::packet::{Packets, Queue};
use crate::record::Record;
use crate::samples::Samples;
use crate::scenario::Scenario;
use crate::stack::{Heard, Stack, Tally};
use crate::tcp::config;
use crate::time::Time;
use crate::work::{Context, Lines, Work};

/// How often deadlocks are looked for; and how long a circle of ports has waited for itself before
/// it counts as one.
const WATCH: Time = Time::from_picos(5_000_000_000);

/// What looks at a run. It changes nothing of the outcome.
#[derive(Default)]
pub struct Instruments {
    /// Where the frames of the scenario's `output.pcapng` go; they go nowhere if absent.
    pub pcapng: Option<Sink>,
    /// Whether the scenario's `output.samples` are wanted.
    pub samples: bool,
}

/// What instruments have seen.
#[derive(Debug)]
pub struct Seen {
    /// Whether all frames could be written.
    pub pcapng: io::Result<()>,
    /// Queues and pauses over time, if they were wanted.
    pub samples: Option<Samples>,
}

/// A scenario that runs.
#[derive(Debug)]
pub struct World<L> {
    clock: Clock<L>,
    packets: Packets,
    graph: Graph,
    fabric: Fabric,
    hosts: Hosts,
    stack: Stack,
    works: Vec<Work>,
    lines: Lines,
    record: Record,
    lanes: Vec<String>,
    capture: Option<Box<Capture>>,
    samples: Option<Samples>,
    /// Nothing happens after it.
    end: Time,
    /// When queues are looked at next, or the end has come: one comparison for each event.
    attend_at: Time,
    /// When a workload last did something, or a machine was handed something.
    busy_until: Time,
    /// What machines were handed in this event.
    delivered: Queue,
    /// What was heard in this event and is not told yet.
    heard: Vec<Heard>,
}

/// Runs a scenario on a timing wheel. `go_on` is told the simulated time, events so far and queries
/// that count, now and then; the run ends early if it says `false`.
pub fn run(scenario: &Scenario, mut go_on: impl FnMut(&Progress) -> bool) -> Outcome {
    run_seen(scenario, Instruments::default(), &mut go_on).0
}

/// As [`run`], with instruments.
// Neither generic nor inlined: so the engine is compiled with this crate, and not with whatever
// else is in who runs it. That is 4 % of `zovn sim bench` by `make profiled`, and nothing by `make
// build`, as measured; why, we do not know.
#[inline(never)]
pub fn run_seen(
    scenario: &Scenario,
    instruments: Instruments,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> (Outcome, Seen) {
    World::new(scenario, Wheel::default(), instruments).run(go_on)
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The simulated time.
    pub time: Time,
    /// Events that happened.
    pub events: u64,
    /// Queries that count and are complete.
    pub queries: u64,
}

impl<L: EventList<Event>> World<L> {
    /// Sets a scenario up that was checked.
    pub(crate) fn new(scenario: &Scenario, list: L, instruments: Instruments) -> Self {
        let scenario = &*scenario.with_reports();
        let graph = Graph::new(scenario);
        let mut lanes: Vec<String> = scenario.classes.keys().cloned().collect();
        lanes.sort_by_key(|name| scenario.priority(name).pcp());
        let fabric = Fabric::new(scenario, &graph, &lanes);
        let hosts = Hosts::new(scenario, &graph, &lanes);
        let network = &scenario.virtual_network;
        let stack = Stack::new(config(&scenario.tcp, network.mtu), network.encapsulation.0 as u32);
        let lane_of = |name: &String| {
            lanes.iter().position(|lane| lane == name).expect("its class is declared")
        };
        let works: Vec<Work> = (0..)
            .zip(scenario.workloads.values())
            .map(|(number, it)| {
                Work::new(scenario, &graph, &hosts, it, number, lane_of(&it.class) as u8)
            })
            .collect();
        let capture = instruments.pcapng.zip(scenario.output.pcapng);
        let capture = capture
            .map(|(sink, link)| Box::new(Capture::new(scenario, &graph, &lanes, link, sink)));
        let every = scenario.output.samples.filter(|_| instruments.samples);
        let samples = every
            .map(|every| Samples::new(scenario, &graph, &lanes, &fabric, &hosts, every.into()));
        let mut world = Self {
            clock: Clock::new(list, graph.ports.len() + works.len() + 1),
            packets: Packets::default(),
            fabric,
            hosts,
            stack,
            works,
            lines: Lines::default(),
            record: Record::new(&scenario.run),
            lanes,
            capture,
            samples,
            attend_at: Time::ZERO,
            end: scenario.run.duration.map_or(Time::LAST, Time::from).min(Time::LAST),
            busy_until: Time::ZERO,
            delivered: Queue::default(),
            heard: Vec::new(),
            graph,
        };
        for number in 0..world.works.len() {
            world.with_work(number, Work::start);
        }
        if world.fabric.has_pauses() {
            world.watch_again();
        }
        world
    }

    /// Runs to the end, and tells of it.
    pub(crate) fn run(mut self, go_on: &mut dyn FnMut(&Progress) -> bool) -> (Outcome, Seen) {
        let ending = self.go(go_on);
        let now = self.clock.now().min(self.end);
        self.look(now);
        for number in 0..self.works.len() {
            self.with_work(number, |work, with| work.end(with, now));
        }
        let pcapng = self.capture.take().map_or(Ok(()), |capture| capture.finish());
        let seen = Seen { pcapng, samples: self.samples.take() };
        (self.outcome(ending), seen)
    }

    /// Runs to the end.
    fn go(&mut self, go_on: &mut dyn FnMut(&Progress) -> bool) -> Ending {
        while let Some(event) = self.clock.next() {
            if self.clock.now() >= self.attend_at {
                self.look(self.clock.now().min(self.end));
                if self.clock.now() > self.end {
                    self.clock.put_back(event);
                    return Ending::Done;
                }
            }
            if self.clock.passed().is_multiple_of(1 << 16) && !go_on(&self.progress()) {
                self.clock.put_back(event);
                return Ending::Stopped;
            }
            match event {
                Event::Arrive { port, packet } => {
                    if let Some(capture) = &mut self.capture {
                        capture.see(
                            self.clock.now(),
                            port,
                            &self.packets[packet],
                            &self.stack,
                            &self.hosts,
                        );
                    }
                    let node = self.fabric.node_at(port);
                    if node >= self.graph.hosts {
                        self.fabric.switch(
                            &mut self.clock,
                            &mut self.packets,
                            &self.graph,
                            port,
                            packet,
                        );
                        if let Some(sampled) = self.fabric.take_sampled() {
                            self.give_notice(port, sampled);
                        }
                    } else {
                        self.with_hosts(|hosts, with| hosts.arrive(with, node, packet));
                    }
                }
                Event::Ready { port } => {
                    self.fabric.ready(&mut self.clock, &mut self.packets, port);
                    self.refill(port);
                }
                Event::Send { machine, burst } => {
                    self.with_hosts(|hosts, with| hosts.send(with, machine, burst))
                }
                Event::Leave { machine, burst } => {
                    self.with_hosts(|hosts, with| hosts.leave(with, machine, burst))
                }
                Event::Out { machine } => {
                    self.with_hosts(|hosts, with| hosts.let_out(with, machine))
                }
                Event::Timer { end } => {
                    let Self { clock, packets, hosts, stack, .. } = self;
                    stack.timer(clock, packets, hosts, end);
                }
                Event::Pace { flow } => {
                    let Self { clock, packets, hosts, stack, .. } = self;
                    stack.pace(clock, packets, hosts, flow);
                }
                Event::Work { workload, what } => {
                    self.busy_until = self.clock.now();
                    self.with_work(workload.into(), |work, with| work.go_on(with, what));
                }
                Event::Obey { port, lanes, paused } => {
                    if let Some(capture) = &mut self.capture {
                        capture.see_pause(self.clock.now(), port, lanes, paused);
                    }
                    self.fabric.obey(&mut self.clock, &mut self.packets, port, lanes, paused);
                    self.refill(port);
                }
                Event::Renew { port, lane } => self.fabric.renew(&mut self.clock, port, lane),
                Event::Expire { port, lane } => {
                    self.fabric.expire(&mut self.clock, &mut self.packets, port, lane);
                    self.refill(port);
                }
                Event::Carry { host } => self.with_hosts(|hosts, with| hosts.carry(with, host)),
                Event::Tick { host } => self.with_hosts(|hosts, with| hosts.tick(with, host)),
                Event::Allow { way } => self.with_hosts(|hosts, with| hosts.allow(with, way)),
                Event::Report { host, way } => {
                    self.with_hosts(|hosts, with| hosts.report_if_due(with, host, way));
                }
                Event::Ask { way } => self.with_hosts(|hosts, with| hosts.ask_if_due(with, way)),
                Event::Grant { host } => {
                    self.with_hosts(|hosts, with| hosts.grant_if_due(with, host));
                }
                Event::Filter { port, lane } => {
                    self.fabric.send_filter(&mut self.clock, port, lane);
                    self.refill(port);
                }
                Event::ObeyFilter { port, lane } => self.obey_filter(port, lane),
                Event::Watch => {
                    if let Some(circle) = self.deadlock() {
                        return Ending::Deadlock(circle);
                    }
                    // Alone with nothing to come, it would watch for ever.
                    if !self.clock.is_last() {
                        self.watch_again();
                    }
                }
            }
            while let Some((flow, bytes)) = self.packets.take_lost() {
                if let Some(heard) = self.stack.lose(&self.hosts, flow, bytes) {
                    self.heard.push(heard);
                    self.tell();
                }
            }
            while let Some(handle) = self.delivered.pop(&self.packets) {
                self.busy_until = self.clock.now();
                let Self { clock, packets, hosts, stack, heard, .. } = self;
                stack.receive(clock, packets, hosts, handle, heard);
                if !self.heard.is_empty() {
                    self.tell();
                    if self.record.close_if_enough() {
                        return Ending::Done;
                    }
                }
            }
        }
        Ending::Done
    }

    /// Looks at queues, as often as is due until `now`.
    #[cold]
    fn look(&mut self, now: Time) {
        let Self { samples, fabric, hosts, .. } = self;
        let due = samples.as_mut().map_or(Time::NEVER, |samples| {
            samples.look(now, fabric, hosts);
            samples.due()
        });
        self.attend_at = due.min(self.end);
    }

    /// What a port was told of paused flows takes effect.
    #[cold]
    fn obey_filter(&mut self, port: u32, lane: u8) {
        let node = self.fabric.node(port);
        if node < self.graph.hosts {
            let filter = self.fabric.take_filter(port, lane);
            self.with_hosts(|hosts, with| hosts.obey(with, node, lane, filter));
        } else {
            self.fabric.obey_filter(&mut self.clock, &mut self.packets, port, lane);
        }
    }

    /// A port may have sent: its host may have more.
    #[inline]
    fn refill(&mut self, port: u32) {
        let node = self.fabric.node(port);
        if node < self.graph.hosts {
            self.with_hosts(|hosts, with| hosts.refill(with, node));
        }
    }

    /// The switch that a frame has come into by this port tells the frame's sender of congestion.
    #[cold]
    fn give_notice(&mut self, port: u32, sampled: Sampled) {
        let Self { clock, packets, graph, fabric, hosts, .. } = self;
        let notice = hosts.notice(packets, sampled);
        fabric.switch(clock, packets, graph, port, notice);
    }

    #[inline]
    fn with_hosts(&mut self, work: impl FnOnce(&mut Hosts, &mut Surroundings<'_, L>)) {
        let Self { clock, packets, fabric, hosts, delivered, .. } = self;
        work(hosts, &mut Surroundings { clock, packets, fabric, delivered });
    }

    #[inline]
    fn with_work(&mut self, number: usize, work: impl FnOnce(&mut Work, &mut Context<'_, L>)) {
        let Self { clock, packets, graph, hosts, stack, lines, record, works, .. } = self;
        work(
            &mut works[number],
            &mut Context { clock, packets, hosts, graph, stack, lines, record },
        );
    }

    /// Tells workloads what has arrived.
    #[inline(never)]
    fn tell(&mut self) {
        let mut all = std::mem::take(&mut self.heard);
        for heard in all.drain(..) {
            self.with_work(heard.note.workload.into(), |work, with| work.hear(with, heard));
        }
        self.heard = all;
    }

    fn watch_again(&mut self) {
        let maker = Maker((self.graph.ports.len() + self.works.len()) as u32);
        self.clock.at(self.clock.now() + WATCH, maker, Event::Watch);
    }

    fn deadlock(&self) -> Option<Vec<String>> {
        let since = Time::from_picos(self.clock.now().as_picos().checked_sub(WATCH.as_picos())?);
        let circle = self.fabric.deadlock(&self.packets, &self.graph, since)?;
        Some(circle.into_iter().map(|port| self.graph.link_name(port)).collect())
    }

    fn progress(&self) -> Progress {
        Progress {
            time: self.clock.now(),
            events: self.clock.passed(),
            queries: self.record.queries().len() as u64,
        }
    }

    fn outcome(mut self, ending: Ending) -> Outcome {
        // Timers that nobody needs any more run out later.
        let time =
            if self.clock.is_last() { self.busy_until } else { self.clock.now().min(self.end) };
        let mut defects = Vec::new();
        if let Err(defect) = self.hosts.audit() {
            defects.push(format!("a virtual switch: {defect}"));
        }
        let classes: Vec<ClassOutcome> = (0..)
            .zip(&self.lanes)
            .map(|(lane, name)| {
                let (lost_virtual, lost_physical) = (self.hosts.lost(lane), self.fabric.lost(lane));
                if lost_virtual > 0 && self.hosts.is_lossless(lane) {
                    defects.push(format!(
                        "class {name}: {lost_virtual} frames lost by lossless virtual switches"
                    ));
                }
                if lost_physical > 0 && self.fabric.is_lossless(lane) {
                    defects.push(format!(
                        "class {name}: {lost_physical} frames lost by lossless links"
                    ));
                }
                let (marked, paused) = (self.fabric.marked(lane), self.fabric.paused(lane, time));
                ClassOutcome { name: name.clone(), lost_virtual, lost_physical, marked, paused }
            })
            .collect();
        let booked: u64 = classes.iter().map(|it| it.lost_virtual + it.lost_physical).sum();
        if booked != self.packets.lost() {
            defects.push(format!(
                "{} frames are lost, but {booked} are in the books",
                self.packets.lost()
            ));
        }
        let events = self.clock.passed();
        let held = self.fabric.held(&self.packets) + self.hosts.held(&self.packets);
        let found = held + self.delivered.len(&self.packets) + self.clock.under_way(&self.packets);
        if found != self.packets.alive() {
            defects.push(format!(
                "{} frames are under way, but {found} were found",
                self.packets.alive()
            ));
        }
        let Tally { segments, retransmitted, probes, timeouts, datagrams, late } =
            self.stack.total();
        if late > 0 {
            defects.push(format!(
                "{late} frames came after one of their flow that was sent after them"
            ));
        }
        Outcome {
            ending,
            time,
            events,
            hops: self.fabric.sent(),
            classes,
            unfinished: self.works.iter().map(Work::unfinished).sum(),
            segments,
            retransmitted,
            probes,
            timeouts,
            datagrams,
            defects,
            record: self.record,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CellResult;
    use crate::events::{Heap, Key};
    use crate::packet::{Load, Packet, Target};
    use crate::scenario::Plan;

    #[test]
    fn a_wheel_and_a_heap_tell_the_same() {
        let plan = Plan::parse(include_str!("../tests/mixed.toml")).unwrap();
        for cell in plan.cells() {
            let wheel = World::new(&cell.scenario, Wheel::default(), Instruments::default())
                .run(&mut |_| true)
                .0;
            let heap = World::new(&cell.scenario, Heap::default(), Instruments::default())
                .run(&mut |_| true)
                .0;
            let [wheel, heap] = [wheel, heap].map(|outcome| CellResult::new(&cell, &outcome));
            assert_eq!(wheel, heap);
            assert!(wheel.queries > 30 && wheel.flows > 100, "{wheel:?}");
            assert_eq!(wheel.defects, [""; 0], "{} {:?}", cell.name, wheel.classes);
            let lost: u64 =
                wheel.classes.values().map(|it| it.lost_virtual + it.lost_physical).sum();
            assert_eq!(lost > 0, cell.values[0].1 != "ZZ", "{}: {wheel:?}", cell.name);
        }
    }

    /// Short flows between two machines.
    const FLOWS: &str = "kind = \"flows\"\nsizes = \"2kb\"\ngap = \"1us\"\nclosed = true";

    /// A workload between two machines, run.
    fn world(workload: &str) -> World<Wheel<Event>> {
        let text = format!(
            r#"
version = 1
name = "places"
[run]
duration = "10ms"
[topology]
kind = "star"
servers = 2
[workload.it]
{workload}
"#
        );
        let plan = Plan::parse(&text).unwrap();
        let mut world = World::new(plan.first(), Wheel::default(), Instruments::default());
        assert_eq!(world.go(&mut |_| true), Ending::Done);
        world
    }

    #[test]
    fn a_connection_that_is_over_leaves_its_place_to_the_next() {
        const QUERIES: &str = r#"
kind = "partition-aggregate"
aggregators = "vm@0"
workers = "vm@1"
request = "1kb"
reply = "2kb"
gap = "1us"
closed = true
persistent = false
"#;
        for workload in [FLOWS, QUERIES] {
            let world = world(workload);
            let over = world.record.flows().len() + 2 * world.record.queries().len();
            assert!(over > 200, "{over} connections");
            assert!(world.stack.places() < 20, "{} places", world.stack.places());
        }
    }

    #[test]
    fn a_frame_that_is_nowhere_is_missed() {
        let mut world = world(FLOWS);
        let (to, load) = (Target { host: 0, slot: 0 }, Load::Datagram { flow: 0, bytes: 1 });
        let before = world.packets.alive();
        world.packets.insert(Packet::new(100, to, 0, 0, false, load));
        let expected = format!("{} frames are under way, but {before} were found", before + 1);
        assert_eq!(world.outcome(Ending::Done).defects, [expected]);
    }

    /// Events of a network in which one frame, the n-th that comes through a link, takes 50 µs
    /// longer.
    struct Detour {
        list: Wheel<Event>,
        n: u32,
    }

    impl EventList<Event> for Detour {
        fn push(&mut self, key: Key, event: Event) {
            self.list.push(key, event);
        }

        fn pop(&mut self) -> Option<(Key, Event)> {
            let (key, event) = self.list.pop()?;
            if let Event::Arrive { .. } = event {
                self.n = self.n.wrapping_sub(1);
                if self.n == 0 {
                    let time = key.time + Time::from_picos(50_000_000);
                    self.list.push(Key { time, ..key }, event);
                    return self.list.pop();
                }
            }
            Some((key, event))
        }

        fn len(&self) -> usize {
            self.list.len()
        }
    }

    #[test]
    fn a_frame_that_others_of_its_flow_pass_is_a_defect() {
        for transport in ["tcp", "udp"] {
            let text = format!(
                r#"
version = 1
name = "order"
[topology]
kind = "star"
servers = 2
[workload.flows]
kind = "permutation"
transport = "{transport}"
stride = 1
bytes = "200kb"
"#
            );
            let scenario = Plan::parse(&text).unwrap().cell(0).scenario;
            let defects = |n| {
                let list = Detour { list: Wheel::default(), n };
                World::new(&scenario, list, Instruments::default()).run(&mut |_| true).0.defects
            };
            assert_eq!(defects(0), [""; 0]);
            assert_eq!(
                defects(100),
                ["1 frames came after one of their flow that was sent after them"],
                "{transport}"
            );
        }
    }
}
