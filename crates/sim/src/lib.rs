//! A packet-level simulator of datacenters whose virtual switches are the real one.
//!
//! ```text
//! scenario.toml ─▶ Plan ─▶ Cell, Cell, …   every cell a Scenario with everything said
//!
//!   events ─▶ clock ─▶ world ─┬─ fabric   transmitters, links, physical switches, PFC
//!                             ├─ hosts    virtual switches (`lossless::Switch`), NICs, machines
//!                             ├─ stack    TCP endpoints (`tcp::Endpoint`), datagrams
//!                             └─ work     what applications do
//!                                 ▲
//!                      capture, samples   what one link carries, as Wireshark reads it; all queues over time
//!
//! Outcome ─▶ CellResult, rows ─▶ Store       a folder that shards fill and reports read
//! ```

#![forbid(unsafe_code)]

mod capture;
mod cells;
mod clock;
mod confidence;
mod congestion;
mod events;
mod excess;
mod fabric;
mod graph;
mod host;
mod ideal;
mod machines;
mod outcome;
mod packet;
mod processor;
mod record;
mod result;
mod samples;
pub mod scenario;
mod stack;
pub mod store;
mod tcp;
mod time;
mod whose;
mod work;
mod world;

pub use capture::Sink;
pub use cells::{Watcher, run_cells};
pub use excess::Excess;
pub use outcome::{ClassOutcome, Ending, Outcome};
pub use record::{Flow, Query, Record};
pub use result::{CellResult, ClassResult, Completion, Ended, OverloadResult};
pub use samples::{Sample, Samples};
pub use store::Store;
pub use time::Time;
pub use world::{Instruments, Progress, Seen, run, run_seen};
