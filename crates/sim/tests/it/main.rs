//! The simulator from outside the crate.

mod capture;
mod common;
mod congestion;
mod damage;
mod engine;
mod grants;
mod mistakes;
mod physical;
mod scenarios;
mod states;
mod store;
mod virtual_networks;
mod workloads;
