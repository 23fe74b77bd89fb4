//! Generator and sink: the front-ends of a switch's ports, all of them served by one thread.
//!
//! ```text
//!   turn:  receiver ─take─▶ Arrivals, Delays        and again, until the load is done
//!          senders  ─put──▶ sequence number, time
//! ```
//!
//! Beside them there may be a stalled machine, to which a part of all frames goes. It takes nothing
//! while a load is on, and everything afterwards: so every buffer comes back.
//!
//! One thread does both by turns, keeps to one core, and never sleeps: neither waits for the core
//! while the other has it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use units::Mac;
use vhost::nic::{Nic, NicConfig};

use super::clock::{Bucket, Clock};
use super::foremost::Foremost;
use super::frames::{Flow, Kind, STRANGER, Stamp};
use super::sink::{Carried, Sink};
use super::watch::{Broken, Run, SILENCE};

/// Places in each ring: the most that a virtual machine's can have.
const RING: u16 = 1024;

/// Places in each ring of large frames, as many as QEMU gives a machine if nobody says how many: 16
/// MiB of frames.
const LARGE_RING: u16 = 256;

/// One in so many of a sender's buffers is for a stalled machine.
const PART: u16 = 16;

/// How many frames are put, and how many taken, before the other has its turn.
const BURST: usize = 64;

/// How many frames a paced sender that was held up may send at once, and a paced receiver take.
const DEBT: f64 = 256.0;

/// What each card is whose frames are of this kind.
pub const fn card(kind: Kind) -> NicConfig {
    let (ring, offload) = match kind {
        Kind::Datagram => (RING, false),
        Kind::Segment => (LARGE_RING, true),
    };
    let longest = kind.longest() as usize;
    NicConfig { ring, longest, offload, huge: true, timeout: Duration::from_secs(5) }
}

/// How many flows a sender can have, one for each place in its ring that is not for a stalled
/// machine.
pub const fn most_flows(kind: Kind, stalled: bool) -> u16 {
    let ring = card(kind).ring;
    if stalled { ring - ring / PART } else { ring }
}

/// Whether a buffer is one of those that may be for a stalled machine.
#[inline]
const fn is_in_part(buffer: u16) -> bool {
    buffer % PART == PART - 1
}

/// Front-ends of a switch's ports.
#[derive(Debug)]
pub struct Ends {
    _foremost: Foremost,
    clock: Clock,
    senders: Vec<Sender>,
    receiver: Nic,
    stalled: Option<Nic>,
    traffic: Traffic,
}

/// What senders send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Bytes a frame.
    pub size: u32,
    /// Flows of each sender.
    pub flows: u16,
    /// The address of a stalled machine, if one in 16 buffers is for it.
    pub stalled: Option<Mac>,
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

impl Ends {
    /// Ends of these cards, each of them connected: what the first send the second receives.
    pub fn new(senders: Vec<Nic>, receiver: Nic, stalled: Option<Nic>) -> Self {
        let senders = senders.into_iter().map(|nic| Sender { nic, sent: 0 }).collect();
        let (clock, traffic) = (Clock::calibrate(), Traffic::default());
        Self { _foremost: Foremost::here(), clock, senders, receiver, stalled, traffic }
    }

    /// The clock by which delays are told.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Makes frames, and lets the switch learn where the receiver's addresses are. Flow `n` of a
    /// sender goes from an address to one of the receiver's, both of which `flow` tells.
    ///
    /// # Errors
    ///
    /// [`Broken`]
    pub fn prepare(
        &mut self,
        traffic: Traffic,
        flow: impl Fn(u16, u16) -> Flow,
        stop: &AtomicBool,
    ) -> Result<(), Broken> {
        self.traffic = traffic;
        let Traffic { size, flows, stalled } = traffic;
        let offload = Kind::of(size).offload();
        for (sender, number) in self.senders.iter_mut().zip(0..) {
            sender.nic.prepare(size as usize, offload, |buffer, frame| {
                let flow = match stalled {
                    None => flow(number, buffer % flows),
                    Some(_) => flow(number, (buffer - buffer / PART) % flows),
                };
                let to_stalled = stalled.filter(|_| is_in_part(buffer));
                let flow = to_stalled.map_or(flow, |to| Flow { to, sender: STRANGER, ..flow });
                frame.write(0, &flow.frame(size));
            });
        }
        self.announce(flow, stop)
    }

