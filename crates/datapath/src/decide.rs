//! Where each frame goes: the stages, and the caches before them.
//!
//! ```text
//! frame ─▶ key ─▶ the port's last entry ─▶ cache ─▶ stages: class, membership, learning, L2 ─▶ action
//!                        │ hit                │ hit                                              │
//!                        └────────────────────┴───────────────▶ verdict ◀────────────────────────┘
//! ```
//!
//! The stages decide by what they know alone, and change nothing; what a frame teaches (its
//! source's address) is learned before. So [`Datapath::explain`] runs the very same.

mod told;
mod visit;

use alloc::boxed::Box;
use alloc::vec::Vec;

use lossless::{Audience, Destination, PortId, Refusal};
use units::{Class, ClassMap, ClassSet, Instant, Mac, Span};
use wire::ethernet::{Peek, Tag};
use wire::membership;

pub use self::visit::Visit;
use crate::address::Address;
use crate::cache::{Action, Cached, Entry};
use crate::flaps::{Flap, Flaps};
use crate::key::FlowKey;
use crate::l2::{Learned, Place, Segment};
use crate::storm::{Storm, StormLimits};
use crate::vlan::{Retag, Vlans};
use crate::{Declared, Network, Peer, Remote};

/// What a datapath is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// The class of each priority code point of a tagged frame (802.1Q §6.9.4).
    pub priorities: ClassMap<Class>,
    /// How long a learned address is kept after its last frame (802.1Q §8.8.3).
    pub mac_age: Span,
    /// The most addresses that are learned of one port; frames to others are flooded. So no sender
    /// fills the table for others. As many memberships of groups are remembered.
    pub mac_limit: u32,
    /// Spanning tree's frames are flooded as those of any group, so that bridges behind ports find
    /// their loops; if not, they never cross the switch.
    pub forward_bpdus: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            priorities: ClassMap::from_fn(|class| class),
            mac_age: Span::from_secs(300),
            mac_limit: 1024,
            forward_bpdus: false,
        }
    }
}

/// What a datapath is told of a port.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PortConfig {
    /// The class of frames that carry no 802.1Q tag, and of those whose tag says one that is not
    /// among `classes`.
    pub class: Class,
    /// The classes that its frames' tags may choose, on this host and between hosts. `None`: all,
    /// but what leaves the host is of the port's class, so that no guest's tag says whose frames go
    /// first where networks meet.
    pub classes: Option<ClassSet>,
    /// The network that the port is a member of.
    pub network: Network,
    /// How much of what it sends is flooded.
    pub storm: StormLimits,
    /// Frames that come by it from an address that is another's, pinned or declared on another
    /// host, are refused.
    pub antispoof: bool,
    /// Which VLANs of its network it is in.
    pub vlans: Vlans,
}

/// What is to become of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// Its class.
    pub class: Class,
    /// Where it goes.
    pub verdict: Verdict<'a>,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'a> {
    /// On to its receivers.
    Forward(Destination<'a>),
    /// Nowhere, for this reason.
    Refuse(Refusal),
}

/// An address in a network's VLAN, and the port it is reached by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MacEntry {
    /// The address.
    pub mac: Mac,
    /// Its VLAN; 0 for untagged frames.
    pub vlan: u16,
    /// Its network.
    pub network: Network,
    /// The port.
    pub port: PortId,
    /// When a frame from it was last seen; `None` if it was pinned.
    pub seen: Option<Instant>,
}

/// A port, as the stages know it.
#[derive(Debug)]
struct Member {
    /// What was decided last: a sender that keeps talking to one receiver asks nobody else.
    last: Entry,
    config: PortConfig,
    storm: Storm,
    /// How many addresses were learned of it.
    learned: u32,
    /// How often an address moved to it from another port, or was seen there although it is pinned
    /// at another.
    moves: u64,
    /// The address that is pinned here as its machine's.
    machine: Option<Mac>,
}

/// All that decides where a host's frames go.
#[derive(Debug)]
pub struct Datapath {
    /// By port number.
    members: Vec<Option<Box<Member>>>,
    /// By network number.
    segments: Vec<Option<Box<Segment>>>,
    settings: Settings,
    /// That of the segment, or the VLAN of one, that changed last.
    generation: u64,
    /// How often the stages were asked.
    decided: u64,
    /// When something may be too old.
    sweep_at: Instant,
    /// The port that far hosts are behind, if there is one.
    uplink: Option<PortId>,
    /// Who is to have the frame that was flooded last.
    audience: Audience,
    /// How many ports are not in all VLANs.
    in_some_vlans: usize,
    flaps: Flaps,
}

