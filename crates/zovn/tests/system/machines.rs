//! Virtual machines' ports as a whole: on a real agent, with cards of our own and with real guests.

mod cards;
pub mod host;
mod kept;
mod manager;
mod queues;
