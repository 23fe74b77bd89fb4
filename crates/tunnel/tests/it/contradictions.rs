//! A far end that says anything at all, in the right incarnations: what is kept for it is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU16, NonZeroU64};

use proptest::collection::vec;
use proptest::prelude::*;
use tunnel::message::{CreditGrant, Ends, Message, Nack, VERSION, WindowProbe};
use tunnel::{
    Admission, Arrival, Data, Epoch, Hello, Incarnation, Lane, Payload, Report, Session,
    SessionConfig, Stream, Unsolicited,
};
use tunnel::{Answer, Return};
use units::{Class, ClassSet, Instant, Rng, Span};

const CONFIG: SessionConfig = SessionConfig {
    unsolicited: 3000,
    is_granted: false,
    stream_window: 65_535,
    max_in_flight: 200_000,
    max_frames: 50,
    max_streams: 2,
    datagram: 1500,
    reliable: ClassSet::ALL,
    credit: ClassSet::ALL,
};

/// Frames begin at multiples of this, so that no more than these fit into the windows of all
/// streams.
const STEP: u32 = 1000;
const MOST_HELD: usize = CONFIG.max_streams * (CONFIG.stream_window / STEP + 1) as usize;

/// What is kept of streams that we send on: a few frames of each at least.
const MOST_KEPT: usize = CONFIG.max_frames + 4 * LABELS as usize * 2;

const LABELS: u32 = 6;

#[derive(Clone, Debug)]
enum Event {
    Data {
        number: u32,
        stream: Stream,
        offset: u32,
        len: NonZeroU16,
        marked: bool,
        is_kept: bool,
    },
    Report {
        marked: u32,
        came: Vec<[u32; 2]>,
        marks: Vec<[u32; 2]>,
        grants: Vec<CreditGrant>,
        nacks: Vec<Nack>,
        window_probes: Vec<WindowProbe>,
        returns: Vec<Return>,
    },
    Hello {
        again: bool,
        reliable: ClassSet,
        unsolicited: Unsolicited,
    },
    /// A hello that does not name us.
    Stray {
        from: u64,
        to: Option<u64>,
    },
    Send {
        stream: Stream,
        len: NonZeroU16,
    },
    Invite(Stream),
    LookAgain,
    Take,
    Wait(Span),
}

fn streams() -> impl Strategy<Value = Stream> {
    (0..LABELS, 0_u8..2)
        .prop_map(|(label, class)| Stream { label, class: Class::from_low_bits(class) })
}

fn numbers() -> impl Strategy<Value = u32> {
    prop_oneof![40 => 0_u32..300, 20 => (0_u32..200).prop_map(|step| step * STEP), 1 => any::<u32>()]
}

fn events() -> impl Strategy<Value = Event> {
    let len = || (1..=STEP as u16).prop_map(|len| NonZeroU16::new(len).unwrap());
    let flags = (any::<bool>(), prop::bool::weighted(0.9));
    let data = (numbers(), streams(), 0_u32..200, len(), flags).prop_map(
        |(number, stream, step, len, (marked, is_kept))| Event::Data {
            number,
            stream,
            offset: step * STEP,
            len,
            marked,
            is_kept,
        },
    );
    let grant = || (streams(), numbers(), numbers());
    let nack = (grant(), any::<bool>()).prop_map(|((stream, number, from), is_early)| Nack {
        stream,
        number,
        from,
        is_early,
    });
    let back = grant().prop_map(|(stream, from, until)| Return {
        stream,
        from,
        until,
        answer: Answer::Gone,
    });
    let grant =
        grant().prop_map(|(stream, consumed, limit)| CreditGrant { stream, consumed, limit });
    let ask = (streams(), numbers()).prop_map(|(stream, sent)| WindowProbe { stream, sent });
    let ranges = || vec((numbers(), numbers()).prop_map(|(first, last)| [first, last]), 0..4);
    let marks = (any::<u32>(), ranges());
    let asked = (vec(ask, 0..6), vec(back, 0..3));
    let report = (marks, ranges(), vec(grant, 0..4), vec(nack, 0..3), asked).prop_map(
        |((marked, marks), came, grants, nacks, (window_probes, returns))| Event::Report {
            marked,
            came,
            marks,
            grants,
            nacks,
            window_probes,
            returns,
        },
    );
    let hello = (prop::bool::weighted(0.8), any::<[u8; 2]>(), numbers()).prop_map(
        |(again, classes, bytes)| {
            let [reliable, unlimited] = classes.map(ClassSet::from_bits);
            Event::Hello { again, reliable, unsolicited: Unsolicited { bytes, unlimited } }
        },
    );
    let stray = (any::<u64>(), prop::option::of(any::<u64>()))
        .prop_map(|(from, to)| Event::Stray { from, to });
    let send = (streams(), len()).prop_map(|(stream, len)| Event::Send { stream, len });
    let memory_available = streams().prop_map(Event::Invite);
    let wait = (0_u64..3000).prop_map(|us| Event::Wait(Span::from_micros(us)));
    prop_oneof![20 => data, 4 => report, 1 => hello, 1 => stray, 8 => send, 1 => Just(Event::Take), 1 => memory_available, 1 => Just(Event::LookAgain), 2 => wait]
}

