#![no_main]

#[path = "../src/decide.rs"]
mod decide;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decide::attack(bytes));
