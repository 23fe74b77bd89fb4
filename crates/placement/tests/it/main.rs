//! Placements against what they promise: the rules, the bounds, what enumeration finds.

mod bounds;
mod changes;
mod moving;
mod packing;
mod purchases;
mod vacancies;
mod worlds;
