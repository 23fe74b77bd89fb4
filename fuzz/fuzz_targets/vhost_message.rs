#![no_main]

#[path = "../src/vhost_message.rs"]
mod vhost_message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vhost_message::attack(bytes));
