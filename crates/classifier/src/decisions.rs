//! The first rule of an ordered list that all holds of, by the classes of a packet.
//!
//! What rules ask is kept by what they ask about, an *aspect* each: the source, the destination,
//! the service and so on. A class of an aspect has a bitmap of the rules that it satisfies, a bit
//! each in the rules' order. The first rule is the first bit that all aspects' bitmaps have:
//!
//! ```text
//!                 rule 0 1 2 3 4 5
//! source          ──── 1 0 1 1 0 1      satisfied, or not asked for
//! service         ──── 0 1 1 0 1 1
//! ethertype       ──── 1 1 1 1 1 1
//! all                  0 0 1 0 0 1  ─▶  rule 2
//! ```
//!
//! Words of bitmaps are looked at one by one up to that of the first rule. There an aspect is read
//! only if a rule asks about it that is still possible and comes before one that is certain. So a
//! list whose services nobody asked for leaves ports unread, and a decision says what it has read.
//!
//! Bitmaps are made when a class is seen first, from lists of the rules that name a set: this takes
//! the sets of the class, not all rules. A [`List`] makes them whenever it is asked; [`Decisions`]
//! remembers them, and what was decided of the same classes.

mod bits;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::cells::{Cells, Depends};
use crate::class::{Class, SetId};
use crate::exact::Exact;
use crate::table::HashKey;
use bits::{Bits, Index};

/// Whoever is at an end of a packet.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Peer {
    /// Groups of ports: whoever is in one by its port, or by its address if its port is not known.
    pub groups: Vec<SetId>,
    /// Sets of addresses: whoever is in one,
    pub sets: Vec<SetId>,
    /// and in none of these.
    pub except: Vec<SetId>,
}

/// Which packets: all that is said has to hold.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Condition {
    /// What the frame carries.
    pub ethertype: Option<u16>,
    /// Where it comes from. `None`: anywhere.
    pub source: Option<Peer>,
    /// Where it goes. `None`: anywhere.
    pub destination: Option<Peer>,
    /// Sets of source Ethernet addresses. None: all.
    pub source_macs: Vec<SetId>,
    /// Sets of destination Ethernet addresses. None: all.
    pub destination_macs: Vec<SetId>,
    /// Services. None: all.
    pub services: Vec<SetId>,
}

/// A rule. What it says is its caller's, who knows it by its place in the list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rule {
    /// All of these have to hold.
    pub conditions: Vec<Condition>,
    /// Whether the next level decides if this is its level's first.
    pub passes: bool,
    /// Whether it speaks of control packets: those of which only rules speak that name them.
    pub names_control: bool,
}

/// Who is at an end of a packet, as far as that is known.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum End<'a> {
    /// It is no IP packet: rules that ask for somebody do not hold.
    #[default]
    Nobody,
    /// A port that is known, by the class of its groups; and the class of the address.
    Port {
        /// The port's groups.
        groups: Class<'a>,
        /// The address's sets.
        address: Class<'a>,
    },
    /// An address, whose sets and groups are its class.
    Address(Class<'a>),
}

/// What a packet is to rules.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Facts<'a> {
    /// What the frame carries.
    pub ethertype: u16,
    /// Whether only rules hold that name such packets.
    pub is_control: bool,
    /// Where it comes from.
    pub source: End<'a>,
    /// Where it goes.
    pub destination: End<'a>,
    /// The class of the source's Ethernet address.
    pub source_mac: Class<'a>,
    /// The class of the destination's Ethernet address.
    pub destination_mac: Class<'a>,
    /// The class of its service.
    pub service: Class<'a>,
}

/// Something about a packet that a decision may read.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Aspect {
    /// `ethertype`.
    Ethertype,
    /// `is_control`.
    Control,
    /// Whether there is a source, and its port's groups.
    Source,
    /// The source's address.
    SourceAddress,
    /// Whether there is a destination, and its port's groups.
    Destination,
    /// The destination's address.
    DestinationAddress,
    /// `source_mac`.
    SourceMac,
    /// `destination_mac`.
    DestinationMac,
    /// `service`.
    Service,
}

/// What a decision has read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Aspects(u16);

impl Aspects {
    /// Whether it has read this.
    pub const fn contains(self, aspect: Aspect) -> bool {
        self.0 & 1 << aspect as u8 != 0
    }

