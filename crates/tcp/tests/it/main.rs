//! Endpoints that talk to each other over channels of the tests' own.

mod bottleneck;
mod laws;
mod manners;
mod repair;
mod world;
