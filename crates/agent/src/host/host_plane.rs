//! The plane of a host: which devices, peers and stages it has.

use overlay::Trunk;
use plane::Plane;

use super::device::Device;
use super::gate::HostGate;
use super::responder::HostResponder;

/// The plane of a host.
pub type HostPlane = Plane<Device, Trunk, HostResponder, HostGate>;
