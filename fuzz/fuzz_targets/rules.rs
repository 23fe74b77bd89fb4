#![no_main]

#[path = "../src/rules.rs"]
mod rules;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rules::attack(bytes));
