//! Whose turn the thread's time is, where networks share it on terms.
//!
//! ```text
//!           ┌ blue: port 3 ▸ port 7 ▸ … ─┐
//!   shares ─┼ red:  port 4 ▸ …           ├─▶ a visit ─▶ so many ticks ─▶ shares
//!           └ far hosts                  ┘
//! ```
//!
//! A network's *round* is what a turn is for all ports where nobody has terms: every port that may
//! have frames is received from, every one that may take some is transmitted to, every one that was
//! touched is flushed. A network that moved nothing in a whole round rests until the next turn of
//! the plane. So no port is forgotten, and the thread sleeps as it does without terms: once every
//! network has had a round in which nothing moved.
//!
//! A visit ends by what it has cost, and so does a turn of the plane, between any two visits: what
//! has come meanwhile is seen then. Far hosts have a round of their own, of three visits; what of
//! it were a network's frames is charged to that network.

use std::num::NonZeroU16;

use datapath::Network;
use lossless::{PortId, PortSet};
use shares::{Bound, Cost, Holder, Settings, Shares, Terms};
use units::{Instant, Rate, Span};

/// How long a visit takes at the most, but for the frames after which its time is looked at, and
/// how long a turn of the plane does: whoever has a guarantee may wait for both.
pub(crate) const VISIT: Span = Span::from_micros(25);

/// The time that a byte stands for in terms: [`shares`] counts those.
pub(crate) const UNIT_NS: u64 = 16;

/// A visit in those.
const BATCH: u32 = (VISIT.as_nanos() / UNIT_NS) as u32;

/// What a network's first frame is taken to cost until it has been moved: little, so that its
/// deadline is early.
pub(crate) const HEAD: Cost = Cost { bytes: (1_000 / UNIT_NS) as u32, frames: 1 };

/// What is far hosts' and control's whatever networks are guaranteed: a twentieth.
const CONTROL: Span = Span::from_millis(50);

/// What a network is owed of the thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadTerms {
    /// Of each second; none if that is zero.
    pub min: Span,
    /// Its part of the rest.
    pub weight: NonZeroU16,
}

impl Default for ThreadTerms {
    /// No guarantee, and a weight of one.
    fn default() -> Self {
        Self { min: Span::ZERO, weight: NonZeroU16::MIN }
    }
}

impl ThreadTerms {
    fn terms(self) -> Terms {
        let rate = Rate::from_bits_per_sec(self.min.as_nanos() / UNIT_NS * 8);
        Terms {
            min: rate.map_or_else(Bound::default, |rate| Bound::bits(rate, BATCH)),
            max: Bound::default(),
            weight: self.weight,
        }
    }
}

/// Who shares the thread, and how far each has come.
pub(crate) struct Sharing {
    pub(crate) shares: Shares,
    /// What is declared, by network number.
    terms: Vec<ThreadTerms>,
    /// By network number.
    holders: Vec<Option<Holder>>,
    /// By holder.
    pub(crate) members: Vec<Member>,
    pub(crate) far: Holder,
    /// Ports of those that have a turn coming.
    pub(crate) awake: PortSet,
    /// Receivers here were handed frames since far hosts were last maintained.
    pub(crate) delivered: bool,
    /// The ticks at which its time begins.
    pub(crate) begun: u64,
}

/// One of those that share: a network's ports, or the one that far hosts are behind.
#[derive(Default)]
pub(crate) struct Member {
    pub(crate) ports: PortSet,
    stage: Stage,
    /// Ports that are still to be visited in this stage.
    left: PortSet,
    /// Something moved in this round, or flows are left to be asked about.
    pub(crate) moved: bool,
    pub(crate) asking: bool,
    /// The number of its round of questions.
    pub(crate) round: u64,
}

/// What a round does next.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Stage {
    #[default]
    Begin,
    Receive,
    Transmit,
    Flush,
}

/// What was taken, as shares count it.
pub(crate) fn cost(span: Span) -> Cost {
    let bytes = u32::try_from(span.as_nanos() / UNIT_NS).unwrap_or(u32::MAX);
    Cost { bytes: bytes.max(1), frames: 1 }
}

