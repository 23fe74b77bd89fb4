//! The plane of a host: which devices, far hosts and stages it has.

use kernel::cycles::Counter;
use overlay::Overlay;
use plane::Plane;

use super::device::Device;
use super::gate::HostGate;
use super::responder::HostResponder;

/// The plane of a host.
pub type HostPlane = Plane<Device, Overlay, HostResponder, HostGate, Counter>;
