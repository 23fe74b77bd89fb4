//! Labs and virtual machines on a real kernel. They take root.

mod alone;
mod labs;
mod place;
