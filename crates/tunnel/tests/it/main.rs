//! Both ends of a tunnel, what is between them, and what goes over the wire.

mod bfd;
mod contradictions;
mod dissect;
mod fuzz;
mod hostile;
mod session;
