//! What a host does with the frames of logical networks, by the rows that it has of them.
//!
//! ```text
//! sender's host                                               receiver's host
//! port ─▶ security ─▶ from-port rules ─▶ switch ─▶ routers ─▶ │ ─▶ to-port rules ─▶ security ─▶ port
//!                                          │          │       Onward: the port, and where it
//!                                        answers to the sender        came from
//! ```
//!
//! A host has its part of a domain ([`image::Domain::part`]), made ready as a [`Net`]. The sender's
//! host decides everything up to the port that a frame is for; the host of that port decides by the
//! port's own rules whether it arrives. No state is needed at a host that sees one direction only.
//!
//! [`Net::send`] and [`Net::receive`] change nothing. What they return is committed when the frame
//! has left, so that one that is decided ten times counts once.
//!
//! The interpreter decides the same from objects alone. The two share the forms of packets and
//! nothing else, and tests hold them against each other.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod answers;
mod backends;
mod balance;
mod change;
mod checked;
mod conditions;
mod flow;
mod flows;
mod fragments;
mod gate;
mod guard;
mod handover;
mod learned;
mod nat;
mod neighbours;
mod net;
mod next;
mod onward;
mod outcome;
mod pack;
mod paths;
mod places;
mod ports;
mod receive;
mod route;
mod routes;
mod rules;
mod send;
mod service;
mod state;
mod told;
mod touched;
mod translate;

pub use backends::Down;
pub use change::{Change, FragmentOf, Passing};
pub use checked::{Asked, Checked};
pub use flow::{Connection, Gated, Head, Key, Passes, Start, Way};
pub use handover::Handover;
pub use neighbours::{About, Due, Heard, Held, Neighbour, NeighbourState, Room, Via};
pub use net::Net;
pub use onward::Onward;
pub use outcome::{Copy, How, Reason, Received, Refusal, Ruled, Sent, Step, Told};
pub use pack::{Place, Unreadable, pack, unpack};
pub use places::{PortAt, RuleAt};
pub use ports::Ports;
pub use rules::{NamedRule, Numbers, RuleName};
pub use state::{Followed, State};
pub use touched::Touched;
