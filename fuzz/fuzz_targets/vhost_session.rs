#![no_main]

#[allow(dead_code)]
#[path = "../src/vhost.rs"]
mod vhost;

/// How many descriptors this process has open.
fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs is there").count()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let before = open();
    vhost::session(bytes);
    assert_eq!(open(), before, "every descriptor is closed again");
});
