//! Generator and sink: the front-ends of a switch's ports, all of them served by one thread.
//!
//! ```text
//!   turn:  receiver ─take─▶ Arrivals, Delays        and again, until the load is done
//!          senders  ─put──▶ sequence number, time
//! ```
//!
//! One thread does both by turns, keeps to one core, and never sleeps: neither waits for the core while the other has it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ports::vhost::nic::{Nic, NicConfig};

use super::clock::{Bucket, Clock};
use super::foremost::Foremost;
use super::frames::{Flow, LONGEST, Stamp};
use super::sink::{Carried, Sink};

/// Places in each ring: the most that a virtual machine's can have.
pub const RING: u16 = 1024;

/// How many frames are put, and how many taken, before the other has its turn.
const BURST: usize = 64;

/// How many frames a paced sender that was held up may send at once, and a paced receiver take.
const DEBT: f64 = 256.0;

/// How long a switch that owes frames may be silent before they count as lost.
const SILENCE: Duration = Duration::from_millis(200);

/// How long nothing at all may move while something should.
const PATIENCE: Duration = Duration::from_secs(10);

/// What each card is.
pub const CARD: NicConfig =
    NicConfig { ring: RING, longest: LONGEST as usize, huge: true, timeout: Duration::from_secs(5) };

/// Front-ends of a switch's ports: each sends to the last, which receives.
#[derive(Debug)]
pub struct Ends {
    _foremost: Foremost,
    clock: Clock,
    senders: Vec<Sender>,
    receiver: Nic,
    size: u32,
    flows: u16,
}

#[derive(Debug)]
struct Sender {
    nic: Nic,
    /// Frames that the switch's ring took, ever.
    sent: u64,
}

/// What the ends are to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Frames that each sender sends a second; as many as the switch takes if absent.
    pub offered: Option<f64>,
    /// Frames that the receiver takes a second; as many as come if absent.
    pub taken: Option<f64>,
    /// How long the senders send at least.
    pub duration: Duration,
    /// How many frames they send at least.
    pub frames: u64,
}

/// Why a load came to no end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Broken {
    /// Whoever asked wants no more.
    Interrupted,
    /// The switch neither takes frames nor delivers any.
    Stuck,
}

impl Ends {
    /// Ends of these cards, each of them connected: the last receives what the others send.
    pub fn new(mut cards: Vec<Nic>) -> Self {
        let receiver = cards.pop().expect("a switch has ports");
        let senders = cards.into_iter().map(|nic| Sender { nic, sent: 0 }).collect();
        Self { _foremost: Foremost::here(), clock: Clock::calibrate(), senders, receiver, size: 0, flows: 0 }
    }

    /// The clock by which delays are told.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Makes frames of this size, in so many flows of each sender, and lets the switch learn where the receiver's
    /// addresses are. Flow `n` of a sender goes from an address to one of the receiver's, both of which `flow` tells.
    ///
    /// # Errors
    ///
    /// [`Broken`]
    pub fn prepare(
        &mut self,
        size: u32,
        flows: u16,
        flow: impl Fn(u16, u16) -> Flow,
        stop: &AtomicBool,
    ) -> Result<(), Broken> {
        (self.size, self.flows) = (size, flows);
        for (sender, number) in self.senders.iter_mut().zip(0..) {
            sender.nic.prepare(size as usize, |buffer, frame| {
                frame.write(0, &flow(number, buffer % flows).frame(size));
            });
        }
        self.announce(flow, stop)
    }

