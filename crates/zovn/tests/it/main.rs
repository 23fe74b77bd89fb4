//! The house and the commands that take neither root nor a network.

mod circles;
mod completion;
mod contexts;
mod documents;
mod fields;
mod floors;
mod handover;
mod kept;
mod killed;
mod manual;
mod net;
mod nlog;
mod objects;
mod packaged;
mod plan;
mod readme;
mod restored;
mod sim;