impl Sharing {
    pub(crate) fn new(begun: u64, round: u64) -> Self {
        let mut shares = Shares::new(Settings {
            resolution: Span::from_micros(1),
            window: Span::from_millis(16),
            batch: Cost { bytes: BATCH, frames: u32::MAX },
            frame_bytes: 0,
        });
        let far = shares.add(ThreadTerms { min: CONTROL, ..ThreadTerms::default() }.terms());
        let mut sharing = Self {
            shares,
            terms: Vec::new(),
            holders: Vec::new(),
            members: Vec::new(),
            far,
            awake: PortSet::default(),
            delivered: false,
            begun,
        };
        sharing.member(far).round = round;
        sharing
    }

    pub(crate) fn member(&mut self, holder: Holder) -> &mut Member {
        if holder.index() >= self.members.len() {
            self.members.resize_with(holder.index() + 1, Member::default);
        }
        &mut self.members[holder.index()]
    }

    /// The holder of a network's share.
    pub(crate) fn holder(&mut self, network: Network) -> Holder {
        let place = usize::from(network.number());
        if place >= self.holders.len() {
            self.holders.resize(place + 1, None);
        }
        if let Some(holder) = self.holders[place] {
            return holder;
        }
        let terms = self.terms.get(place).copied().unwrap_or_default();
        let holder = self.shares.add(terms.terms());
        self.holders[place] = Some(holder);
        self.member(holder);
        holder
    }

    /// A port is there.
    pub(crate) fn open(&mut self, id: PortId, network: Option<Network>) {
        let holder = network.map_or(self.far, |network| self.holder(network));
        self.member(holder).ports.insert(id);
    }

    /// A port is gone.
    pub(crate) fn close(&mut self, id: PortId) {
        self.awake.remove(id);
        for member in &mut self.members {
            member.ports.remove(id);
            member.left.remove(id);
        }
    }

    /// Visits to far hosts were a network's for so long.
    pub(crate) fn charge(&mut self, now: Instant, network: Network, span: Span) {
        if let Some(Some(holder)) = self.holders.get(usize::from(network.number())) {
            self.shares.charge(now, *holder, cost(span));
        }
    }

    /// Each network is owed this from now on, by number; those beyond the last nothing.
    pub(crate) fn set(&mut self, now: Instant, terms: Vec<ThreadTerms>) {
        self.terms = terms;
        let mut weights = 0;
        for (place, holder) in self.holders.iter().enumerate() {
            let Some(holder) = *holder else { continue };
            let terms = self.terms.get(place).copied().unwrap_or_default();
            weights += u32::from(terms.weight.get());
            self.shares.set(now, holder, terms.terms());
        }
        // What networks send to far hosts and are sent from there has as much of the rest as what
        // stays here.
        let weight = u16::try_from(weights).ok().and_then(NonZeroU16::new);
        let far = ThreadTerms { min: CONTROL, weight: weight.unwrap_or(NonZeroU16::MIN) };
        self.shares.set(now, self.far, far.terms());
    }
}

impl Member {
    /// The next visit of the round. `None` if that is over.
    pub(crate) fn next(&mut self, sets: [&PortSet; 3]) -> Option<(Stage, PortId)> {
        loop {
            if let Some(id) = self.left.pop_first() {
                return Some((self.stage, id));
            }
            let (stage, set) = match self.stage {
                Stage::Begin => (Stage::Receive, sets[0]),
                Stage::Receive => (Stage::Transmit, sets[1]),
                Stage::Transmit => (Stage::Flush, sets[2]),
                Stage::Flush => {
                    self.stage = Stage::Begin;
                    return None;
                }
            };
            (self.stage, self.left) = (stage, set.within(&self.ports));
        }
    }

    /// A round is over. Whether the next may move something.
    pub(crate) fn end_round(&mut self) -> bool {
        let [moved, asking] = [&mut self.moved, &mut self.asking].map(std::mem::take);
        // As at the end of a turn of the plane that all ports share.
        self.round += u64::from(moved || !asking);
        moved || asking
    }
}
