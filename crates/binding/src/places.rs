//! Where ports of logical networks are that are not here, and the numbers by which hosts mean
//! ports.

use alloc::collections::BTreeMap;

use datapath::Remote;
use logical::objects::Identity;

/// Where ports are on other hosts, and the label of each port, here or there.
#[derive(Clone, Debug, Default)]
pub struct Places {
    far: BTreeMap<Identity, Remote>,
    labels: BTreeMap<Identity, u32>,
    names: BTreeMap<u32, Identity>,
}

/// Two ports have one label.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{first} and {second} have the same label, {label}: give one of them another name")]
pub struct SameLabel {
    /// The one that was there first.
    pub first: Identity,
    /// The other.
    pub second: Identity,
    /// Their label.
    pub label: u32,
}

impl Places {
    /// Ports have these labels: none has 0.
    ///
    /// # Errors
    ///
    /// [`SameLabel`]
    pub fn new(labels: impl IntoIterator<Item = (Identity, u32)>) -> Result<Self, SameLabel> {
        let mut new = Self::default();
        for (name, label) in labels {
            if let Some(first) = new.names.insert(label, name.clone()) {
                return Err(SameLabel { first, second: name, label });
            }
            new.labels.insert(name, label);
        }
        Ok(new)
    }

    /// A port is on another host, or on none that is known.
    pub fn place(&mut self, name: &Identity, host: Option<datapath::Peer>) {
        match (host, self.labels.get(name)) {
            (Some(peer), Some(label)) => {
                self.far.insert(name.clone(), Remote { peer, label: *label });
            }
            _ => {
                self.far.remove(name);
            }
        }
    }

    pub(crate) fn far(&self, name: &Identity) -> Option<Remote> {
        self.far.get(name).copied()
    }

    /// A port's label; 0 if it has none.
    pub(crate) fn label(&self, name: &Identity) -> u32 {
        self.labels.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn name(&self, label: u32) -> Option<&Identity> {
        self.names.get(&label)
    }
}
