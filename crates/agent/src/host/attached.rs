//! A port of the host.

use lossless::PortId;
use model::PortSpec;

use super::watch::Sight;

/// A port as its operator declared it, and as its container leaves it.
#[derive(Debug)]
pub struct Attached {
    pub id: PortId,
    pub spec: PortSpec,
    /// How many frames its memory was made for.
    pub slots: u32,
    /// What it has to do without, in sentences.
    pub lacks: Vec<String>,
    pub sight: Option<Sight>,
}
