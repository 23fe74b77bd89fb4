//! What comes out of a switch, and what is told of it.

use vhost::nic::Frame;

use super::arrivals::Arrivals;
use super::delays::Delays;
use super::frames::{Kind, Stamp};

/// What the ends did.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Frames for the receiver that the switch's rings took.
    pub sent: u64,
    /// Frames for a stalled machine that they took.
    pub to_stalled: u64,
    /// Different frames that came.
    pub received: u64,
    /// Of those, the ones that came while others were still sent.
    pub in_time: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Frames that came after a later one of their flow.
    pub out_of_order: u64,
    /// Frames that came and were nobody's here.
    pub strangers: u64,
    /// How long frames were sent, in seconds.
    pub seconds: f64,
    /// The share of that time in which there was something to put or to take.
    pub busy: f64,
    /// How long each was on its way, in ticks of the clock.
    pub delays: Delays,
}

/// What comes.
pub struct Sink {
    size: usize,
    tag: usize,
    flows: u16,
    senders: Vec<Arrivals>,
    strangers: u64,
    delays: Delays,
}

impl Carried {
    /// Frames that came a second while others were sent.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.in_time as f64 / self.seconds } else { 0.0 }
    }
}

impl Sink {
    /// Nothing has come yet of frames of this size in so many flows of each sender, which has sent
    /// so many before.
    pub fn new(size: u32, flows: u16, sent: impl Iterator<Item = u64>) -> Self {
        let senders = sent.map(|sent| Arrivals::new(flows.into(), sent)).collect();
        let tag = Kind::of(size).tag();
        Self { size: size as usize, tag, flows, senders, strangers: 0, delays: Delays::default() }
    }

    /// Books a frame of this length that came.
    #[inline]
    pub fn take(&mut self, frame: Frame<'_>, len: usize, now: u64) {
        let Stamp { sender, flow, sequence, ticks } = Stamp::read(frame, self.tag);
        match self.senders.get_mut(usize::from(sender)) {
            Some(arrivals) if flow < self.flows && len == self.size => {
                arrivals.book(flow.into(), sequence);
                self.delays.book(now.saturating_sub(ticks));
            }
            _ => self.strangers += 1,
        }
    }

    /// Different frames that came.
    pub fn received(&self) -> u64 {
        self.senders.iter().map(|arrivals| arrivals.received).sum()
    }

    /// What is told of so many frames that were sent in so many seconds, of which so many came
    /// meanwhile.
    pub fn told(self, sent: u64, in_time: u64, seconds: f64, busy: f64) -> Carried {
        let sum = |one: fn(&Arrivals) -> u64| self.senders.iter().map(one).sum();
        Carried {
            sent,
            to_stalled: 0,
            received: self.received(),
            in_time,
            duplicates: sum(|arrivals| arrivals.duplicates),
            out_of_order: sum(|arrivals| arrivals.out_of_order),
            strangers: self.strangers,
            seconds,
            busy,
            delays: self.delays,
        }
    }
}