/// A frame that has come, and its length.
type Came = (u32, NonZeroU16);

/// A frame that was handed on: its stream, in which epoch, where it begins and its length.
type Delivered = (Stream, Epoch, u64, NonZeroU16);

/// One end, and what its owner has lent it.
struct Owner {
    session: Session<u32, Came>,
    now: Instant,
    /// The incarnations of the session and of the far end.
    me: Incarnation,
    peer: Incarnation,
    count: u32,
    /// Frames that came and that the session keeps.
    held: BTreeSet<u32>,
    /// Frames that were handed on and are not taken.
    delivered: Vec<Delivered>,
    /// Frames that were sent and are not known to be taken.
    sent: BTreeSet<u32>,
    /// Streams of which the far end was told, in its incarnation.
    advertised: BTreeSet<Stream>,
}

impl Owner {
    fn new() -> Self {
        let now = Instant::ZERO + Span::from_micros(1);
        let me = Incarnation::random(&mut Rng::new(1));
        let mut owner = Self {
            session: Session::new(now, CONFIG, Rng::new(1)),
            now,
            me,
            peer: Incarnation(NonZeroU64::MIN),
            count: 0,
            held: BTreeSet::new(),
            delivered: Vec::new(),
            sent: BTreeSet::new(),
            advertised: BTreeSet::new(),
        };
        let unsolicited = Unsolicited { bytes: 30_000, unlimited: ClassSet::NONE };
        owner.handle(Event::Hello { again: true, reliable: ClassSet::ALL, unsolicited });
        owner
    }

