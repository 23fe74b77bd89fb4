//! One port: what its sender has in the switch, and what waits for its receiver.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use units::{Class, ClassMap, Gcra, Instant, Span};

use crate::account::{Account, Load, Refusal};
use crate::cells::Queue;
use crate::config::{Limits, PortConfig, Shaping};
use crate::copies::Copies;
use crate::flows::{Flow, Flows};
use crate::groups::Groups;
use crate::id::PortId;
use crate::link::{Link, Owner};
use crate::round::{Round, Waiting};

/// A port. There may be many, and few of them in cache: what each frame that passes straight
/// through looks at, of its sender and of its receiver, is a line of the port and a line of the
/// class.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Port {
    pub ingress: Ingress,
    pub egress: Egress,
    pub config: PortConfig,
    /// The configuration's [`places`](PortConfig::places).
    pub places: [Limits; 2],
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Ingress {
    /// VOQs, and the sender's parts of flows that are offered, that have reached the quota: no more
    /// than frames are held.
    pub at_quota: u32,
    /// Frames in flows that are set aside, without copies for bystanders. As many as [may
    /// be](PortConfig::aside) count as one of those at their quota.
    pub aside: u32,
    /// How many frames more than the limits say may be held, and set aside.
    pub lent: u32,
    /// Whose its frames are, where an egress is shared.
    pub owner: Owner,
    /// Itself if it has turns of its own there, or [`PortId::NONE`].
    pub apart: PortId,
    pub classes: ClassMap<IngressClass>,
    /// Since when the sender has been held back, if it is.
    pub paused_since: Option<Instant>,
    /// How long it was held back before.
    pub paused: Span,
    /// Its copies for bystanders, once it had one.
    pub copies: Option<Box<Copies>>,
}

/// What a port's sender has in the switch in one class, wherever it lies. The reasons of refusals
/// are in a line of their own.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct IngressClass {
    pub held: Load,
    pub account: Account,
}

impl IngressClass {
    /// How many more frames may be held, if so many are lent.
    #[inline]
    fn room(&self, limits: &Limits, lent: u32) -> u32 {
        if self.held.bytes >= limits.bytes.0 {
            0
        } else {
            (limits.frames.max(1) + lent).saturating_sub(self.held.frames)
        }
    }

    #[inline]
    pub(crate) fn accept(&mut self, frames: u32, bytes: u64) {
        self.account.accept(frames);
        self.account.bytes += bytes;
        self.held.add(Load { frames, bytes });
    }

    #[inline]
    pub(crate) fn refuse(&mut self, refusal: Refusal, bytes: u32) {
        self.account.refuse(refusal);
        self.held.remove(Load { frames: 1, bytes: bytes.into() });
    }

    #[inline]
    pub(crate) fn deliver(&mut self, frames: u32, bytes: u64) {
        self.account.deliver(frames);
        self.held.remove(Load { frames, bytes });
    }
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Egress {
    /// When the receiver last took a frame, or had none to take.
    pub progress: Instant,
    /// The receiver takes nothing: what is for it is refused.
    pub stalled: bool,
    /// It is told of nothing new: its port is about to go.
    pub closed: bool,
    /// Nobody is there to take anything: no copy is made for it.
    pub absent: bool,
    /// The classes that have a frame switched and in no flow, one bit each.
    pub ready: u8,
    /// The classes of which the receiver takes nothing for now, one bit each.
    pub paused: u8,
    /// Weighted scheduling: whose turn it is, and what each class may still send in this round.
    pub turn: u8,
    /// The classes that have a ready flow, one bit each.
    pub ready_flows: u8,
    /// Frames that have a queue of their own.
    pub flows: Flows,
    /// When those are looked at, of which some may have taken nothing for too long.
    pub review: Review,
    pub shaper: Option<Box<Gcra>>,
    pub classes: ClassMap<EgressClass>,
    pub deficits: ClassMap<i64>,
    /// Who waits for room in each class has its turn by these.
    pub rounds: ClassMap<Round>,
    /// Frames that have left for a receiver far away, and are not known to have arrived. None is
    /// empty.
    pub away: BTreeMap<Flow, Queue>,
    /// What became of the frames that were offered in flows.
    pub groups: Groups,
    /// What all copies for bystanders here weigh.
    pub copies: u32,
    /// The owners of flows share it.
    pub link: Option<Box<Link>>,
}

/// When the flows of an egress are looked at: many of them seldom, so that it costs little.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Review {
    /// No sooner than this.
    pub at: Instant,
    /// When the first verdict was due, as the last one saw it.
    pub due: Instant,
}

/// What waits for a receiver in one class.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct EgressClass {
    pub queue: Queue,
    /// The first and the last ingress that waits for room here: the active list of deficit round
    /// robin.
    pub waiting: Waiting,
    pub load: Load,
    pub account: Account,
}

impl EgressClass {
    /// Nothing waits, and the books are as they were.
    pub(crate) const fn empty(account: Account) -> Self {
        Self { account, queue: Queue::EMPTY, load: Load::NONE, waiting: Waiting::NOBODY }
    }
}

