//! Labs and virtual machines on a real kernel. They take root.

mod guests;
mod labs;
mod place;
mod vhost;
