//! Tests that measure, or emulate machines: `tools/test` runs them one at a time, beside nothing
//! else.

mod guests;
mod lab_and_sim;
mod measure;
mod plan;
