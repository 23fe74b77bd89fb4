//! One port: both ends of its link, its inputs, and what is told of pauses each way.

use alloc::boxed::Box;

use lossless::PortId;
use units::{Class, ClassMap, Instant, Mac, Rng, Span};
use wire::ethernet::Peek;
use wire::{pause, pfc};

use crate::frames::Number;
use crate::input::Input;
use crate::pauses::Pauses;
use crate::transmitter::{SHORTEST, Transmitter};
use crate::{Config, Counters, Link, PortConfig};

#[derive(Debug)]
pub(crate) struct Port {
    pub id: PortId,
    pub link: Link,
    /// The class of frames of which nothing else tells it.
    pub class: Class,
    /// It leads to another switch.
    pub trunk: bool,
    /// For how many quanta its host is paused, and after what time it is told again.
    quanta: u16,
    renewal: Span,
    /// The host's end of the link.
    pub host: Transmitter<Inbound>,
    pub rng: Rng,
    pub inputs: Box<ClassMap<Input>>,
    /// Ours.
    pub output: Transmitter<Outbound>,
    pub pauses: Pauses,
    pub counters: Box<ClassMap<Counters>>,
}

/// What is on its way to the switch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inbound {
    Frame(Number),
    Pause(ClassMap<Option<u16>>),
}

/// What is on its way to a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outbound {
    Frame { number: Number, mark: bool },
    Pause(ClassMap<Option<u16>>),
}

impl Port {
    pub fn new(config: &Config, number: usize, id: PortId) -> Self {
        let PortConfig { link, buffer, longest, class, trunk } = config.ports[number];
        let thresholds = config.thresholds(number);
        let input = |class| match (config.classes.lossy(class), thresholds) {
            (None, Some(thresholds)) => Input::lossless(thresholds, longest),
            _ => Input::lossy(buffer),
        };
        let expiry = config.pfc.expiry(link);
        Self {
            id,
            link,
            class,
            trunk,
            // A quantum is 512 bit times, which are 64 bytes.
            quanta: u16::try_from(link.rate.bytes_in(expiry).div_ceil(64)).unwrap_or(u16::MAX),
            // Twice as often as it must be: it may have to wait for a frame.
            renewal: Span::from_nanos(expiry.as_nanos() / 2),
            host: Transmitter::new(link),
            rng: Rng::new(config.seed ^ (number as u64) << 32),
            inputs: Box::new(ClassMap::from_fn(input)),
            output: Transmitter::new(link),
            pauses: Pauses::default(),
            counters: Box::default(),
        }
    }

    /// The class of a frame that comes by it, as the switch has it (802.1Q §6.9.4).
    pub fn class_of(&self, header: Option<Peek>) -> Class {
        header.and_then(|header| header.tag()).map_or(self.class, |tag| tag.class)
    }

    /// Whether its host has yet to be told of a pause, or of its end.
    pub fn has_news(&self) -> bool {
        self.inputs.0.iter().any(|input| input.news)
    }

    /// Sends what there is to tell its host of pauses.
    pub fn tell(&mut self, now: Instant) {
        let told =
            self.inputs.0.each_mut().map(|input| input.tell(self.quanta, now + self.renewal));
        let told = ClassMap(told);
        paused(&told).for_each(|class| self.counters[class].pauses_sent += 1);
        self.output.send(now, 1, SHORTEST as u32, Outbound::Pause(told));
    }

    /// Its host has told of pauses.
    pub fn obey(&mut self, now: Instant, told: &ClassMap<Option<u16>>) {
        self.pauses.obey(now, self.link, told);
        paused(told).for_each(|class| self.counters[class].pauses_obeyed += 1);
    }
}

/// The classes that are told to pause.
fn paused(told: &ClassMap<Option<u16>>) -> impl Iterator<Item = Class> {
    told.iter()
        .filter(|(_, quanta)| quanta.is_some_and(|quanta| quanta > 0))
        .map(|(class, _)| class)
}

/// What a frame says of pauses, if it is one of them.
pub(crate) fn told(head: &[u8]) -> Option<ClassMap<Option<u16>>> {
    let of_classes = pfc::Frame::parse(head).map(pfc::Frame::told);
    of_classes
        .or_else(|| pause::Frame::parse(head).map(|frame| ClassMap([Some(frame.quanta.get()); 8])))
}

/// From whom a port's pauses come: `02:fa:b0:00:…`, which no host of a lab has.
pub(crate) const fn address(port: usize) -> Mac {
    let [.., high, low] = port.to_be_bytes();
    Mac([0x02, 0xfa, 0xb0, 0x00, high, low])
}
