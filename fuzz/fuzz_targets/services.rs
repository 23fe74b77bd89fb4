#![no_main]

#[path = "../src/services.rs"]
mod services;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| services::attack(bytes));
