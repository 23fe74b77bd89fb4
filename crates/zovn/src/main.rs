//! One binary: flags in, a shell out.

fn main() {}
