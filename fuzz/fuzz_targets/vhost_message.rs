#![no_main]

#[allow(dead_code)]
#[path = "../src/vhost.rs"]
mod vhost;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vhost::message(bytes));