    /// Has the receiver send what lies in its ring, a frame from each of its addresses, until each has come once.
    fn announce(&mut self, flow: impl Fn(u16, u16) -> Flow, stop: &AtomicBool) -> Result<(), Broken> {
        let (flows, senders) = (self.flows, self.senders.len() as u16);
        self.receiver.prepare(self.size as usize, |buffer, frame| {
            let (sender, number) = (buffer / flows % senders, buffer % flows);
            let Flow { from, to, .. } = flow(sender, number);
            frame.write(0, &Flow { from: to, to: from, sender, number }.frame(self.size));
        });
        let mut heard = vec![vec![false; flows.into()]; senders.into()];
        let is_all = |heard: &[Vec<bool>]| heard.iter().all(|flows| !flows.contains(&false));
        let began = Clock::now();
        let (silence, patience) = (self.clock.ticks(SILENCE), self.clock.ticks(PATIENCE));
        while !is_all(&heard) {
            let mut to_send = usize::from(RING);
            let mut last = Clock::now();
            while Clock::now() - last < silence && !is_all(&heard) {
                if stop.load(Ordering::Relaxed) {
                    return Err(Broken::Interrupted);
                }
                to_send -= self.receiver.send(to_send.min(BURST), |_| ());
                self.receiver.publish();
                for sender in &mut self.senders {
                    sender.nic.receive(BURST, |frame, _| {
                        let Stamp { sender, flow, .. } = Stamp::read(frame);
                        let of = heard.get_mut(usize::from(sender));
                        if let Some(heard) = of.and_then(|flows| flows.get_mut(usize::from(flow))) {
                            *heard = true;
                            last = Clock::now();
                        }
                    });
                    sender.nic.publish();
                }
            }
            if last - began > patience {
                return Err(Broken::Stuck);
            }
        }
        Ok(())
    }

    /// Puts a load on the switch, until it is done and the switch has delivered what it will.
    ///
    /// # Errors
    ///
    /// [`Broken`]
    pub fn run(&mut self, load: &Load, stop: &AtomicBool) -> Result<Carried, Broken> {
        let clock = self.clock;
        let [duration, silence, patience] = [load.duration, SILENCE, PATIENCE].map(|time| clock.ticks(time));
        let began = Clock::now();
        let bucket = |rate: f64| Bucket::new(clock, rate, DEBT, began);
        let mut take = load.taken.map(bucket);
        let mut put = vec![load.offered.map(bucket); self.senders.len()];
        let senders = self.senders.iter().map(|sender| sender.sent);
        let mut sink = Sink::new(self.size, self.flows, senders);
        let before = self.sent();
        let mut moved = began;
        let mut ended = None;
        let (mut last, mut was_busy, mut busy) = (began, false, 0);
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(Broken::Interrupted);
            }
            let now = Clock::now();
            if was_busy && ended.is_none() {
                busy += now - last;
            }
            last = now;
            let most = take.as_mut().filter(|_| ended.is_none()).map_or(BURST, |bucket| bucket.due(now));
            let taken = self.receiver.receive(most.min(BURST), |frame, len| sink.take(frame, len, now));
            if let Some(bucket) = &mut take {
                bucket.done(taken);
            }
            self.receiver.publish();
            let mut sent = 0;
            for (Sender { nic, sent: all }, pace) in self.senders.iter_mut().zip(&mut put) {
                // What the switch does not know whom to give to, it gives to everybody.
                nic.receive(BURST, |_, _| ());
                if ended.is_none() {
                    let now = Clock::now();
                    let most = pace.as_mut().map_or(BURST, |bucket| bucket.due(now));
                    let count = nic.send(most.min(BURST), |frame| {
                        Stamp::write(frame, *all, now);
                        *all += 1;
                    });
                    if let Some(bucket) = pace {
                        bucket.done(count);
                    }
                    sent += count;
                }
                nic.publish();
            }
            was_busy = taken + sent > 0;
            if was_busy {
                moved = now;
            }
            let all = self.sent() - before;
            match ended {
                None if now - began >= duration && all >= load.frames => {
                    ended = Some((now - began, sink.received()));
                }
                Some((elapsed, in_time)) if self.is_settled(all == sink.received(), now - moved, silence) => {
                    let busy = busy as f64 / elapsed as f64;
                    return Ok(sink.told(all, in_time, clock.seconds(elapsed), busy));
                }
                _ if now - moved > patience => return Err(Broken::Stuck),
                _ => {}
            }
        }
    }

    /// Whether the switch has given every buffer back and nothing more will come.
    fn is_settled(&self, is_all: bool, silent: u64, silence: u64) -> bool {
        let mut cards = self.senders.iter().map(|sender| &sender.nic).chain([&self.receiver]);
        (is_all || silent > silence) && cards.all(|nic| nic.on_their_way() == 0)
    }

    fn sent(&self) -> u64 {
        self.senders.iter().map(|sender| sender.sent).sum()
    }
}
