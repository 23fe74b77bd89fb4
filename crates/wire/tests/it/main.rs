//! Headers from outside the crate.

mod dissect;
mod fuzz;
