//! A frame underway, and what is told and remembered of it on its way.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use logical::objects::{Direction, Identity, Meter, MeterUnit};
use logical::topology::{Attachment, NodeIndex, Port, PortIndex, Topology};
use packet::fragments::{MOST_PACKETS, Pieces};
use packet::{Fields, answer};
use units::{Class, Instant, Span};
use wire::ethernet;
use wire::ip::Fragment;

use crate::decision::{Copy, Decision, Reason, Refusal, Step};
use crate::policy::{Gate, Passage};
use crate::rule::RuleId;
use crate::state::{Change, FragmentOf, State, Subject, What, Whose};

/// How long a packet's ends are remembered for its later fragments.
const FRAGMENTS: Span = Span::from_secs(5);

/// How often the network answers a port.
const ANSWERS: Meter =
    Meter { rate: answer::MOST_A_SECOND as u64, burst: None, unit: MeterUnit::Pps, shared: false };

/// Why, where and by whom a frame goes no further.
pub type Stop = Box<Refusal>;

/// A frame underway.
#[derive(Clone)]
pub struct Underway {
    pub frame: Vec<u8>,
    pub fields: Fields,
    pub subject: Subject,
    /// How many routers it has come through.
    pub routers: usize,
    /// Whether the network itself sends it on to a machine: defaults do not speak of it.
    pub is_networks: bool,
}

/// What a decision is made of.
pub struct Walk<'a> {
    pub topology: &'a Topology,
    pub state: &'a State,
    pub now: Instant,
    /// Who is answered. `None`: nobody.
    pub origin: Option<PortIndex>,
    pub node: Option<NodeIndex>,
    /// The frame as its sender wrote it, without a child's tag: what answers are about.
    pub sent: Vec<u8>,
    /// Whether it was held before.
    pub is_resumed: bool,
    /// Whether the frame says of a neighbour of a router where it is, and that is of use.
    pub was_heard: bool,
    pub decision: Decision,
}

