//! The planner as schedulers meet it.

mod desk;
mod extender;
mod nova;
mod prometheus;
