//! The controller's API, asked over TCP as anybody asks it.

mod agents;
mod audits;
mod certificates;
mod client;
mod conditions;
mod objects;
mod restored;
mod tenants;
mod together;
mod traces;
mod watches;
