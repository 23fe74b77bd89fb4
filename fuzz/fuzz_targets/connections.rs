#![no_main]

#[path = "../src/connections.rs"]
mod connections;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| connections::attack(bytes));
