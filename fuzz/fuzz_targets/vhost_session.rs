#![no_main]

#[path = "../src/vhost_session.rs"]
mod vhost_session;

/// How many descriptors this process has open.
fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs is there").count()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let before = open();
    vhost_session::attack(bytes);
    assert_eq!(open(), before, "every descriptor is closed again");
});
