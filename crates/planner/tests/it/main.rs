//! The planner as schedulers meet it.

mod desk;
mod encrypted;
mod extender;
mod nova;
mod prometheus;
