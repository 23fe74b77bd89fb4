#![no_main]

#[path = "../src/seal.rs"]
mod seal_attacks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seal_attacks::attack(bytes));
