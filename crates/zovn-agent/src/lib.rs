//! The command that runs a host's agent, for both programs that have it: `zovn agent`, and
//! `zovn-agent`, which has nothing else and so neither the simulator nor the lab, measurements or a
//! terminal's screen.
//!
//! How a command ends is here, too, as both programs end alike:
//!
//! ```text
//! argv ─▶ clap ─▶ command ─▶ 0  done
//!           │        ├─────▶ 1  failed: `program: what: why: and why that`
//!           └────────┴─────▶ 2  not understood: usage
//! ```

#![forbid(unsafe_code)]

mod command;
mod log;
mod outcome;

/// The version of this program, and the commit that it is built of.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("ZOVN_COMMIT"), ")");

/// The day of that commit.
pub const DAY: &str = env!("ZOVN_DAY");

pub use command::{Args, EXAMPLES, run};
pub use log::LogArgs;
pub use outcome::{Outcome, USAGE, end, is_usage, sentence};
