//! Virtual machines' ports against front-ends and guests of the tests' own, and a real QEMU.

mod vhost;
mod virtio;
