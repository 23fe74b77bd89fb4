#![no_main]

#[path = "../src/store.rs"]
mod store;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| store::damage(bytes));
