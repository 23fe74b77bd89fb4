//! What becomes of a frame at a host.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use logical::objects::Identity;
use packet::answer::Error;
use units::Mac;

use crate::change::Change;
use crate::flow::{Gated, Way};
use crate::neighbours::Via;
use crate::onward::Onward;
use crate::places::{PortAt, RuleAt};
use crate::rules::RuleName;

/// Says once why frames are not delivered, and the word for each.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident $word:literal,)*) => {
        /// Why a frame, or one copy of it, is not delivered.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Reason {
            $($(#[$doc])* $reason,)*
        }

        impl Reason {
            /// A word for it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $word,)* }
            }
        }
    };
}

reasons! {
    /// Its port, switch or router is switched off.
    Disabled "disabled",
    /// It is too short, from a group, or its headers lie.
    Malformed "malformed",
    /// It has a VLAN tag that no child port stands for.
    Vlan "vlan",
    /// It names an address that is not its sender's.
    Spoofed "spoofed",
    /// A rule, or a default, drops it.
    Policy "policy",
    /// A rule rejects it: the sender is told.
    Rejected "rejected",
    /// It is a later fragment of a packet whose first is not known, too short a first one, or of a
    /// packet whose fragments overlap.
    Fragment "fragment",
    /// It is a packet's first fragment, and its port has as many packets in fragments as it may.
    FragmentsFull "fragments_full",
    /// It is for an address that bridges keep to themselves (802.1Q §8.6.3).
    Reserved "reserved",
    /// It is for its own sender.
    Hairpin "hairpin",
    /// It is for an address that nobody has.
    Unknown "unknown",
    /// The network itself has answered it.
    Answered "answered",
    /// It is for another than the router that got it.
    NotForRouter "not_for_router",
    /// Its source can be no sender's.
    Martian "martian",
    /// It has been routed as often as it may be.
    TimeToLive "time_to_live",
    /// No route leads there.
    NoRoute "no_route",
    /// A route discards it.
    Discarded "discarded",
    /// It is longer than what lies ahead carries.
    TooLong "too_long",
    /// Its next hop has no known Ethernet address.
    Unresolved "unresolved",
    /// It is held until its next hop is known, and goes on then.
    Held "held",
    /// It is for the router itself, which does not serve it.
    ToRouter "to_router",
    /// It came through too many routers.
    Loop "loop",
    /// It belongs to a connection that no rule allows any longer.
    Revoked "revoked",
    /// It belongs to no connection, and cannot begin one.
    Untracked "untracked",
    /// Its port has as many connections as it may have.
    ConnectionsFull "connections_full",
    /// All ports of the address that its source is to be translated to are taken.
    NatFull "nat_full",
    /// Nobody serves behind the address.
    NoBackend "no_backend",
    /// Its receiver's port may not have that address.
    NotItsAddress "not_its_address",
    /// It is for a group that its receiver does not listen to.
    NotJoined "not_joined",
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

impl Step {
    pub(crate) fn new(
        at: &Identity,
        stage: &'static str,
        by: Option<String>,
        what: impl Into<String>,
    ) -> Self {
        Self { at: at.clone(), stage, by, what: what.into() }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.at, self.stage, self.what)?;
        self.by.as_ref().map_or(Ok(()), |by| write!(f, ", by {by}"))
    }
}

/// A frame that a port gets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Copy {
    /// The port: a child's frames are its parent's.
    pub port: PortAt,
    /// The frame.
    pub frame: Vec<u8>,
}

/// What a frame's sender is to be told of it by its own host, which has the frame as it was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Told {
    /// It is rejected.
    Rejected,
    /// A router of that address has this to say.
    Error(Error, IpAddr),
    /// It was for a router itself, which has these addresses.
    ToRouter(Mac, IpAddr),
}

/// A frame, or a copy of it, that is not delivered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// At which object.
    pub at: Identity,
    /// By which rule, if by one.
    pub by: Option<RuleName>,
    /// Who would have got it, if that was known.
    pub to: Option<Identity>,
}

/// What a rule says of a packet at a port: small, for who counts it once the frame has left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ruled {
    /// The rule.
    pub rule: RuleAt,
    /// What it says.
    pub how: How,
}

/// What a rule says of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// It passes, as the first of a connection, or as one that is of none.
    First,
    /// It passes, as one of a connection that is there.
    Following,
    /// It is refused.
    Refused(Reason),
}

/// What becomes of a frame at its sender's host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sent {
    /// Where it goes on.
    pub onward: Vec<Onward>,
    /// How many of the first of these tell routers at other hosts where a neighbour is: not more
    /// often than they [may](crate::State::may_announce).
    pub announced: usize,
    /// What its sender is answered, as often as it [may be](crate::State::may_answer).
    pub answers: Vec<Copy>,
    /// What its sender is to be told, where the sender is another host's.
    pub told: Vec<Told>,
    /// What goes no further.
    pub refused: Vec<Refusal>,
    /// How it came to that.
    pub trace: Vec<Step>,
    /// What [`State::commit`](crate::State::commit) makes of it, if somebody got it: of a frame
    /// that nobody got only what [grants](Change::grants) nothing.
    pub changes: Vec<Change>,
    /// Where all packets of its flow go, if it is of one: to one port, and by nothing else.
    pub way: Option<Way>,
    /// The neighbour outside that it goes to by that way: as long as what is known of this [stays
    /// the same](crate::State::take_moved), they all do.
    pub via: Option<Via>,
    /// The rule that decided at the sender's port, if one did.
    pub ruled: Option<Ruled>,
}

/// What becomes of a frame at its receiver's host.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// Who gets it, or why nobody does. Of what is [rejected](Reason::Rejected) the sender's host
    /// tells the sender.
    pub fate: Result<Copy, Refusal>,
    /// How it came to that.
    pub trace: Vec<Step>,
    /// What [`State::commit`](crate::State::commit) makes of it.
    pub changes: Vec<Change>,
    /// What its port says of all packets of its flow, if it is of one.
    pub gate: Option<Gated>,
    /// The rule that decided at the receiver's port, if one did.
    pub ruled: Option<Ruled>,
}
