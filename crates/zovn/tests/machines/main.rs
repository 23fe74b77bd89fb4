//! Virtual machines' ports as a whole: on a real agent, with cards of our own and with real guests.

mod cards;
#[path = "../common/mod.rs"]
mod common;
mod guests;
mod host;
mod kept;
mod manager;
mod queues;
