//! Two ends of a channel, and the network between them.

mod forgers;
mod fuzz;
mod handshakes;
mod world;
