//! Where ports of logical networks are that are not here, and the numbers by which hosts mean
//! ports.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use datapath::{Peer, Remote};
use logical::objects::Identity;

/// Where ports are on other hosts, and the label of each port, here or there.
#[derive(Clone, Debug, Default)]
pub struct Places {
    far: BTreeMap<Identity, Remote>,
    /// Copies share these two: labels stay where ports move.
    labels: Arc<BTreeMap<Identity, u32>>,
    names: Arc<BTreeMap<u32, Identity>>,
    /// The other hosts that choose among a load balancer's backends.
    choosers: BTreeMap<Identity, Vec<Peer>>,
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
        let (mut by_name, mut names) = (BTreeMap::new(), BTreeMap::new());
        for (name, label) in labels {
            if let Some(first) = names.insert(label, name.clone()) {
                return Err(SameLabel { first, second: name, label });
            }
            by_name.insert(name, label);
        }
        Ok(Self { labels: by_name.into(), names: names.into(), ..Self::default() })
    }

    /// A port is on another host, or on none that is known.
    pub fn place(&mut self, name: &Identity, host: Option<Peer>) {
        match (host, self.labels.get(name)) {
            (Some(peer), Some(label)) => {
                self.far.insert(name.clone(), Remote { peer, label: *label });
            }
            _ => {
                self.far.remove(name);
            }
        }
    }

    /// These other hosts choose among the backends of a load balancer.
    pub fn choose_at(&mut self, balancer: &Identity, hosts: Vec<Peer>) {
        self.choosers.insert(balancer.clone(), hosts);
    }

    /// Where words of a load balancer's backends go.
    pub(crate) fn choosers(&self, balancer: &Identity) -> impl Iterator<Item = Remote> {
        let label = self.label(balancer);
        let hosts = self.choosers.get(balancer).into_iter().flatten();
        hosts.map(move |peer| Remote { peer: *peer, label })
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
