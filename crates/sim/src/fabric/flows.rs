//! An output whose class has several queues, and gives each flow one of its own while there are
//! enough: dynamic queue assignment of Backpressure Flow Control (Goyal et al., NSDI 2022).
//!
//! ```text
//!            ┌─▶ ▪ ▪ ▪ ─┐  the first frame's flow is not paused: ready
//!  flow's ───┼─▶ ▪ ─────┼─▶ ready queues in turn ─▶ transmitter
//!  queue     └─▶ ▪ ▪    │  its flow is paused by the next switch: all behind it wait
//! ```
//!
//! A flow keeps its queue while it has frames there. Another is given a queue that is empty; if
//! there is none, one by its number, which it shares with whoever is there: then it waits for them,
//! and is paused for them.
//!
//! A queue is long once it holds more than its part of what the link sends until a pause bites that
//! the switch before is told of now, and until a resumption bites: whoever lengthens it then is to
//! be paused, and is let go once it is shorter.
//!
//! Nothing here knows of events or links.

use std::collections::{BTreeMap, VecDeque};

use super::filter::{Filter, FlowId};
use crate::packet::{Handle, Packets, Queue};
use crate::time::{Pace, Time};

/// The most queues of a class of an output.
pub(crate) const MOST_QUEUES: u32 = 128;

/// One class of an output.
#[derive(Debug)]
pub(super) struct Flows {
    queues: Vec<FlowQueue>,
    /// Queues that hold something, and those of them whose first frame may leave, a bit each.
    filled: u128,
    ready: u128,
    /// Whose turn it is.
    turn: usize,
    /// What a queue may send in its turn, in bytes: a longest frame, so that it is always enough.
    quantum: u64,
    /// Of the link that this output sends by.
    pace: Pace,
    seats: BTreeMap<FlowId, Seat>,
    /// What the next switch says of paused flows.
    told: Filter,
    bytes: u64,
}

/// Where a flow's frames wait, and how many do.
#[derive(Clone, Copy, Debug)]
struct Seat {
    queue: usize,
    frames: u32,
}

#[derive(Debug, Default)]
struct FlowQueue {
    queue: Queue,
    /// Bytes that it may still send in this turn.
    deficit: u64,
    /// Flows that were paused because of it, in that order. One that has left it since, and waits
    /// in another, may be paused because of that, too.
    paused: VecDeque<Paused>,
}

/// A flow that is to be paused, or let go, where it comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Paused {
    /// The port that it comes by.
    pub input: u32,
    pub flow: FlowId,
}

impl Flows {
    /// An output of so many queues, for frames of up to `longest` bytes.
    pub(super) fn new(queues: u32, pace: Pace, longest: u64) -> Self {
        assert!((1..=MOST_QUEUES).contains(&queues), "{queues} queues have a bit each of 128");
        Self {
            queues: (0..queues).map(|_| FlowQueue::default()).collect(),
            filled: 0,
            ready: 0,
            turn: 0,
            quantum: longest,
            pace,
            seats: BTreeMap::new(),
            told: Filter::EMPTY,
            bytes: 0,
        }
    }

    /// Whether a frame of this flow may go by without waiting here, for all that it would overtake:
    /// none of its flow waits, and the next switch takes it.
    pub(super) fn is_clear(&self, flow: FlowId) -> bool {
        !self.seats.contains_key(&flow) && !self.told.contains(flow)
    }

    /// Whether a frame may leave.
    pub(super) fn is_ready(&self) -> bool {
        self.ready != 0
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Frames that wait.
    pub(super) fn iter<'a>(&'a self, packets: &'a Packets) -> impl Iterator<Item = Handle> {
        self.queues.iter().flat_map(|it| it.queue.iter(packets))
    }

    /// A frame waits. Its flow, if that is to be paused now; `horizons` are by input.
    pub(super) fn push(
        &mut self,
        packets: &mut Packets,
        handle: Handle,
        horizons: &[Time],
    ) -> Option<Paused> {
        let packet = &packets[handle];
        let (flow, input) = (FlowId::of(packet.hash), packet.input);
        self.bytes += u64::from(packet.bytes);
        let number = self.seat(flow);
        let queue = &mut self.queues[number].queue;
        if queue.is_empty() {
            self.filled |= 1 << number;
            self.ready |= u128::from(!self.told.contains(flow)) << number;
        }
        queue.push(packets, handle);
        let paused = Paused { input, flow };
        let is_new = !self.queues[number].paused.contains(&paused);
        let is_paused = is_new && self.is_long(number, horizons[input as usize]);
        is_paused.then(|| {
            self.queues[number].paused.push_back(paused);
            paused
        })
    }

    /// The queue of a flow that has a frame more.
    fn seat(&mut self, flow: FlowId) -> usize {
        let count = self.queues.len();
        let filled = self.filled;
        let seat = self.seats.entry(flow).or_insert_with(|| {
            let empty = (!filled).trailing_zeros() as usize;
            Seat { queue: if empty < count { empty } else { flow.draw(count) }, frames: 0 }
        });
        seat.frames += 1;
        seat.queue
    }

