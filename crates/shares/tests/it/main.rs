//! Shares against what they promise: a fluid link, token buckets by the book, and referees who look
//! at every interval.

mod adversaries;
mod extremes;
mod fluid;
mod guarantees;
mod stacked;
mod weights;
mod world;
