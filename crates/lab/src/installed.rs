//! Whether this machine has what a switch under test needs.

use crate::vhost::{OvsDpdk, Testpmd};
use crate::{LabError, SwitchKind, ovs};

impl SwitchKind {
    /// Whether everything that the switch needs is installed on this machine.
    ///
    /// # Errors
    ///
    /// [`LabError::Missing`] names what to install.
    pub fn check(self) -> Result<(), LabError> {
        match self {
            Self::Ovs => ovs::programs().map(drop),
            Self::OvsDpdk => OvsDpdk::check(),
            Self::Testpmd => Testpmd::check(),
            Self::Bridge | Self::ZovnLossy | Self::Zovn => Ok(()),
        }
    }
}
