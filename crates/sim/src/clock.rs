//! The clock that events move, and what events there are.

use units::Instant;

use crate::events::{EventList, Key};
use crate::packet::{Handle, Packets, Queue};
use crate::time::Time;

/// What happens, in three pieces of 32 bits: copies with a tag of one byte cost a simulation 7 % of
/// its speed.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Event {
    /// A frame's last bit has come through the link to this port.
    Arrive { port: u32, packet: Handle },
    /// This port's transmitter is free again.
    Ready { port: u32 },
    /// What a PFC frame says takes effect on this port's transmitter: of these lanes, those in
    /// `paused` stop.
    Obey { port: u32, lanes: u8, paused: u8 },
    /// A pause that this port has asked for is about to run out.
    Renew { port: u32, lane: u8 },
    /// A pause of this port's transmitter runs out.
    Expire { port: u32, lane: u8 },
    /// What a machine's stack has sent reaches its virtual NIC.
    Send { machine: u32, burst: Burst },
    /// The same, where it has waited for its turn.
    Leave { machine: u32, burst: Burst },
    /// A machine's virtual NIC that has a rate may send again.
    Out { machine: u32 },
    /// Something falls due in a host's virtual switch.
    Tick { host: u32 },
    /// A host's virtual switch has time for a frame again.
    Carry { host: u32 },
    /// Something falls due in a TCP endpoint.
    Timer { end: u32 },
    /// A workload's own.
    Work { workload: u16, what: u32 },
    /// A UDP flow's next datagram.
    Pace { flow: u32 },
    /// A way whose window is paced may send.
    Allow { way: u32 },
    /// A host reports what has come by a way.
    Report { host: u32, way: u32 },
    /// A way may have waited for credit for so long that it asks.
    Ask { way: u32 },
    /// A host may grant credit.
    Grant { host: u32 },
    /// This port may tell its peer which flows of a lane are paused.
    Filter { port: u32, lane: u8 },
    /// What this port was told of paused flows takes effect.
    ObeyFilter { port: u32, lane: u8 },
    /// Deadlocks are looked for.
    Watch,
}

const _: () = assert!(size_of::<Event>() == 12, "an event and its key fit half a cache line");

/// Packets that a flow has sent at once: the first, which leads to the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst(pub Handle);

impl Burst {
    pub(crate) fn of(queue: &Queue) -> Option<Self> {
        queue.head().map(Self)
    }
}

/// Who makes an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maker(pub u32);

/// Simulated time, and what is to come.
#[derive(Debug)]
pub(crate) struct Clock<L> {
    now: Time,
    list: L,
    /// How many events each maker has made.
    made: Vec<u64>,
    passed: u64,
}

impl<L: EventList<Event>> Clock<L> {
    /// The beginning, with so many who will make events.
    pub(crate) fn new(list: L, makers: usize) -> Self {
        assert!(makers < 1 << 24, "an event's key has 24 bits for its maker");
        Self { now: Time::ZERO, list, made: vec![0; makers], passed: 0 }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// The time as the pure crates count it.
    #[inline]
    pub(crate) fn instant(&self) -> Instant {
        self.now.instant()
    }

    /// Has something happen, now or later.
    // So that `Wheel::push` has the event where it is made.
    #[inline(always)]
    pub(crate) fn at(&mut self, time: Time, Maker(maker): Maker, event: Event) {
        let made = &mut self.made[maker as usize];
        let order = u64::from(maker) << 40 | *made;
        *made += 1;
        self.list.push(Key { time: time.max(self.now), order }, event);
    }

    /// Goes to the next event.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Event> {
        let (key, event) = self.list.pop()?;
        self.now = key.time;
        self.passed += 1;
        Some(event)
    }

    /// The event that was next is not to happen yet.
    pub(crate) fn put_back(&mut self, event: Event) {
        self.passed -= 1;
        self.at(self.now, Maker(0), event);
    }

    /// Whether nothing is to come.
    pub(crate) fn is_last(&self) -> bool {
        self.list.is_empty()
    }

    /// How many packets are between two places: an event will bring them there. Forgets all events.
    pub(crate) fn under_way(&mut self, packets: &Packets) -> u64 {
        let events = std::iter::from_fn(|| self.list.pop());
        let under_way = events.map(|(_, event)| match event {
            Event::Arrive { .. } => 1,
            Event::Send { burst, .. } | Event::Leave { burst, .. } => {
                std::iter::successors(Some(burst.0), |&it| Queue::after(packets, it)).count() as u64
            }
            _ => 0,
        });
        under_way.sum()
    }

    /// How many events there were.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }
}
