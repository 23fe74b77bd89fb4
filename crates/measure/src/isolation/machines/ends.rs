//! All machines, each a front-end: the victim's and the others', served by one thread.
//!
//! ```text
//!   turn:  another network's rings, victim's rings, the next one's, victim's, …
//! ```
//!
//! The victim's rings are looked at between any two of the others, so that what a frame of its
//! takes is told to some microseconds, however many others there are. Its frames are due at known
//! moments and tell when: one that waits for room in its own ring waits as long as in any other.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use units::Mac;
use vhost::nic::Nic;
use wire::Offload;

use super::watch::{Seen, Watch};
use crate::vhost::clock::Clock;
use crate::vhost::foremost::Foremost;
use crate::vhost::frames::{Flow, Kind, SMALLEST, Stamp};
use crate::vhost::watch::{Broken, Run};

/// How many frames are put, and how many taken, before another ring has its turn.
const BURST: usize = 64;

/// All machines.
#[derive(Debug)]
pub struct Ends {
    _foremost: Foremost,
    clock: Clock,
    victim: Nic,
    witness: Nic,
    senders: Vec<Nic>,
    receivers: Vec<Nic>,
    /// Frames that the victim sent, ever.
    sent: u64,
}

/// What they are to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Frames that the victim sends a second; as many as the switch takes if absent.
    pub victim: Option<f64>,
    /// Whether others send.
    pub others: bool,
    /// How long.
    pub lasts: Duration,
}

/// What they did.
#[derive(Clone, Debug)]
pub struct Told {
    /// Frames that the victim sent.
    pub sent: u64,
    /// What became of them.
    pub seen: Seen,
    /// What came of the others while they sent.
    pub others: Others,
    /// How long that was, in seconds.
    pub seconds: f64,
}

/// What the others did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others {
    /// Frames that came.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How often one was about to send, and how often its ring had no room for as much as it would.
    pub tries: u64,
    pub held: u64,
}

impl Ends {
    /// Ends of these cards, each of them connected: what the first sends the second receives. The
    /// others send `frame(number)` to whoever that is for.
    pub fn new(
        mut victim: Nic,
        witness: Nic,
        mut senders: Vec<Nic>,
        receivers: Vec<Nic>,
        addresses: [Mac; 2],
        frame: impl Fn(usize) -> Vec<u8>,
    ) -> Self {
        let [from, to] = addresses;
        let its = Flow { number: 0, sender: 0, from, to }.frame(SMALLEST);
        victim.prepare(its.len(), Offload::NONE, |_, buffer| buffer.write(0, &its));
        for (number, nic) in senders.iter_mut().enumerate() {
            let its = frame(number);
            nic.prepare(its.len(), Offload::NONE, |_, buffer| buffer.write(0, &its));
        }
        let (clock, foremost) = (Clock::calibrate(), Foremost::here());
        Self { _foremost: foremost, clock, victim, witness, senders, receivers, sent: 0 }
    }

    /// The clock by which delays are told.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Puts a load on the switch, until it is done and the switch has delivered what it will.
    ///
    /// # Errors
    ///
    /// [`Broken`]
    pub fn run(&mut self, load: &Load, stop: &AtomicBool) -> Result<Told, Broken> {
        let clock = self.clock;
        let lasts = clock.ticks(load.lasts);
        let mut run = Run::begin(clock, stop);
        let (begin, before) = (run.turn()?, self.sent);
        let mut victim = Victim {
            period: load.victim.map(|rate| clock.rate / rate),
            begin,
            first: before,
            watch: Watch::new(clock, begin, lasts, before),
        };
        let (mut others, mut in_time) = (Others::default(), Others::default());
        loop {
            run.turn()?;
            let is_over = run.is_over();
            let mut frames = self.serve(&mut victim, is_over);
            for place in 0..self.senders.len().max(self.receivers.len()) {
                frames += self.serve_other(place, load.others && !is_over, &mut others);
                frames += self.serve(&mut victim, is_over);
            }
            run.moved(frames);
            if !is_over {
                if run.lasted() >= lasts {
                    in_time = others;
                    run.end();
                }
                continue;
            }
            let is_all = self.sent - before == victim.watch.received();
            // A switch that loses frames says so by its silence.
            if (is_all || run.is_silent()) && self.is_settled() {
                let (sent, seconds) = (self.sent - before, run.seconds());
                return Ok(Told { sent, seen: victim.watch.seen(), others: in_time, seconds });
            }
        }
    }

    /// Looks at the victim's rings. Returns how many frames moved.
    #[inline]
    fn serve(&mut self, victim: &mut Victim, is_over: bool) -> usize {
        let tag = Kind::Datagram.tag();
        let now = Clock::now();
        let watch = &mut victim.watch;
        watch.look(now);
        let taken = self.witness.receive(BURST, |frame, _| {
            let Stamp { sequence, ticks, .. } = Stamp::read(frame, tag);
            watch.take(sequence, ticks, now);
        });
        self.witness.publish();
        self.victim.receive(BURST, |_, _| ());
        let mut sent = 0;
        if !is_over {
            let most = victim.due(self.sent, now);
            sent = self.victim.send(most, |_, frame| {
                let due = victim.due_at(self.sent, now);
                Stamp::write(frame, tag, self.sent, due);
                victim.watch.send(due);
                self.sent += 1;
            });
        }
        self.victim.publish();
        taken + sent
    }

    /// Looks at the rings of one sender and of one receiver of the others. Returns as above.
    #[inline]
    fn serve_other(&mut self, place: usize, sends: bool, others: &mut Others) -> usize {
        let mut frames = 0;
        if let Some(nic) = self.receivers.get_mut(place) {
            let taken = nic.receive(BURST, |_, len| others.bytes += len as u64);
            others.frames += taken as u64;
            nic.publish();
            frames += taken;
        }
        if let Some(nic) = self.senders.get_mut(place) {
            nic.receive(BURST, |_, _| ());
            if sends {
                let sent = nic.send(BURST, |_, _| ());
                others.tries += 1;
                others.held += u64::from(sent < BURST);
                frames += sent;
            }
            nic.publish();
        }
        frames
    }

    /// Whether the switch has given every buffer back.
    fn is_settled(&self) -> bool {
        self.senders.iter().chain([&self.victim]).all(|nic| nic.on_their_way() == 0)
    }
}

/// What the victim has to send.
#[derive(Debug)]
struct Victim {
    /// The time between two frames, in ticks; none if it sends whatever is taken.
    period: Option<f64>,
    begin: u64,
    /// The number of its first frame.
    first: u64,
    watch: Watch,
}

impl Victim {
    /// How many frames are due by now, where this number is the next.
    fn due(&self, next: u64, now: u64) -> usize {
        let Some(period) = self.period else { return BURST };
        let all = ((now - self.begin) as f64 / period) as u64 + 1;
        let due = all.saturating_sub(next - self.first);
        (due as usize).min(BURST)
    }

    /// When a frame is due.
    fn due_at(&self, number: u64, now: u64) -> u64 {
        self.period
            .map_or(now, |period| self.begin + ((number - self.first) as f64 * period) as u64)
    }
}
