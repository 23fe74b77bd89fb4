//! All structures together, as a switch uses them: random sets, services, rules and packets, and
//! changes while decisions are remembered.

mod adversaries;
mod together;
mod world;