    /// Whether a queue holds more than its part, among those that may send, of what this link sends
    /// in `horizon`.
    fn is_long(&self, number: usize, horizon: Time) -> bool {
        let takes = self.pace.time_for(self.queues[number].queue.bytes as u32).as_picos();
        takes * u64::from(self.ready.count_ones().max(1)) > horizon.as_picos()
    }

    /// Takes the next frame out. Flows that are let go for it are added to `resumed`: one while the
    /// queue is not long, and whoever is left once it is empty.
    pub(super) fn pull(
        &mut self,
        packets: &Packets,
        horizons: &[Time],
        resumed: &mut Vec<Paused>,
    ) -> Option<Handle> {
        let number = self.next(packets)?;
        let it = &mut self.queues[number];
        let handle = it.queue.pop(packets)?;
        let packet = &packets[handle];
        it.deficit -= u64::from(packet.bytes);
        self.bytes -= u64::from(packet.bytes);
        match it.queue.head() {
            None => {
                it.deficit = 0;
                resumed.extend(it.paused.drain(..));
                self.filled &= !(1 << number);
                self.ready &= !(1 << number);
            }
            Some(head) => {
                if self.told.contains(FlowId::of(packets[head].hash)) {
                    self.ready &= !(1 << number);
                }
                if let Some(first) = self.queues[number].paused.front()
                    && !self.is_long(number, horizons[first.input as usize])
                {
                    resumed.extend(self.queues[number].paused.pop_front());
                }
            }
        }
        self.leave(FlowId::of(packet.hash));
        Some(handle)
    }

    /// A flow has a frame less.
    fn leave(&mut self, flow: FlowId) {
        let seat = self.seats.get_mut(&flow).expect("a frame that waits has a seat");
        seat.frames -= 1;
        if seat.frames == 0 {
            self.seats.remove(&flow);
        }
    }

    /// The queue that sends next, by deficit round robin (Shreedhar and Varghese 1995).
    fn next(&mut self, packets: &Packets) -> Option<usize> {
        if self.ready == 0 {
            return None;
        }
        loop {
            let it = &self.queues[self.turn];
            if self.ready & 1 << self.turn != 0
                && let Some(head) = it.queue.head()
                && it.deficit >= u64::from(packets[head].bytes)
            {
                return Some(self.turn);
            }
            let after = self.ready & u128::MAX << self.turn << 1;
            self.turn = if after == 0 { self.ready } else { after }.trailing_zeros() as usize;
            self.queues[self.turn].deficit += self.quantum;
        }
    }