impl Walk<'_> {
    pub fn step(&mut self, at: &Identity, stage: &'static str, by: Option<String>, what: &str) {
        self.decision.trace.push(Step { at: at.clone(), stage, by, what: what.to_string() });
    }

    pub fn stop(reason: Reason, at: &Identity) -> Stop {
        Box::new(Refusal { reason, at: at.clone(), by: None, to: None })
    }

    pub fn refuse(&mut self, stop: Refusal, to: Option<PortIndex>) {
        let Refusal { reason, at, by, .. } = stop;
        let what = alloc::format!("refused: {}", reason.name());
        self.step(&at, "verdict", by.as_ref().map(RuleId::to_string), &what);
        self.decision.refused.push(Refusal { reason, at, by, to });
    }

    /// Of a frame that is refused in the end, what was to be remembered since then lets nobody in.
    pub fn undo(&mut self, from: usize) {
        let mut place = 0;
        self.decision.changes.retain(|change| {
            place += 1;
            place <= from || !change.grants()
        });
    }

    /// Something goes back to the sender, past all rules, but not without measure.
    pub fn answer(&mut self, frame: Option<Vec<u8>>) {
        let (Some(frame), Some(origin)) = (frame, self.origin) else { return };
        if self.is_resumed {
            return self.answer_late(frame);
        }
        let id = &self.topology[origin].id;
        if !self.take((id.clone(), None), &ANSWERS, frame.len()) {
            self.step(id, "answer", None, "none: it was answered too often");
            return;
        }
        let copy = self.wrap(origin, frame);
        self.decision.answers.push(copy);
    }

    /// A frame as a port's machine gets it: a child's with its tag.
    pub fn wrap(&self, port: PortIndex, frame: Vec<u8>) -> Copy {
        match self.topology[port].attachment {
            Attachment::Child { vlan, .. } => {
                let tag = ethernet::Tag { class: Class::default(), vlan };
                Copy { port, frame: ethernet::tagged(&frame, tag) }
            }
            _ => Copy { port, frame },
        }
    }

    /// The fields of a frame that was rewritten.
    pub fn read_again(&self, under: &mut Underway, at: &Port) -> Result<(), Stop> {
        let fields = Fields::of(&under.frame);
        under.fields = fields.ok_or_else(|| Self::stop(Reason::Malformed, &at.id))?;
        Ok(())
    }

    /// Whose memory a port's packets are in: each instance of a `local` one has its own.
    pub fn whose(&self, port: PortIndex) -> Whose {
        let own = &self.topology[port];
        let node = self.node.filter(|_| own.attachment == Attachment::Local);
        (own.id.clone(), node.map(|node| self.topology[node].id.clone()))
    }

    /// Whether a port can get frames here: a `local` one only on the sender's host. What was held
    /// comes from its router.
    pub fn is_here(&self, port: PortIndex) -> bool {
        let is_local = |port: PortIndex| self.topology[port].attachment == Attachment::Local;
        let elsewhere = |node: Option<NodeIndex>| node.is_some() && node != self.node;
        let from_local = !self.is_resumed
            && self.origin.is_some_and(is_local)
            && elsewhere(self.topology[port].node);
        self.topology[port].enabled && !from_local
    }

    /// The packet in fragments that makes room at its port for one more, if any has to: the eldest
    /// that is whole.
    fn spare(&self, of: &FragmentOf) -> Result<Option<FragmentOf>, Reason> {
        let own = || self.state.fragments(of, self.now);
        if own().count() < MOST_PACKETS {
            return Ok(None);
        }
        let whole = own().filter(|(_, (pieces, _))| pieces.are_whole());
        let eldest = whole.min_by_key(|(of, (_, until))| (*until, *of));
        eldest.map(|(of, _)| Some(of.clone())).ok_or(Reason::FragmentsFull)
    }

    /// What rules ask of a packet at a port. A later fragment has its first's ports. Of a packet
    /// whose fragments contradict each other nothing passes.
    pub fn subject(
        &mut self,
        port: PortIndex,
        way: Direction,
        fields: &Fields,
        origin: Option<Identity>,
    ) -> Result<Subject, Stop> {
        let own = &self.topology[port].id;
        let mut tuple = fields.ip.map(|ip| ip.tuple);
        if let (Some(ip), Some(ends)) = (fields.ip, tuple)
            && let Some(piece) = ip.piece
        {
            let of: FragmentOf = (
                self.whose(port),
                way,
                ip.identification,
                ends.source.0,
                ends.destination.0,
                ends.protocol,
            );
            let first = (ip.layout.fragment == Fragment::First).then_some(ends);
            let known = self.state.fragment(&of, self.now);
            let (pieces, until) = match (known, first) {
                (Some((known, until)), None) => (known.with(piece, None), *until),
                (Some((known, _)), first) => (known.with(piece, first), self.now + FRAGMENTS),
                (None, Some(ends)) => {
                    let spare = self.spare(&of).map_err(|reason| Self::stop(reason, own))?;
                    let gone = spare.map(|spare| Change(What::FragmentsGone(spare)));
                    self.decision.changes.extend(gone);
                    (Pieces::first(ends, piece), self.now + FRAGMENTS)
                }
                (None, None) => return Err(Self::stop(Reason::Fragment, own)),
            };
            tuple = Some(pieces.ends);
            let are_sound = pieces.are_sound;
            self.decision.changes.push(Change(What::Fragment(of, pieces, until)));
            if !are_sound {
                return Err(Self::stop(Reason::Fragment, own));
            }
        }
        Ok(Subject {
            ethertype: fields.ethertype,
            source_mac: fields.source,
            destination_mac: fields.destination,
            tuple,
            icmp: fields.ip.and_then(|ip| ip.icmp).map(|icmp| (icmp.kind, icmp.code)),
            origin,
            target: (way == Direction::ToPort).then(|| own.clone()),
            is_control: fields.is_control(),
        })
    }

    /// Rules and connections of a port.
    pub fn gate(&mut self, port: PortIndex, way: Direction, under: &Underway) -> Result<(), Stop> {
        let (topology, state, now, whose) = (self.topology, self.state, self.now, self.whose(port));
        let gate = Gate { topology, state, now, port, way, whose };
        let stage = match way {
            Direction::FromPort => "from-port rules",
            Direction::ToPort => "to-port rules",
        };
        let id = &self.topology[port].id;
        // Later fragments follow the first one's fate and change nothing.
        let is_later = under.fields.ip.is_some_and(|ip| ip.layout.fragment == Fragment::Later);
        match gate.pass(&under.fields, &under.subject) {
            Passage::Pass { by, what, changes } => {
                self.write_line(port, by.as_ref(), what);
                self.step(id, stage, by.map(|by| by.to_string()), what);
                self.decision.changes.extend(changes.into_iter().filter(|_| !is_later));
                Ok(())
            }
            Passage::Refuse { reason, by, changes } => {
                self.write_line(port, by.as_ref(), reason.name());
                self.decision.changes.extend(changes);
                if reason == Reason::Rejected {
                    self.answer(answer::reject(&self.sent));
                }
                Err(Box::new(Refusal { reason, at: id.clone(), by, to: None }))
            }
        }
    }
}
