//! What attacks the bytes that go with a port to another host.

/// Reads `bytes` as an agent does that takes over a port. What is read is written and read alike.
pub fn attack(bytes: &[u8]) {
    let Ok(places) = pipeline::unpack(bytes) else { return };
    assert_eq!(pipeline::unpack(&pipeline::pack(&places)), Ok(places));
}