    /// The next switch tells of paused flows.
    pub(super) fn obey(&mut self, packets: &Packets, told: Filter) {
        self.told = told;
        self.ready = 0;
        for (number, it) in self.queues.iter().enumerate() {
            if let Some(head) = it.queue.head() {
                let is_ready = !told.contains(FlowId::of(packets[head].hash));
                self.ready |= u128::from(is_ready) << number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use units::Rate;

    use super::super::filter::Pauses;
    use super::*;
    use crate::packet::{Load, Packet, Target};

    const LONGEST: u64 = 1500;

    /// Ten longest frames, at 10 Gb/s.
    const HORIZONS: [Time; 2] = [Time::from_picos(12_000_000); 2];

    fn flows(queues: u32) -> Flows {
        Flows::new(queues, Pace::of(Rate::from_gbit(10)), LONGEST)
    }

    /// A frame of a flow, which has come by a port.
    fn frame(packets: &mut Packets, flow: u32, input: u32, bytes: u32, order: u32) -> Handle {
        let load = Load::Datagram { flow, bytes: 0 };
        let mut packet = Packet::new(bytes, Target { host: 0, slot: 0 }, flow, 0, false, load);
        (packet.input, packet.order) = (input, order);
        packets.insert(packet)
    }

    fn filter(paused: &[u32]) -> Filter {
        let mut pauses = Pauses::default();
        paused.iter().for_each(|flow| pauses.pause(FlowId::of(*flow)));
        pauses.filter()
    }

    /// Takes everything out that may leave: the flows, in order.
    fn drain(flows: &mut Flows, packets: &Packets) -> Vec<u32> {
        let out = std::iter::from_fn(|| flows.pull(packets, &HORIZONS, &mut Vec::new()));
        out.map(|handle| packets[handle].hash).collect()
    }

    #[test]
    fn flows_take_turns_while_there_are_queues() {
        let (mut flows, mut packets) = (flows(4), Packets::default());
        for flow in [7, 7, 7, 8, 9, 9] {
            let handle = frame(&mut packets, flow, 0, 1500, 0);
            flows.push(&mut packets, handle, &HORIZONS);
        }
        assert_eq!(drain(&mut flows, &packets), [8, 9, 7, 9, 7, 7]);
        assert_eq!((flows.bytes(), flows.seats.len()), (0, 0));
    }

    #[test]
    fn short_frames_go_as_many_as_make_a_long_one() {
        let (mut flows, mut packets) = (flows(4), Packets::default());
        for (flow, bytes) in [(7, 1500), (7, 1500), (8, 500), (8, 500), (8, 500), (8, 500)] {
            let handle = frame(&mut packets, flow, 0, bytes, 0);
            flows.push(&mut packets, handle, &HORIZONS);
        }
        assert_eq!(drain(&mut flows, &packets), [8, 8, 8, 7, 8, 7]);
    }

    #[test]
    fn a_paused_flow_holds_back_nobody_who_has_a_queue() {
        let (mut flows, mut packets) = (flows(2), Packets::default());
        flows.obey(&packets, filter(&[7]));
        for flow in [7, 8, 8] {
            let handle = frame(&mut packets, flow, 0, 1500, 0);
            flows.push(&mut packets, handle, &HORIZONS);
        }
        assert!(!flows.is_clear(FlowId::of(7)) && flows.is_clear(FlowId::of(9)));
        assert_eq!(drain(&mut flows, &packets), [8, 8]);
        flows.obey(&packets, Filter::EMPTY);
        assert_eq!(drain(&mut flows, &packets), [7]);
    }

    #[test]
    fn it_holds_back_whoever_shares_its_queue() {
        let (mut flows, mut packets) = (flows(1), Packets::default());
        flows.obey(&packets, filter(&[7]));
        for flow in [7, 8] {
            let handle = frame(&mut packets, flow, 0, 1500, 0);
            flows.push(&mut packets, handle, &HORIZONS);
        }
        assert_eq!(drain(&mut flows, &packets), [0; 0]);
    }

    #[test]
    fn who_makes_a_queue_long_is_paused_once_and_let_go_when_it_is_shorter() {
        let (mut flows, mut packets) = (flows(2), Packets::default());
        let mut push = |flows: &mut Flows, flow| {
            let handle = frame(&mut packets, flow, 1, 1500, 0);
            flows.push(&mut packets, handle, &HORIZONS)
        };
        let told: Vec<bool> = (0..12).map(|_| push(&mut flows, 7).is_some()).collect();
        assert_eq!(told.iter().position(|told| *told), Some(10), "ten are the link's horizon");
        assert!(!told[11], "it was paused already");
        // Two that may send have a half of it each.
        let told: Vec<bool> = (0..6).map(|_| push(&mut flows, 8).is_some()).collect();
        assert_eq!(told, [false, false, false, false, false, true]);
        let mut resumed = Vec::new();
        let mut when = Vec::new();
        while flows.pull(&packets, &HORIZONS, &mut resumed).is_some() {
            let left = flows.bytes() / LONGEST;
            when.extend(resumed.drain(..).map(|it| (left, it)));
        }
        let paused = |flow| Paused { input: 1, flow: FlowId::of(flow) };
        assert_eq!(when, [(17, paused(8)), (6, paused(7))]);
    }

    proptest! {
        /// Whatever comes and is paused: no frame is lost, flows keep their order, each flow has
        /// one queue at a time, and whoever was paused is let go.
        #[test]
        fn flows_keep_their_order_and_are_all_let_go(
            queues in 1..6_u32,
            steps in prop::collection::vec((0..12_u32, 64..=1500_u32, 0..6_u32), 1..300),
        ) {
            let (mut flows, mut packets) = (flows(queues), Packets::default());
            let (mut pushed, mut pulled) = (BTreeMap::new(), BTreeMap::new());
            let mut paused: Vec<Paused> = Vec::new();
            let (mut resumed, mut left) = (Vec::new(), 0_i64);
            let mut pull = |flows: &mut Flows, packets: &Packets, paused: &mut Vec<Paused>| {
                let Some(handle) = flows.pull(packets, &HORIZONS, &mut resumed) else {
                    return Ok(false);
                };
                for it in resumed.drain(..) {
                    let place = paused.iter().position(|other| *other == it);
                    prop_assert!(place.is_some(), "it was not paused");
                    paused.swap_remove(place.unwrap());
                }
                let Packet { hash, order, .. } = packets[handle];
                let next = pulled.entry(hash).or_insert(0);
                prop_assert_eq!(order, *next);
                *next += 1;
                Ok(true)
            };
            for (flow, bytes, what) in steps {
                match what {
                    0..=2 => {
                        let order = pushed.entry(flow).or_insert(0);
                        let handle = frame(&mut packets, flow, flow % 2, bytes, *order);
                        *order += 1;
                        left += 1;
                        paused.extend(flows.push(&mut packets, handle, &HORIZONS));
                    }
                    3 => flows.obey(&packets, filter(&[flow, flow + 1])),
                    _ => left -= i64::from(pull(&mut flows, &packets, &mut paused)?),
                }
                prop_assert_eq!(flows.iter(&packets).count() as i64, left);
                let bytes: u64 = flows.iter(&packets).map(|it| u64::from(packets[it].bytes)).sum();
                prop_assert_eq!(flows.bytes(), bytes);
            }
            flows.obey(&packets, Filter::EMPTY);
            while pull(&mut flows, &packets, &mut paused)? {}
            prop_assert_eq!(&pushed, &pulled);
            prop_assert_eq!(paused, []);
            prop_assert!(flows.seats.is_empty() && flows.filled == 0);
        }
    }
}
