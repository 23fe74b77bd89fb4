#![no_main]

#[path = "../src/answer.rs"]
mod answer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| answer::attack(bytes));
