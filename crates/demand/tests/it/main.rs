//! Demand against what it promises: closed forms, enumeration, draws, and traces of known models.

mod brackets;
mod fits;
mod machine;