impl Datapath {
    /// Without ports and networks.
    pub fn new(settings: Settings) -> Self {
        Self {
            members: Vec::new(),
            segments: Vec::new(),
            settings,
            generation: 0,
            decided: 0,
            sweep_at: Instant::ZERO,
            uplink: None,
            audience: Audience::default(),
            in_some_vlans: 0,
            flaps: Flaps::default(),
        }
    }

    /// What it was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How a port is configured.
    pub fn config(&self, port: PortId) -> &PortConfig {
        &self.member(port).config
    }

    /// All addresses, sorted by network, address and VLAN.
    pub fn addresses(&self) -> Vec<MacEntry> {
        let segments = (0..)
            .zip(&self.segments)
            .filter_map(|(number, segment)| Some((Network::new(number)?, segment.as_deref()?)));
        let entry = |network, (address, place): (&Address, &Place)| MacEntry {
            mac: address.mac(),
            vlan: address.vlan(),
            network,
            port: place.port,
            seen: place.seen,
        };
        segments
            .flat_map(|(network, segment)| {
                segment.addresses.iter().map(move |it| entry(network, it))
            })
            .collect()
    }

    /// The addresses that move to and fro between ports, or are seen elsewhere than where they are
    /// pinned.
    pub fn flaps(&self, now: Instant) -> impl Iterator<Item = &Flap> {
        self.flaps.iter(now)
    }

    /// How often an address has moved to a port from another, or was seen there although it is
    /// pinned at another.
    pub fn moves(&self, port: PortId) -> u64 {
        self.member(port).moves
    }

    /// How often the stages were asked, as no cache had the answer.
    pub fn decided(&self) -> u64 {
        self.decided
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        (self.sweep_at > now).then_some(self.sweep_at)
    }

    /// Forgets addresses that have not been seen for the ageing time. Ports tell of an address they
    /// keep seeing once in an eighth of it, so an address lives for at least seven eighths after
    /// its last frame.
    pub fn tick(&mut self, now: Instant) {
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + self.refresh();
        let Self { members, segments, generation, settings, .. } = self;
        for segment in segments.iter_mut().flatten() {
            let changed =
                segment.sweep(now, settings.mac_age, |port| *learned_of(members, port) -= 1);
            if changed {
                *generation += 1;
                segment.generation = *generation;
            }
        }
        self.drop_empty();
    }