    const fn one(aspect: Aspect) -> Self {
        Self(1 << aspect as u8)
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What was decided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// The place of the first rule that holds and does not pass. `None`: there is none.
    pub rule: Option<u32>,
    /// What was read. Packets that are the same in all of this are decided the same.
    pub read: Aspects,
}

/// What rules ask about one aspect, at most one thing each.
#[derive(Clone, Debug)]
struct Layer {
    aspect: Aspect,
    /// The rules that ask.
    asks: Bits,
    /// The rules that ask here or in a later layer.
    rest: Bits,
    sets: Index,
    except: Index,
    groups: Index,
}

/// How much a list remembers.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bitmaps, of a bit for each rule.
    pub bitmaps: usize,
    /// Decisions.
    pub decisions: usize,
}

/// An ordered list of rules. Nothing is remembered of what is asked, so many can ask at a time.
#[derive(Clone, Debug)]
pub struct List {
    len: u32,
    layers: Vec<Layer>,
    /// Of each rule that passes: where the next level begins. 0: it does not pass.
    passes_to: Vec<u32>,
}

/// An ordered list of rules that remembers what was asked.
#[derive(Clone, Debug)]
pub struct Decisions {
    list: List,
    bitmaps: Exact<4, Arc<Bits>>,
    known: Exact<8, Decision>,
    cells: Cells,
}

/// The order in which aspects are read: what changes least from packet to packet first.
const ORDER: [Aspect; 7] = [
    Aspect::Ethertype,
    Aspect::Control,
    Aspect::Source,
    Aspect::Destination,
    Aspect::SourceMac,
    Aspect::DestinationMac,
    Aspect::Service,
];

impl List {
    /// Of levels of rules, which decide one after the other; the first rule of a level decides.
    /// Places of rules are counted through all levels.
    pub fn new(levels: &[Vec<Rule>]) -> Self {
        let rules: Vec<&Rule> = levels.iter().flatten().collect();
        let len = u32::try_from(rules.len()).expect("a list has fewer than 2^32 rules");
        let mut passes_to = Vec::with_capacity(rules.len());
        for level in levels {
            let end = (passes_to.len() + level.len()) as u32;
            passes_to.extend(level.iter().map(|it| if it.passes { end } else { 0 }));
        }
        let mut layers: Vec<Layer> = Vec::new();
        for aspect in ORDER {
            let mut of_aspect: Vec<Layer> = Vec::new();
            for (number, rule) in (0..len).zip(&rules) {
                let asked = rule.asks(aspect);
                // What is asked twice of one aspect has a layer for each, as both must hold.
                for (at, peer) in asked.into_iter().enumerate() {
                    if of_aspect.len() == at {
                        of_aspect.push(Layer::new(aspect, len));
                    }
                    of_aspect[at].ask(number, peer);
                }
            }
            layers.append(&mut of_aspect);
        }
        let mut rest = Bits::none(len);
        for layer in layers.iter_mut().rev() {
            rest.include(&layer.asks);
            layer.rest = rest.clone();
            for index in [&mut layer.sets, &mut layer.except, &mut layer.groups] {
                index.finish(len);
            }
        }
        Self { len, layers, passes_to }
    }

    /// How many rules there are.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first rule that all holds of. Bitmaps are made anew for what is asked about.
    pub fn first(&self, facts: &Facts<'_>) -> Decision {
        self.search(facts, |at| Arc::new(self.layers[at].satisfied(self.len, facts)))
    }

    /// The place of the first rule that all holds of and that does not pass; what was read is not
    /// told. This is quicker than [`first`](Self::first) where many rules come before it.
    pub fn place(&self, facts: &Facts<'_>) -> Option<u32> {
        let mut all = Bits::all(self.len);
        for layer in &self.layers {
            all.keep(&layer.satisfied(self.len, facts));
        }
        let mut from = 0;
        loop {
            let rule = all.first(from)?;
            match self.passes_to[rule as usize] {
                0 => return Some(rule),
                next => from = next,
            }
        }
    }

