#![no_main]

#[path = "../src/handover.rs"]
mod handover;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| handover::attack(bytes));