    /// Has the receiver send what lies in its ring, a frame from each of its addresses, until each
    /// has come once.
    fn announce(
        &mut self,
        flow: impl Fn(u16, u16) -> Flow,
        stop: &AtomicBool,
    ) -> Result<(), Broken> {
        let (Traffic { size, flows, .. }, senders) = (self.traffic, self.senders.len() as u16);
        let kind = Kind::of(size);
        let (ring, tag) = (card(kind).ring, kind.tag());
        self.receiver.prepare(size as usize, kind.offload(), |buffer, frame| {
            let (sender, number) = (buffer / flows % senders, buffer % flows);
            let Flow { from, to, .. } = flow(sender, number);
            frame.write(0, &Flow { from: to, to: from, sender, number }.frame(size));
        });
        let mut heard = vec![vec![false; flows.into()]; senders.into()];
        let is_all = |heard: &[Vec<bool>]| heard.iter().all(|flows| !flows.contains(&false));
        let silence = self.clock.ticks(SILENCE);
        // All of it together takes no longer than a run may stand still.
        let mut run = Run::begin(self.clock, stop);
        while !is_all(&heard) {
            let mut to_send = usize::from(ring);
            let mut last = run.turn()?;
            while !is_all(&heard) {
                let now = run.turn()?;
                if now - last > silence {
                    break;
                }
                to_send -= self.receiver.send(to_send.min(BURST), |_, _| ());
                self.receiver.publish();
                for sender in &mut self.senders {
                    sender.nic.receive(BURST, |frame, _| {
                        let Stamp { sender, flow, .. } = Stamp::read(frame, tag);
                        let of = heard.get_mut(usize::from(sender));
                        if let Some(heard) = of.and_then(|flows| flows.get_mut(usize::from(flow))) {
                            *heard = true;
                            last = now;
                        }
                    });
                    sender.nic.publish();
                }
                self.stalled.as_mut().map(discard);
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
        // Asked once, and not of every frame.
        match self.traffic.stalled {
            None => self.put::<false>(load, stop),
            Some(_) => self.put::<true>(load, stop),
        }
    }

    /// The same; `STALLED` if a part of all frames is for a stalled machine.
    fn put<const STALLED: bool>(
        &mut self,
        load: &Load,
        stop: &AtomicBool,
    ) -> Result<Carried, Broken> {
        let clock = self.clock;
        let duration = clock.ticks(load.duration);
        let mut run = Run::begin(clock, stop);
        let began = run.turn()?;
        let bucket = |rate: f64| Bucket::new(clock, rate, DEBT, began);
        let mut take = load.taken.map(bucket);
        let mut put = vec![load.offered.map(bucket); self.senders.len()];
        let senders = self.senders.iter().map(|sender| sender.sent);
        let mut sink = Sink::new(self.traffic.size, self.traffic.flows, senders);
        let (before, mut to_stalled) = (self.sent(), 0);
        let tag = Kind::of(self.traffic.size).tag();
        let mut in_time = 0;
        loop {
            let now = run.turn()?;
            let most =
                take.as_mut().filter(|_| !run.is_over()).map_or(BURST, |bucket| bucket.due(now));
            let taken =
                self.receiver.receive(most.min(BURST), |frame, len| sink.take(frame, len, now));
            if let Some(bucket) = &mut take {
                bucket.done(taken);
            }
            self.receiver.publish();
            let mut sent = 0;
            for (Sender { nic, sent: all }, pace) in self.senders.iter_mut().zip(&mut put) {
                // What the switch does not know whom to give to, it gives to everybody.
                nic.receive(BURST, |_, _| ());
                if !run.is_over() {
                    let now = Clock::now();
                    let most = pace.as_mut().map_or(BURST, |bucket| bucket.due(now));
                    let first = *all;
                    let count = nic.send(most.min(BURST), |buffer, frame| {
                        if !(STALLED && is_in_part(buffer)) {
                            Stamp::write(frame, tag, *all, now);
                            *all += 1;
                        }
                    });
                    let to_receiver = *all - first;
                    if let Some(bucket) = pace {
                        bucket.done(to_receiver as usize);
                    }
                    to_stalled += count as u64 - to_receiver;
                    sent += count;
                }
                nic.publish();
            }
            let stalled = self.stalled.as_mut().filter(|_| !STALLED || run.is_over());
            let recovered = stalled.map_or(0, discard);
            run.moved(taken + sent + recovered);
            let all = self.sent() - before;
            let is_all = all == sink.received();
            if !run.is_over() {
                if run.lasted() >= duration && all >= load.frames {
                    in_time = sink.received();
                    run.end();
                }
            } else if recovered == 0 && (is_all || run.is_silent()) && self.is_settled() {
                let told = sink.told(all, in_time, run.seconds(), run.busy());
                return Ok(Carried { to_stalled, ..told });
            }
        }
    }

    /// Whether the switch has given every buffer back.
    fn is_settled(&self) -> bool {
        let mut cards = self.senders.iter().map(|sender| &sender.nic).chain([&self.receiver]);
        cards.all(|nic| nic.on_their_way() == 0)
    }

    fn sent(&self) -> u64 {
        self.senders.iter().map(|sender| sender.sent).sum()
    }
}

/// Takes what there is for a machine that looks at nothing. Returns how many frames.
fn discard(nic: &mut Nic) -> usize {
    let taken = nic.receive(BURST, |_, _| ());
    nic.publish();
    taken
}
