//! The controller's API, asked over TCP as anybody asks it.

mod agents;
mod client;
mod objects;
mod together;
mod watches;
