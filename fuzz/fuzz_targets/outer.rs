#![no_main]

#[path = "../src/outer.rs"]
mod outer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| outer::parse(bytes));
