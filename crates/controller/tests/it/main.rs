//! The controller's API, asked over TCP as anybody asks it.

mod agents;
mod client;
mod objects;
mod tenants;
mod together;
mod watches;