impl Port {
    pub(crate) fn new(config: PortConfig, now: Instant) -> Self {
        Self {
            config,
            places: config.places(),
            ingress: Ingress {
                classes: ClassMap::default(),
                at_quota: 0,
                aside: 0,
                lent: 0,
                owner: Owner::default(),
                apart: PortId::NONE,
                paused_since: None,
                paused: Span::ZERO,
                copies: None,
            },
            egress: Egress::new(&config, now, ClassMap::default()),
        }
    }
}

impl Egress {
    /// Nothing waits, and the books are as they were.
    pub(crate) fn new(config: &PortConfig, now: Instant, accounts: ClassMap<Account>) -> Self {
        Self {
            classes: ClassMap(accounts.0.map(EgressClass::empty)),
            ready: 0,
            paused: 0,
            shaper: config.shaping.map(Shaping::bucket),
            deficits: ClassMap::default(),
            rounds: ClassMap::default(),
            turn: 0,
            ready_flows: 0,
            flows: Flows::default(),
            review: Review { at: now, due: now },
            away: BTreeMap::new(),
            groups: Groups::default(),
            copies: 0,
            link: None,
            progress: now,
            stalled: false,
            closed: false,
            absent: false,
        }
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.classes.0.iter().map(|class| &class.account)
    }

    /// Whether nothing is switched, and no flow has a frame. Nothing waits for room then either.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.ready == 0 && self.flows.is_empty()
    }

    /// Since when a receiver that took its last frame at `progress` could have taken another: time
    /// in which the bucket was in debt is the rate's.
    pub(crate) fn idle_since(&self, progress: Instant) -> Instant {
        self.shaper.as_ref().map_or(progress, |shaper| shaper.ready_at().max(progress))
    }
}

impl Ingress {
    /// How many more frames the sender may have held, whatever their class; 0 while a VOQ is at its
    /// quota.
    #[inline]
    pub(crate) fn room(&self, config: &PortConfig) -> u32 {
        if self.at_quota > 0 {
            return 0;
        }
        let rooms = self.classes.0.iter().map(|class| class.room(&config.ingress, self.lent));
        rooms.min().unwrap_or(0)
    }

    /// How many more frames of one class the sender may have held; 0 while a VOQ is at its quota.
    pub(crate) fn room_in(&self, config: &PortConfig, class: Class) -> u32 {
        if self.at_quota > 0 { 0 } else { self.classes[class].room(&config.ingress, self.lent) }
    }

    /// Whether nothing of one class is held, and no quota holds the sender back: there is room
    /// then.
    #[inline]
    pub(crate) fn holds_none(&self, class: Class) -> bool {
        self.at_quota == 0 && self.classes[class].held.frames == 0
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.classes.0.iter().map(|class| &class.account)
    }

    /// Whether as many of the sender's frames are set aside as may be.
    pub(crate) fn is_pressed(&self, config: &PortConfig) -> bool {
        self.aside >= config.aside() + self.lent
    }

    /// One more of the sender's frames is set aside.
    pub(crate) fn set_aside(&mut self, config: &PortConfig) {
        self.aside += 1;
        self.at_quota += u32::from(self.aside == config.aside() + self.lent);
    }

    /// So many of the sender's frames are set aside no more.
    pub(crate) fn take_back(&mut self, now: Instant, frames: u32, config: &PortConfig) {
        let was_pressed = self.is_pressed(config);
        self.aside -= frames;
        if was_pressed && !self.is_pressed(config) {
            self.at_quota -= 1;
            self.resume(now, config);
        }
    }

    /// So many frames more than the limits say may be held, and set aside.
    pub(crate) fn lend(&mut self, now: Instant, frames: u32, config: &PortConfig) {
        let was_pressed = self.is_pressed(config);
        self.lent = frames;
        match (was_pressed, self.is_pressed(config)) {
            (true, false) => self.at_quota -= 1,
            (false, true) => self.at_quota += 1,
            _ => {}
        }
        self.resume(now, config);
    }

    /// Whether at most half of what the limits say is held, and set aside.
    pub(crate) fn is_usual(&self, config: &PortConfig) -> bool {
        let held = self.classes.0.iter().map(|class| class.held.frames).max().unwrap_or(0);
        held <= config.ingress.frames / 2 && self.aside <= config.aside() / 2
    }

    /// How long the sender has been held back by now.
    pub(crate) fn paused_by(&self, now: Instant) -> Span {
        self.paused + self.paused_since.map_or(Span::ZERO, |since| now.since(since))
    }

    pub(crate) fn pause(&mut self, now: Instant) {
        self.paused_since.get_or_insert(now);
    }

    /// Lets the sender go on, if it has room.
    #[inline]
    pub(crate) fn resume(&mut self, now: Instant, config: &PortConfig) {
        if let Some(since) = self.paused_since
            && self.room(config) > 0
        {
            self.paused += now.since(since);
            self.paused_since = None;
        }
    }
}
