#![no_main]

#[path = "../src/cases.rs"]
mod attack;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| attack::attack(bytes));
