//! The program as a whole, in network namespaces and virtual machines. It takes root.

mod agent;
mod alone;
mod cases;
mod common;
mod fabric;
mod guest;
mod logical;
mod machines;
mod networks;
mod overlay;
mod pings;
mod readme;
mod ways;