    /// What is to become of one frame of `network` that came by `from`. Its source's address is
    /// learned.
    pub fn decide(
        &mut self,
        now: Instant,
        from: PortId,
        header: &Peek,
        network: Network,
    ) -> Decision<'_> {
        let key = FlowKey::of(header, network);
        let action = self.action(now, from, key);
        self.decision(now, from, key, action)
    }

    /// Notes what a frame for a group says of who is in which.
    #[cold]
    fn overhear(&mut self, now: Instant, from: PortId, key: FlowKey, frame: &[u8]) {
        if !self.is_member(from, key.network()) || key.is_malformed() {
            return;
        }
        let Some(vlan) = self.vlan(from, key.tag()) else { return };
        let most = match self.uplink == Some(from) {
            true => FAR_MEMBERSHIPS,
            false => self.settings.mac_limit,
        };
        let segment = self.segments[key.network().index()].as_mut().expect("it has a member");
        let machine = (from, key.source());
        membership::read(frame, |told| segment.groups.hear(now, machine, vlan, told, most));
    }

    /// What would become of a frame that came now, and the VLAN that it would be looked for in.
    /// Nothing is learned: give a source address that is known.
    pub fn explain(
        &self,
        now: Instant,
        from: PortId,
        header: &Peek,
        network: Network,
    ) -> Explained {
        let key = FlowKey::of(header, network);
        let Action { class, verdict } = self.stages(from, key);
        let verdict = match verdict {
            Cached::To(port) => Fate::To(port),
            Cached::Far(remote) => Fate::Far(remote),
            Cached::Flood => match self.member(from).storm.refusal(now, key.destination()) {
                Some(refusal) if self.is_limited(now, from, key) => Fate::Refused(refusal),
                _ => Fate::Flooded(self.audience(from, key, class)),
            },
            Cached::Refuse(refusal) => Fate::Refused(refusal),
        };
        let named = key.tag().map_or(0, |tag| tag.vlan);
        Explained { class, vlan: self.vlan(from, key.tag()).unwrap_or(named), fate: verdict }
    }

    /// What is done with frames of this key. The source's address is learned.
    #[inline(never)]
    fn action(&mut self, now: Instant, from: PortId, key: FlowKey) -> Action {
        let member = self.member(from);
        let segment = self.segment(key.network());
        // 0 for a network that is not here, as no other has it.
        let generation = |vlan| segment.map_or(0, |segment| segment.generation_in(vlan));
        if member.last.holds(now, generation, key) {
            return member.last.action;
        }
        let known = segment.and_then(|it| it.cache.find(now, generation, key, from));
        if let Some(entry) = known {
            let entry = *entry;
            self.member_mut(from).last = entry;
            return entry.action;
        }
        self.decided += 1;
        let learned = self.learn(now, from, key);
        let action = self.stages(from, key);
        let refresh_at =
            now + if learned == Source::Stray { STRAY_REFRESH } else { self.refresh() };
        // What a port may not send is refused, whatever is known in the VLAN.
        let vlan = self.vlan(from, key.tag()).unwrap_or(0);
        let mut entry =
            Entry { key, generation: 0, refresh_at, from: from.index() as u16, vlan, action };
        let segment = self.segments.get_mut(key.network().index()).and_then(Option::as_mut);
        if let Some(segment) = segment {
            // Asked anew: it may have been learned.
            entry.generation = segment.generation_in(vlan);
            let flows = segment.flows();
            segment.cache.insert(entry, from, flows);
        }
        self.member_mut(from).last = entry;
        action
    }

    /// A frame's source is at the port that it came by, unless that is the uplink: what is behind
    /// it is declared.
    fn learn(&mut self, now: Instant, from: PortId, key: FlowKey) -> Source {
        let (network, source) = (key.network(), key.source());
        let Some(vlan) = self.vlan(from, key.tag()) else { return Source::Ordinary };
        let Self { members, segments, settings, generation, flaps, .. } = self;
        let Some(segment) = segments.get_mut(network.index()).and_then(Option::as_mut) else {
            return Source::Ordinary;
        };
        let known = segment.find(source, vlan, |port| carries(members, port, vlan));
        let pinned = known.filter(|place| place.seen.is_none()).map(|place| place.port);
        if key.is_malformed() || !segment.locals.contains(from) {
            return Source::Ordinary;
        }
        let address = Address::new(source, vlan);
        if let Some(owner) = pinned {
            if owner == from {
                return Source::Ordinary;
            }
            flaps.note(now, network, address, [from, owner], true);
            members[from.index()].iter_mut().for_each(|member| member.moves += 1);
            return Source::Stray;
        }
        // Nobody here is a machine that is declared on another host.
        if segment.remote(source, vlan).is_some() {
            return Source::Ordinary;
        }
        let has_room = *learned_of(members, from) < settings.mac_limit;
        match segment.learn(now, address, from, has_room) {
            Learned::Nothing => return Source::Ordinary,
            Learned::New => {}
            Learned::Moved(before) => {
                *learned_of(members, before) -= 1;
                flaps.note(now, network, address, [from, before], false);
                members[from.index()].iter_mut().for_each(|member| member.moves += 1);
            }
        }
        *learned_of(members, from) += 1;
        *generation += 1;
        segment.touch(vlan, *generation);
        Source::Ordinary
    }

    /// The stages, one after the other.
    fn stages(&self, from: PortId, key: FlowKey) -> Action {
        let verdict = self.verdict(from, key).unwrap_or_else(Cached::Refuse);
        let class = match verdict {
            Cached::Far(_) => self.class_between_hosts(from, key.tag()),
            Cached::Flood if self.far_members(from, key).is_some() => {
                self.class_between_hosts(from, key.tag())
            }
            _ => self.class(from, key.network(), key.tag()),
        };
        Action { class, verdict }
    }

    /// Where frames of this key go, or why to nobody.
    fn verdict(&self, from: PortId, key: FlowKey) -> Result<Cached, Refusal> {
        let segment = self
            .segment(key.network())
            .filter(|_| self.is_member(from, key.network()))
            .ok_or(Refusal::NOT_MEMBER)?;
        let destination = key.destination();
        let is_bpdu = self.settings.forward_bpdus && destination == BPDU;
        if is_link_local(destination) && !is_bpdu {
            return Err(Refusal::LINK_LOCAL);
        }
        if key.is_malformed() {
            return Err(Refusal::MALFORMED);
        }
        let vlan = self.vlan(from, key.tag()).ok_or(Refusal::NOT_IN_VLAN)?;
        if self.config(from).antispoof && self.is_elsewhere(segment, from, key.source(), vlan) {
            return Err(Refusal::SPOOFED);
        }
        let known = segment.find(destination, vlan, |port| carries(&self.members, port, vlan));
        match l2(segment, known, from, self.uplink == Some(from), destination, vlan)? {
            Cached::Far(_) if self.uplink.is_none() => Err(Refusal::NO_EGRESS),
            Cached::To(port) if !carries(&self.members, port, vlan) => Err(Refusal::NOT_IN_VLAN),
            verdict => Ok(verdict),
        }
    }

    /// Whether an address is another port's for good, or a machine's on another host.
    fn is_elsewhere(&self, segment: &Segment, port: PortId, mac: Mac, vlan: u16) -> bool {
        match segment.find(mac, vlan, |port| carries(&self.members, port, vlan)) {
            Some(Place { port: owner, seen: None }) => *owner != port,
            _ => segment.remote(mac, vlan).is_some(),
        }
    }

    /// Whether frames may need another tag at their receivers than at their senders.
    #[inline]
    pub fn retags(&self) -> bool {
        self.in_some_vlans > 0
    }

    /// What is to be done to a frame's tag, which came by one port, before another has it.
    pub fn retag(&self, from: PortId, to: PortId, header: &Peek) -> Retag {
        let own = header.tag();
        let Some(vlan) = self.vlan(from, own) else { return Retag::Keep };
        let priorities = &self.settings.priorities;
        let class = self.class(from, self.config(from).network, own);
        let class = Class::all().find(|priority| priorities[*priority] == class);
        let new = Tag { class: class.unwrap_or_default(), vlan };
        self.config(to).vlans.retag(vlan, own, new)
    }

    /// Whether frames of a network may come by a port.
    fn is_member(&self, from: PortId, network: Network) -> bool {
        self.segment(network).is_some_and(|segment| match self.uplink == Some(from) {
            true => segment.declared.is_some(),
            false => segment.locals.contains(from),
        })
    }

    /// The class of a frame with this tag that comes by this port, and stays on this host.
    #[inline]
    fn class(&self, from: PortId, network: Network, tag: Option<Tag>) -> Class {
        let config = self.config(from);
        let classes = match self.uplink == Some(from) {
            false => config.classes,
            true => self.segment(network).and_then(Segment::classes),
        };
        let Some(classes) = classes else {
            return tag.map_or(config.class, |tag| self.settings.priorities[tag.class]);
        };
        let chosen = tag.map(|tag| self.settings.priorities[tag.class]);
        let may_be = |class: &Class| classes.contains(*class);
        // The uplink's own may be none of them. Then it is the lowest.
        let own = Some(config.class).filter(may_be).or(classes.iter().next());
        chosen.filter(may_be).or(own).unwrap_or(config.class)
    }

    /// The class of a frame with this tag that comes by a port and leaves the host. Where networks
    /// meet, tags say no more than has been declared that they may.
    fn class_between_hosts(&self, from: PortId, tag: Option<Tag>) -> Class {
        let config = self.config(from);
        let tag = tag.filter(|_| config.classes.is_some());
        self.class(from, config.network, tag)
    }

    /// The VLAN of such a frame; `None` if the port is not in it.
    fn vlan(&self, from: PortId, tag: Option<Tag>) -> Option<u16> {
        self.config(from).vlans.of(tag)
    }

    /// An action on frames of this key, spelled out.
    #[inline]
    fn decision(
        &mut self,
        now: Instant,
        from: PortId,
        key: FlowKey,
        action: Action,
    ) -> Decision<'_> {
        let verdict = match action.verdict {
            Cached::To(port) => Verdict::Forward(Destination::One(port)),
            Cached::Far(remote) => {
                let uplink = self.uplink.expect("who decided so knew one");
                Verdict::Forward(Destination::Flow(uplink, remote.flow(action.class)))
            }
            Cached::Flood => match self.flood(now, from, key, action.class) {
                Ok(audience) => Verdict::Forward(Destination::Many(audience)),
                Err(refusal) => Verdict::Refuse(refusal),
            },
            Cached::Refuse(refusal) => Verdict::Refuse(refusal),
        };
        Decision { class: action.class, verdict }
    }

    /// Who is to have a frame for many, unless its port has had as much flooded as it may.
    #[cold]
    fn flood(
        &mut self,
        now: Instant,
        from: PortId,
        key: FlowKey,
        class: Class,
    ) -> Result<&Audience, Refusal> {
        let destination = key.destination();
        let is_limited = self.is_limited(now, from, key);
        // Before its receivers are looked for: what is refused is to cost little.
        if is_limited && let Some(refusal) = self.member(from).storm.refusal(now, destination) {
            return Err(refusal);
        }
        self.audience = self.audience(from, key, class);
        if is_limited {
            let receivers = self.audience.ports.len() + self.audience.flows.len();
            self.member_mut(from).storm.take(now, destination, receivers);
        }
        Ok(&self.audience)
    }

    /// Whether of a frame for many its port may have so much flooded and no more: as nobody has
    /// asked for it, or as it may be going round in circles, since its source is elsewhere.
    fn is_limited(&self, now: Instant, from: PortId, key: FlowKey) -> bool {
        let segment = self.segment(key.network()).zip(self.vlan(from, key.tag()));
        segment.is_some_and(|(segment, vlan)| {
            !segment.groups.has_members(key.destination(), vlan)
                || self.may_circle(now, segment, from, key, vlan)
        })
    }

    /// Who is to have a frame for many.
    fn audience(&self, from: PortId, key: FlowKey, class: Class) -> Audience {
        let segment = self.segment(key.network());
        let Some((segment, vlan)) = segment.zip(self.vlan(from, key.tag())) else {
            return Audience::default();
        };
        let mut ports = segment.locals;
        ports.remove(from);
        if self.retags() {
            let is_out = |port: &PortId| !carries(&self.members, *port, vlan);
            segment.locals.iter().filter(is_out).for_each(|port| ports.remove(port));
        }
        let far = self.far_members(from, key);
        let flows = far.into_iter().flat_map(|(uplink, declared)| {
            let flow =
                move |peer: &Peer| (uplink, Remote::flood(*peer, declared.vni()).flow(class));
            declared.peers().iter().map(flow)
        });
        let flows: Vec<_> = flows.collect();
        let mut bystanders = ports;
        self.uplink.into_iter().for_each(|uplink| bystanders.insert(uplink));
        let members = segment.groups.members(key.destination(), vlan);
        members.iter().for_each(|member| bystanders.remove(member));
        Audience { ports, flows, bystanders }
    }

    /// The uplink, and the machines behind it that a flooded frame is for.
    fn far_members(&self, from: PortId, key: FlowKey) -> Option<(PortId, &Declared)> {
        // What has come from another host has reached every other that it is for.
        let reaches_far = key.destination().is_multicast() && self.uplink != Some(from);
        let declared = self.segment(key.network())?.declared.as_deref()?;
        Some((self.uplink.filter(|_| reaches_far)?, declared))
    }

    /// Whether a frame may have come round by a loop: its source belongs to another port, or moves
    /// to and fro.
    fn may_circle(
        &self,
        now: Instant,
        segment: &Segment,
        from: PortId,
        key: FlowKey,
        vlan: u16,
    ) -> bool {
        let address = Address::new(key.source(), vlan);
        let flaps = || self.flaps.contains(now, key.network(), address, from);
        self.uplink != Some(from)
            && (self.is_elsewhere(segment, from, key.source(), vlan) || flaps())
    }

    /// How long a port may keep quiet about an address that it keeps seeing.
    #[inline]
    fn refresh(&self) -> Span {
        Span::from_nanos(self.settings.mac_age.as_nanos() / 8)
    }

    #[inline]
    fn member(&self, port: PortId) -> &Member {
        self.members[port.index()].as_deref().expect("the port is attached")
    }

    fn member_mut(&mut self, port: PortId) -> &mut Member {
        self.members[port.index()].as_deref_mut().expect("the port is attached")
    }

    #[inline]
    fn segment(&self, network: Network) -> Option<&Segment> {
        self.segments.get(network.index())?.as_deref()
    }

    /// A network that is about to change, made if there is none.
    fn segment_mut(&mut self, network: Network) -> &mut Segment {
        if self.segments.len() <= network.index() {
            self.segments.resize_with(network.index() + 1, || None);
        }
        self.generation += 1;
        let segment = self.segments[network.index()].get_or_insert_default();
        segment.generation = self.generation;
        segment
    }

    /// What was decided in networks with machines on other hosts is decided anew.
    fn touch_declared(&mut self) {
        let Self { segments, generation, .. } = self;
        for segment in segments.iter_mut().flatten().filter(|segment| segment.declared.is_some()) {
            *generation += 1;
            segment.generation = *generation;
        }
    }

    /// A network of which nothing is known takes no memory.
    fn drop_empty(&mut self) {
        for segment in &mut self.segments {
            if segment.as_ref().is_some_and(|segment| segment.is_empty()) {
                *segment = None;
            }
        }
    }
}

