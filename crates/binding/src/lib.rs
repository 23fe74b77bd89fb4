//! A host's logical networks: which of the switch's ports is which of theirs, and what becomes of
//! the frames of these.
//!
//! ```text
//! device ─▶ Networks::send ─▶ queues ┬▶ Networks::leave ──▶ device      Networks::left
//!           to whom, or why          └▶ Networks::depart ─▶ far host    it has it: what the
//! far host ▶ Networks::arrive ▲         the same once more,             frame changes is changed
//!           to which port               as things are now
//! ```
//!
//! Rows name logical ports, and where one is is looked up last: a port that comes, goes or moves
//! changes one entry here, and no row.
//!
//! A frame may wait for its receiver for long. So what is decided when it comes only says in which
//! queue it waits. When its turn has come it is decided again, by the generation and the
//! connections of then; what it changes is changed when the receiver has it. A frame that is
//! decided ten times counts once, and none is delivered by a generation that is over.
//!
//! The crate knows no devices, queues or clocks.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod answers;
mod checks;
mod decide;
mod flow_name;
mod flows;
mod handover;
mod health;
mod hits;
mod known;
mod lines;
mod moves;
mod neighbours;
mod networks;
mod noted;
mod notes;
mod places;
mod refusals;
mod seed;
mod trace;
mod turn;
mod underway;
mod vni;
mod word;

pub use decide::{Departs, Leaves, Verdict};
pub use flow_name::FlowName;
pub use flows::Site;
pub use handover::OfAnother;
pub use health::{BackendHealth, HealthNews};
pub use hits::{AllHits, Count, Hits};
pub use lines::Line;
pub use networks::{Decided, Networks, Settings};
pub use notes::MachineFrame;
pub use pipeline::Place;
pub use places::{Places, SameLabel};
pub use refusals::Refused;
pub use trace::Trace;
pub use vni::vni;
