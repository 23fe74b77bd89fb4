//! A port of the host.

use lossless::PortId;
use model::PortSpec;

use units::Mac;

use super::porter::Ticket;
use super::told::Told;
use super::watch::Sight;

/// A port as its operator declared it, and as its container leaves it.
#[derive(Debug)]
pub struct Attached {
    pub id: PortId,
    pub spec: PortSpec,
    /// Its machine's largest packet, in bytes.
    pub mtu: u32,
    /// Its machine's Ethernet address, as far as it is known without its frames.
    pub mac: Option<Mac>,
    /// How many frames its memory was made for.
    pub slots: u32,
    /// What it has to do without, in sentences.
    pub lacks: Vec<String>,
    pub sight: Option<Sight>,
    /// By which its device is known to those who make and watch devices.
    pub ticket: Ticket,
    /// Why its container is not there, in a sentence, while that is so.
    pub away: Option<String>,
    /// What the log was told of it.
    pub told: Told,
}
