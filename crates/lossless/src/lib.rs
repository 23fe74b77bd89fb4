//! The lossless switch.
//!
//! A [`Switch`] owns no memory, no device and no clock, and it decides nothing about where frames
//! go. It is offered frames, which it knows only by a handle `F`, their class, their size and their
//! [`Destination`]; it decides when each may go on; and it hands them out, one head at a time, to
//! receivers that have room. Both happen in visits to a port ([`Switch::arrivals`],
//! [`Switch::departures`]), which do once what is the same for many frames. A frame's bytes stay in
//! its sender's memory until the last receiver has taken it, so whatever holds a frame back walks
//! all the way to the socket that sent it.
//!
//! ```text
//!           offer                forwarder: permits            head ─▶ delivered
//! sender ─────────▶ VOQ(j,k,c) ───────────────────▶ O(k,c) ─────────────────────▶ receiver k
//!    ▲               in turn, by deficit round robin   strict or weighted, shaped       │
//!    └───────────────────────────── released: the handle comes back ◀───────────────────┘
//! ```
//!
//! It is zOVN's Algorithm 1 (Crisan et al., SIGCOMM 2013, §4.2) in both directions: a sender that
//! offers a frame pushes it as far as there is room, a receiver that took one pulls the next from
//! whoever waits. The blocked set of a pass over an ingress is kept rather than found again: a
//! frame that finds its egress full goes into the virtual output queue of its (ingress, egress,
//! class), so frames for other egresses and classes never stand behind it, and order within the
//! three holds.
//!
//! **The law.** accepted = delivered + refused + held, per port, direction and class, after every
//! visit ([`Switch::audit`]). In a lossless class a refusal for want of room cannot be constructed
//! ([`Refusal`]).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod arrive;
mod attach;
mod audit;
mod books;
mod bystanders;
mod cells;
mod config;
mod copies;
mod depart;
mod far;
mod flows;
mod forward;
mod groups;
mod id;
mod link;
mod outlook;
mod owners;
mod port;
mod ports;
mod redirect;
mod refuse;
mod round;
mod set;
mod sharing;
mod stall;
mod switch;
mod voqs;
mod waiting;
mod within;

pub use account::{Account, Load, Reason, Refusal};
pub use arrive::{Arrivals, Audience, Destination, Size};
pub use attach::TooManyPorts;
pub use audit::Defect;
pub use books::Books;
pub use config::{
    ClassKind, Classes, Limits, LossyClass, PortConfig, Scheduling, Settings, Shaping,
};
pub use depart::{Aside, Departures, Head};
pub use flows::Flow;
pub use id::{MAX_PORTS, PortId};
pub use link::{LinkConfig, LinkUse, Owner};
pub use outlook::{EgressOutlook, Fate};
pub use redirect::Redirected;
pub use set::PortSet;
pub use switch::{Offered, Refused, Released, Switch};
pub use waiting::Waiting;
pub use within::PortUse;
