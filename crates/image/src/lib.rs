//! A domain of logical networks as hosts execute it: rows in names, the same for every host.
//!
//! ```text
//! objects ─compile─▶ Domain: tables of rows ─diff─▶ Change, Change, …      one generation to the next
//!                       │
//!                       └──part──▶ what a host with these ports needs of it
//! ```
//!
//! A domain is what packets can reach without leaving through a gateway: switches, the routers
//! between them, and their ports. No packet is in two domains at once, so a domain changes as a
//! whole.
//!
//! Rows speak in names: of ports, groups, sets, routers. Where a port is, and which addresses a
//! group has in the end, is bound late, by whoever executes the rows. So a machine that moves
//! changes no row, and a member that joins a group changes one, however many rules speak of it.
//! Rules with the same content are kept once.
//!
//! Rows have no order but by their keys: two sets of objects that say the same make equal domains,
//! whatever way they came about.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod condition;
mod domain;
mod part;
mod rows;
mod table;
mod told;

pub use condition::{Condition, Group, Peer};
pub use domain::{Change, Domain, Unknown};
pub use rows::{
    Backend, Balancer, Link, Nat, Policy, Port, RouteDecision, RouteKey, RoutePolicy,
    RoutePolicyKey, Router, RouterPort, RoutesAs, Rule, Rules, Station, StationRole, Switch,
    Target,
};
pub use table::Table;
pub use told::{Site, Told};