    /// What decides, in numbers. What no rule asks about is left out.
    fn key(&self, facts: &Facts<'_>) -> [u64; 8] {
        let mut key = [0; 8];
        for layer in &self.layers {
            let [kind, groups, address] = layer.key(facts);
            match layer.aspect {
                Aspect::Ethertype => key[0] |= address,
                Aspect::Control => key[0] |= address << 16,
                Aspect::Source | Aspect::SourceAddress => {
                    (key[0], key[1], key[2]) = (key[0] | kind << 17, groups, key[2] | address);
                }
                Aspect::Destination | Aspect::DestinationAddress => {
                    (key[0], key[3], key[4]) = (key[0] | kind << 19, groups, key[4] | address);
                }
                Aspect::SourceMac => key[5] = address,
                Aspect::DestinationMac => key[6] = address,
                Aspect::Service => key[7] = address,
            }
        }
        key
    }

    fn search(&self, facts: &Facts<'_>, mut satisfied: impl FnMut(usize) -> Arc<Bits>) -> Decision {
        let mut maps: Vec<Option<Arc<Bits>>> = alloc::vec![None; self.layers.len()];
        let mut read = Aspects::default();
        let mut from = 0;
        while from < self.len {
            let word = from / 64;
            let mut possible = u64::MAX << (from % 64) & bits::used(word, self.len);
            for (at, map) in maps.iter_mut().enumerate() {
                let layer = &self.layers[at];
                let certain = possible & !layer.rest.word(word);
                // Rules behind one that nothing more is asked of do not matter.
                let first = certain & certain.wrapping_neg();
                possible &= if first == 0 { u64::MAX } else { first | (first - 1) };
                if possible & layer.asks.word(word) == 0 {
                    continue;
                }
                if map.is_none() {
                    read = read.and(layer.reads(facts));
                }
                possible &= map.get_or_insert_with(|| satisfied(at)).word(word);
                if possible == 0 {
                    break;
                }
            }
            if possible == 0 {
                from = (word + 1) * 64;
                continue;
            }
            let rule = word * 64 + possible.trailing_zeros();
            match self.passes_to[rule as usize] {
                0 => return Decision { rule: Some(rule), read },
                next => from = next,
            }
        }
        Decision { rule: None, read }
    }
}

impl Decisions {
    /// Of levels of rules, as [`List::new`] has it. `hash_key` must be secret where strangers
    /// choose packets.
    pub fn new(levels: &[Vec<Rule>], memory: Memory, hash_key: HashKey) -> Self {
        Self {
            list: List::new(levels),
            bitmaps: Exact::new(memory.bitmaps, hash_key),
            known: Exact::new(memory.decisions, hash_key),
            cells: Cells::default(),
        }
    }

    /// The list.
    pub const fn list(&self) -> &List {
        &self.list
    }

    /// The first rule that all holds of.
    pub fn decide(&mut self, facts: &Facts<'_>) -> Decision {
        let key = self.list.key(facts);
        if let Some(known) = self.known.find(&self.cells, &key) {
            return *known;
        }
        let Self { list, bitmaps, cells, .. } = self;
        let decision = list.search(facts, |at| satisfied(list, bitmaps, cells, at, facts));
        self.known.insert(&self.cells, key, decision, Depends::NOTHING);
        decision
    }
}

/// The rules that a layer has nothing against: as they are remembered.
fn satisfied(
    list: &List,
    bitmaps: &mut Exact<4, Arc<Bits>>,
    cells: &Cells,
    at: usize,
    facts: &Facts<'_>,
) -> Arc<Bits> {
    let layer = &list.layers[at];
    let [kind, groups, address] = layer.key(facts);
    let key = [(at as u64) << 2 | kind, groups, address, 0];
    if let Some(known) = bitmaps.find(cells, &key) {
        return known.clone();
    }
    let made = Arc::new(layer.satisfied(list.len, facts));
    bitmaps.insert(cells, key, made.clone(), Depends::NOTHING);
    made
}

