//! The objects that a controller keeps: what commands ask for them, a file each.
//!
//! ```text
//! words of the command line ─word─▶ paths ─▶ controller ─▶ JSON ─┬─▶ tables
//!                                                └─ said: why not └─▶ JSON
//! ```

mod applied;
pub mod apply;
mod changes;
mod declaration;
pub mod delete;
pub mod describe;
pub mod diff;
pub mod get;
pub mod names;
mod said;
pub mod wait;
pub mod watch;
pub mod whoami;
mod word;
mod yaml;

pub use self::apply::Apply;
pub use self::declaration::{Prune, WrongFiles};
pub use self::said::refusable;