/// Whose a frame's source is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// Its port's, or nobody's in particular.
    Ordinary,
    /// It is pinned at another port.
    Stray,
}

/// How long what was decided of frames holds whose source is pinned at another port: each decision
/// notes that they still come.
const STRAY_REFRESH: Span = Span::from_millis(100);

/// What would become of a frame.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Its class.
    pub class: Class,
    /// The VLAN in which its destination is looked for.
    pub vlan: u16,
    /// Where it would go.
    pub fate: Fate,
}

/// Where a frame would go.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a trace has one, and keeps none")]
pub enum Fate {
    /// To this port alone.
    To(PortId),
    /// To this port of a far host alone.
    Far(Remote),
    /// A copy to each of these, but for its own port and those that are closed.
    Flooded(Audience),
    /// Nowhere.
    Refused(Refusal),
}

/// How many addresses were learned of a port, which is attached: its addresses go with it.
fn learned_of(members: &mut [Option<Box<Member>>], port: PortId) -> &mut u32 {
    &mut members[port.index()].as_mut().expect("the port is attached").learned
}

/// Whether frames of a VLAN go to a port, which is attached.
fn carries(members: &[Option<Box<Member>>], port: PortId, vlan: u16) -> bool {
    members[port.index()].as_ref().is_some_and(|member| member.config.vlans.carries(vlan))
}