impl Rule {
    fn asks(&self, aspect: Aspect) -> Vec<Peer> {
        let some = |sets: &[SetId]| {
            let peer = || Peer { sets: sets.to_vec(), ..Peer::default() };
            (!sets.is_empty()).then(peer)
        };
        let of = |it: &Condition| match aspect {
            Aspect::Ethertype => it.ethertype.and_then(|it| some(&[SetId(it.into())])),
            Aspect::Source | Aspect::SourceAddress => it.source.clone(),
            Aspect::Destination | Aspect::DestinationAddress => it.destination.clone(),
            Aspect::SourceMac => some(&it.source_macs),
            Aspect::DestinationMac => some(&it.destination_macs),
            Aspect::Service => some(&it.services),
            Aspect::Control => None,
        };
        match aspect {
            Aspect::Control if !self.names_control => some(&[ORDINARY]).into_iter().collect(),
            _ => self.conditions.iter().filter_map(of).collect(),
        }
    }
}

/// Stands for packets that are no control packets.
const ORDINARY: SetId = SetId(0);

impl Layer {
    fn new(aspect: Aspect, rules: u32) -> Self {
        let none = Bits::none(rules);
        let [sets, except, groups] = [Index::default(), Index::default(), Index::default()];
        Self { aspect, asks: none.clone(), rest: none, sets, except, groups }
    }

    fn ask(&mut self, rule: u32, peer: Peer) {
        self.asks.set(rule);
        peer.sets.into_iter().for_each(|set| self.sets.add(set, rule));
        peer.except.into_iter().for_each(|set| self.except.add(set, rule));
        peer.groups.into_iter().for_each(|set| self.groups.add(set, rule));
    }

    const fn end<'a>(&self, facts: &Facts<'a>) -> Option<End<'a>> {
        match self.aspect {
            Aspect::Source | Aspect::SourceAddress => Some(facts.source),
            Aspect::Destination | Aspect::DestinationAddress => Some(facts.destination),
            _ => None,
        }
    }

    /// What is asked about, in numbers: what kind of end it is; its groups; its sets.
    fn key(&self, facts: &Facts<'_>) -> [u64; 3] {
        let sets = |class: Class<'_>| [0, 0, class.id.number()];
        match self.aspect {
            Aspect::Ethertype => [0, 0, facts.ethertype.into()],
            Aspect::Control => [0, 0, facts.is_control.into()],
            Aspect::SourceMac => sets(facts.source_mac),
            Aspect::DestinationMac => sets(facts.destination_mac),
            Aspect::Service => sets(facts.service),
            _ => match self.end(facts).unwrap_or_default() {
                End::Nobody => [0; 3],
                End::Address(class) => [1, 0, class.id.number()],
                End::Port { groups, address } => {
                    let address = if self.sets.is_empty() { 0 } else { address.id.number() };
                    [2, groups.id.number(), address]
                }
            },
        }
    }

    /// What is read to answer what is asked here.
    fn reads(&self, facts: &Facts<'_>) -> Aspects {
        let own = Aspects::one(self.aspect);
        let address = match self.aspect {
            Aspect::Source => Aspect::SourceAddress,
            Aspect::Destination => Aspect::DestinationAddress,
            _ => return own,
        };
        match self.end(facts).unwrap_or_default() {
            End::Nobody => own,
            End::Port { .. } if self.sets.is_empty() => own,
            End::Port { .. } | End::Address(_) => own.and(Aspects::one(address)),
        }
    }

    fn satisfied(&self, rules: u32, facts: &Facts<'_>) -> Bits {
        let mut all = Bits::none(rules);
        match self.aspect {
            Aspect::Ethertype => self.sets.include(&[SetId(facts.ethertype.into())], &mut all),
            Aspect::Control if facts.is_control => {}
            Aspect::Control => self.sets.include(&[ORDINARY], &mut all),
            Aspect::SourceMac => self.sets.include(facts.source_mac.sets, &mut all),
            Aspect::DestinationMac => self.sets.include(facts.destination_mac.sets, &mut all),
            Aspect::Service => self.sets.include(facts.service.sets, &mut all),
            _ => {
                let (groups, address) = match self.end(facts).unwrap_or_default() {
                    End::Nobody => (&[][..], &[][..]),
                    End::Address(class) => (class.sets, class.sets),
                    End::Port { groups, address } => (groups.sets, address.sets),
                };
                self.sets.include(address, &mut all);
                self.except.exclude(address, &mut all);
                self.groups.include(groups, &mut all);
            }
        }
        all.include_not(&self.asks);
        all
    }
}

#[cfg(test)]
mod tests;
