//! Placements against what they promise: the rules, the bounds, what enumeration finds.

mod bounds;
mod packing;
mod worlds;
