//! What looks at the interfaces of ports, whichever kind these are.

/// What looks at a port's interface.
#[derive(Debug)]
pub(super) enum Inspector {
    /// A container's.
    Tap(tap::Inspector),
    /// The host's own.
    Nic(nic::Inspector),
}

impl Inspector {
    /// Whether the interface is where it was when the port was attached.
    pub(super) fn is_reachable(&self) -> bool {
        match self {
            Self::Tap(inspector) => inspector.is_reachable(),
            Self::Nic(inspector) => inspector.is_reachable(),
        }
    }

    /// Whether it is to be looked at as soon as any interface has changed.
    pub(super) fn is_of_host(&self) -> bool {
        matches!(self, Self::Nic(_))
    }

    /// Whether the port has seen otherwise since the last look.
    pub(super) fn is_due(&self) -> bool {
        match self {
            Self::Tap(_) => false,
            Self::Nic(inspector) => inspector.is_due(),
        }
    }

    /// Looks at the interface.
    pub(super) fn look(&mut self) -> Seen {
        match self {
            Self::Tap(inspector) => {
                let tap::Seen { is_down, notes } = inspector.look();
                Seen { is_down, missed: None, notes }
            }
            Self::Nic(inspector) => {
                let nic::Seen { is_down, missed, notes } = inspector.look();
                Seen { is_down, missed: Some(missed), notes }
            }
        }
    }
}

/// What a look at an interface found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Seen {
    /// It takes no frames.
    pub is_down: bool,
    /// How many frames have come by it that the switch never had, if that is known.
    pub missed: Option<u64>,
    /// Notes for the operator, in sentences.
    pub notes: Vec<String>,
}
