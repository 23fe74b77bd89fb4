//! Connections as a whole.

mod common;
mod fuzz;
mod laws;
mod model;
mod moves;
mod packets;
mod segments;
mod tcp;
