//! What a switch answers, from outside the crate.

mod dissect;
mod fuzz;
mod networks;
