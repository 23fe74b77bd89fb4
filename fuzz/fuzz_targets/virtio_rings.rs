#![no_main]

#[path = "../src/virtio_rings.rs"]
mod virtio_rings;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| virtio_rings::attack(bytes));
