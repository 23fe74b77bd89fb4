//! What vhost-user's front door promises: to front-ends as they are, to those that contradict
//! themselves, and over real sockets.

mod attacks;
mod cards;
mod dirty;
mod fronts;
mod handovers;
mod kills;
mod nics;
mod ports;
mod qemu;
mod recorder;
mod refusals;
mod sockets;
mod transcripts;
