//! The store's promises, held against a model in every home, and against crashes at every write.

mod disk;
mod faults;
mod memory;
mod model;
mod promises;