    fn handle(&mut self, event: Event) {
        let Self { session, now, held, delivered, sent, .. } = self;
        let ends = Ends { from: self.peer.tag(), to: self.me.tag() };
        match event {
            Event::Data { number, stream, offset, len, marked, is_kept } => {
                let data = Data::whole(ends, number, stream, offset, len);
                let brought = if is_kept {
                    self.count += 1;
                    held.insert(self.count);
                    Payload::Frame((self.count, len))
                } else {
                    Payload::NoMemory
                };
                session.handle_data(*now, &data, marked, brought, |arrival| {
                    note(arrival, held, delivered)
                });
            }
            Event::Invite(stream) => session.memory_available(stream),
            Event::LookAgain => session.look_again(),
            Event::Report { marked, came, marks, grants, nacks, window_probes, returns } => {
                let report =
                    Report { ends, marked, came, marks, grants, nacks, window_probes, returns };
                session.handle_report(*now, &report, |frame, _| {
                    assert!(sent.remove(&frame), "a frame is completed once");
                });
            }
            Event::Hello { again, reliable, unsolicited } => {
                let mut hello = Hello {
                    from: self.peer,
                    to: Some(self.me),
                    versions: [VERSION; 2],
                    reliable,
                    unsolicited,
                };
                if !again {
                    hello.from = Incarnation(self.peer.0.checked_add(1).unwrap());
                    hello.to = None;
                    session.handle_hello(*now, &hello, |_| panic!("it has not shown itself"));
                    *now += Span::from_millis(1);
                    hello.to =
                        std::iter::from_fn(|| session.poll_transmit(*now)).find_map(|said| {
                            match said {
                                Message::Hello(said) if said.to == Some(hello.from) => {
                                    Some(said.from)
                                }
                                _ => None,
                            }
                        });
                    (self.peer, self.me) = (hello.from, hello.to.expect("it is answered"));
                    self.advertised.clear();
                }
                session.handle_hello(*now, &hello, |(frame, _)| {
                    assert!(held.remove(&frame), "a frame comes back once");
                });
            }
            Event::Stray { from, to } => {
                let incarnation = |number| NonZeroU64::new(number).map(Incarnation);
                let from = incarnation(from).unwrap_or(self.me);
                let to = to.and_then(incarnation);
                let unsolicited = Unsolicited::default();
                let hello = Hello {
                    from,
                    to,
                    versions: [VERSION; 2],
                    reliable: ClassSet::ALL,
                    unsolicited,
                };
                session
                    .handle_hello(*now, &hello, |_| panic!("nothing comes back for a stray hello"));
            }
            Event::Send { stream, len } => {
                if session.admit(Lane(stream.label as u16 % 4), stream, len, false) == Admission::Go
                {
                    self.count += 1;
                    sent.insert(self.count);
                    session.send(*now, stream, len, self.count);
                }
            }
            Event::Take => {
                delivered
                    .drain(..)
                    .for_each(|(stream, from, offset, _)| session.consumed(stream, from, offset));
            }
            Event::Wait(span) => *now += span,
        }
        self.act();
    }

    /// Bytes that wait for the receiver of a stream for which the most do.
    fn waiting(&self) -> u32 {
        let mut waiting = BTreeMap::new();
        for (stream, .., len) in &self.delivered {
            *waiting.entry(stream).or_default() += u32::from(len.get());
        }
        waiting.into_values().max().unwrap_or(0)
    }

    /// Does what the session wants, of which there is an end.
    fn act(&mut self) {
        let Self { session, now, held, delivered, .. } = self;
        session.handle_timeout(*now, |arrival| note(arrival, held, delivered));
        let retransmitted = (0..1000).take_while(|_| session.retransmit(*now).is_some()).count();
        assert!(retransmitted < 1000);
        let mut said = 0;
        while let Some(message) = session.poll_transmit(*now) {
            said += 1;
            assert!(said < 100, "it says ever more");
            if let Message::Report(report) = message {
                self.advertised.extend(report.grants.iter().map(|grant| grant.stream));
            }
        }
    }
}

/// A frame comes back from the session.
fn note(arrival: Arrival<Came>, held: &mut BTreeSet<u32>, delivered: &mut Vec<Delivered>) {
    let (Arrival::Deliver { frame, .. } | Arrival::Release(frame)) = arrival else { return };
    assert!(held.remove(&frame.0), "a frame comes back once");
    if let Arrival::Deliver { stream, from, offset, frame: (_, len) } = arrival {
        delivered.push((stream, from, offset, len));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_kept_for_a_far_end_is_bounded(events in vec(events(), 0..800)) {
        let mut owner = Owner::new();
        for event in events {
            owner.handle(event);
            prop_assert!(owner.advertised.len() <= CONFIG.max_streams, "{:?}", owner.advertised);
            prop_assert!(owner.held.len() <= MOST_HELD, "{} frames are held", owner.held.len());
            prop_assert!(owner.waiting() <= CONFIG.stream_window, "{} bytes wait", owner.waiting());
            // What was given back is kept without its frame until that is confirmed.
            prop_assert!(owner.session.outstanding() >= owner.sent.len());
            prop_assert!(owner.session.outstanding() <= MOST_KEPT);
        }
    }
}