/// Where a frame goes by the network's own table, in which its destination is `known` to be there:
/// 802.1Q §8.6.
fn l2(
    segment: &Segment,
    known: Option<&Place>,
    from: PortId,
    is_uplink: bool,
    destination: Mac,
    vlan: u16,
) -> Result<Cached, Refusal> {
    if destination.is_multicast() {
        return Ok(Cached::Flood);
    }
    // What is pinned counts before what is declared, and that before what was learned: a machine
    // that has moved to another host is there, whatever it said here before.
    let pinned = known.filter(|place| place.seen.is_none());
    let remote = segment.remote(destination, vlan).filter(|_| pinned.is_none());
    match (remote, known) {
        (Some(_), _) if is_uplink => Err(Refusal::SPLIT_HORIZON),
        (Some(remote), _) => Ok(Cached::Far(remote)),
        (None, Some(place)) if place.port == from => Err(Refusal::SAME_PORT),
        (None, Some(place)) => Ok(Cached::To(place.port)),
        (None, None) => Ok(Cached::Flood),
    }
}

/// The most memberships of groups that are remembered of the machines on all other hosts, of each
/// network.
const FAR_MEMBERSHIPS: u32 = 16_384;

/// The bridge group address, which spanning tree's frames are for (802.1Q table 8-1).
const BPDU: Mac = Mac([0x01, 0x80, 0xc2, 0, 0, 0]);

/// Whether a bridge keeps frames for this address to itself: 01-80-C2-00-00-00 to -0F (802.1Q table
/// 8-1).
#[inline]
pub fn is_link_local(mac: Mac) -> bool {
    mac.as_u64() >> 4 == 0x0180_c200_0000 >> 4
}
