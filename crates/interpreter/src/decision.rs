//! What was decided, and by whom.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use logical::objects::{Identity, Severity};
use logical::topology::PortIndex;

use crate::rule::RuleId;
use crate::state::Change;

/// Why a frame, or one copy of it, is not delivered.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// Its port, switch or router is switched off.
    Disabled,
    /// It is too short, from a group, or its headers lie.
    Malformed,
    /// It has a VLAN tag that no child port stands for.
    Vlan,
    /// It names an address that is not its sender's.
    Spoofed,
    /// A rule, or a default, drops it.
    Policy,
    /// A rule rejects it: the sender is told.
    Rejected,
    /// It belongs to a connection that no rule allows any longer.
    Revoked,
    /// It belongs to no connection, and cannot begin one.
    Untracked,
    /// Its port has as many connections as it may have.
    ConnectionsFull,
    /// It is a later fragment of a packet whose first is not known, too short a first one, or of a
    /// packet whose fragments overlap.
    Fragment,
    /// It is a packet's first fragment, and its port has as many packets in fragments as it may.
    FragmentsFull,
    /// It is for an address that bridges keep to themselves (802.1Q §8.6.3).
    Reserved,
    /// It is for its own sender.
    Hairpin,
    /// It is for an address that nobody has.
    Unknown,
    /// The network itself has answered it.
    Answered,
    /// It is for another than the router that got it.
    NotForRouter,
    /// Its source can be no sender's.
    Martian,
    /// It has been routed as often as it may be.
    TimeToLive,
    /// No route leads there.
    NoRoute,
    /// A route discards it.
    Discarded,
    /// It is longer than what lies ahead carries.
    TooLong,
    /// Its next hop has no known Ethernet address.
    Unresolved,
    /// It is held until its next hop is known, and goes on then.
    Held,
    /// It is for the router itself, which does not serve it.
    ToRouter,
    /// It came through too many routers.
    Loop,
    /// No port of an external address is free.
    NatFull,
    /// Nobody serves behind the address.
    NoBackend,
    /// Its receiver's port may not have that address.
    NotItsAddress,
    /// It is for a group that its receiver does not listen to.
    NotJoined,
}

impl Reason {
    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Malformed => "malformed",
            Self::Vlan => "vlan",
            Self::Spoofed => "spoofed",
            Self::Policy => "policy",
            Self::Rejected => "rejected",
            Self::Revoked => "revoked",
            Self::Untracked => "untracked",
            Self::ConnectionsFull => "connections_full",
            Self::Fragment => "fragment",
            Self::FragmentsFull => "fragments_full",
            Self::Reserved => "reserved",
            Self::Hairpin => "hairpin",
            Self::Unknown => "unknown",
            Self::Answered => "answered",
            Self::NotForRouter => "not_for_router",
            Self::Martian => "martian",
            Self::TimeToLive => "time_to_live",
            Self::NoRoute => "no_route",
            Self::Discarded => "discarded",
            Self::TooLong => "too_long",
            Self::Unresolved => "unresolved",
            Self::Held => "held",
            Self::ToRouter => "to_router",
            Self::Loop => "loop",
            Self::NatFull => "nat_full",
            Self::NoBackend => "no_backend",
            Self::NotItsAddress => "not_its_address",
            Self::NotJoined => "not_joined",
        }
    }
}

/// One step of a decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// The object at which it was.
    pub at: Identity,
    /// The stage there.
    pub stage: &'static str,
    /// The rule, route or translation that decided it, if one did.
    pub by: Option<String>,
    /// What was decided.
    pub what: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.at, self.stage, self.what)?;
        self.by.as_ref().map_or(Ok(()), |by| write!(f, ", by {by}"))
    }
}

/// A frame that somebody gets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Copy {
    /// Who gets it.
    pub port: PortIndex,
    /// The frame.
    pub frame: Vec<u8>,
}

/// A frame, or a copy of it, that is not delivered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// At which object.
    pub at: Identity,
    /// By which rule, if by one.
    pub by: Option<RuleId>,
    /// Who would have got it, if that was known.
    pub to: Option<PortIndex>,
}

/// A line that a rule asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    /// At which port.
    pub at: Identity,
    /// The rule.
    pub by: RuleId,
    /// How loud.
    pub severity: Severity,
    /// What became of the frame there.
    pub what: &'static str,
}

/// What becomes of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Who gets it, rewritten as it was underway.
    pub delivered: Vec<Copy>,
    /// What the network itself sends: answers, and questions for neighbours.
    pub answers: Vec<Copy>,
    /// What is not delivered.
    pub refused: Vec<Refusal>,
    /// What rules want to be written down, as often as their meters let them.
    pub lines: Vec<Line>,
    /// How it came to that.
    pub trace: Vec<Step>,
    /// What [`State::commit`](crate::State::commit) makes of it.
    pub changes: Vec<Change>,
}
