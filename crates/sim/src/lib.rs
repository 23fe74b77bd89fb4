//! A packet-level simulator of datacenters whose virtual switches are the real one.
//!
//! ```text
//! scenario.toml ─▶ Plan ─▶ Cell, Cell, …   every cell a Scenario with everything said
//! ```

#![forbid(unsafe_code)]

pub mod scenario;
