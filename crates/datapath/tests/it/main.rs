//! What a switch answers, from outside the crate.

mod common;
mod dissect;
mod fuzz;
mod naive;
mod networks;
