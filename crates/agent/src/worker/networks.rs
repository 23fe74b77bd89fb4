//! How virtual networks are replaced: one change after the other, each on what the one before left.

use std::sync::Arc;

use api::NETWORKS;
use datapath::CannotReach;
use model::{Generation, InvalidConfig, NetworkName, NetworkSpec, NetworksStatus};

use super::handle::{Handle, Stopped};
use super::order::{Order, Tunnels};
use crate::networks::Networks;

/// What has to be so for networks to be replaced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    /// They are of one of these generations, if that is asked for.
    pub generations: Option<Vec<Generation>>,
    /// Nothing changes: it is only checked whether they could be replaced.
    pub dry_run: bool,
}

impl Condition {
    pub(super) fn is_met(&self, generation: Generation) -> bool {
        self.generations.as_ref().is_none_or(|wanted| wanted.contains(&generation))
    }
}

/// Why networks are not replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    /// The new ones cannot stand, or not beside the ports that are attached.
    #[error(transparent)]
    Invalid(#[from] InvalidConfig),
    /// They cannot stand beside logical networks.
    #[error(transparent)]
    BesideLogical(#[from] CannotReach),
    /// There is none of that name.
    #[error("there is no network `{0}`: GET {NETWORKS} lists them")]
    UnknownNetwork(NetworkName),
    /// Somebody has replaced them since; nothing else is wrong by itself.
    #[error(
        "the networks are of generation {0} now: look at them (`zovn get networks`), and ask again for that one"
    )]
    Stale(Generation),
}

impl Handle {
    /// The virtual networks at this moment.
    ///
    /// # Errors
    ///
    /// [`Stopped`]
    pub async fn networks(&self) -> Result<NetworksStatus, Stopped> {
        let (generation, networks) = self.order(Order::Networks).await?;
        Ok(networks.status(generation))
    }

    /// Replaces all virtual networks at once, and returns the new generation's number.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why they are not replaced. Then all stay as they were.
    pub(crate) async fn set_networks(
        &self,
        condition: Condition,
        networks: Vec<NetworkSpec>,
    ) -> Result<Result<Generation, ReplaceError>, Stopped> {
        // What is wrong by itself is so in every generation: it is told before any is asked for.
        let (vtep, capacity) = (self.shared.vtep.clone(), self.shared.capacity.clone());
        let networks = match Networks::new(networks, vtep, capacity) {
            Ok(networks) => networks,
            Err(error) => return Ok(Err(error.into())),
        };
        self.change_networks(condition, |_| Ok(networks)).await
    }

    /// Adds or replaces one virtual network, and returns the new generation's number.
    ///
    /// # Errors
    ///
    /// As of [`set_networks`](Self::set_networks).
    pub(crate) async fn set_network(
        &self,
        condition: Condition,
        network: NetworkSpec,
    ) -> Result<Result<Generation, ReplaceError>, Stopped> {
        if let Err(error) = Networks::check_alone(&network, self.shared.vtep.as_ref()) {
            return Ok(Err(error.into()));
        }
        self.change_networks(condition, |networks| Ok(networks.with(network)?)).await
    }

    /// Removes one virtual network, and returns the new generation's number.
    ///
    /// # Errors
    ///
    /// As of [`set_networks`](Self::set_networks).
    pub(crate) async fn remove_network(
        &self,
        condition: Condition,
        name: NetworkName,
    ) -> Result<Result<Generation, ReplaceError>, Stopped> {
        let change = move |networks: &Networks| match networks.without(&name) {
            Some(without) => Ok(without?),
            None => Err(ReplaceError::UnknownNetwork(name)),
        };
        self.change_networks(condition, change).await
    }

    /// Puts other networks in place of those that there are.
    async fn change_networks(
        &self,
        condition: Condition,
        change: impl FnOnce(&Networks) -> Result<Networks, ReplaceError> + Send + 'static,
    ) -> Result<Result<Generation, ReplaceError>, Stopped> {
        // Whoever asked may hang up: what was begun is done all the same.
        let handle = self.clone();
        let replaced = tokio::spawn(async move {
            let dry_run = condition.dry_run;
            let replaced = handle.replace_networks(condition, change).await;
            if !dry_run && matches!(replaced, Ok(Ok(_))) {
                handle.attach_kept().await?;
            }
            replaced
        });
        replaced.await.map_err(|_| Stopped)?
    }

    async fn replace_networks(
        &self,
        condition: Condition,
        change: impl FnOnce(&Networks) -> Result<Networks, ReplaceError>,
    ) -> Result<Result<Generation, ReplaceError>, Stopped> {
        // One change after the other: each begins where the one before has ended.
        let logical = self.shared.logical.lock().await;
        let mut topology = self.shared.topology.lock().await;
        let (generation, before) = self.order(Order::Networks).await?;
        let networks = match change(&before) {
            // No condition counts for what is not there (RFC 9110 §13.2.1).
            Err(error @ ReplaceError::UnknownNetwork(_)) => return Ok(Err(error)),
            // Whether others or ports are in the way is told of the generation that was asked for.
            _ if !condition.is_met(generation) => return Ok(Err(ReplaceError::Stale(generation))),
            Ok(networks) => Arc::new(networks),
            Err(error) => return Ok(Err(error)),
        };
        if condition.dry_run {
            let fits = self.order(|reply| Order::Check(networks, reply)).await?;
            return Ok(fits.map(|()| generation).map_err(ReplaceError::from));
        }
        let mut next = topology.clone();
        let tunnels = match Tunnels::advance(&mut next, &networks, &logical) {
            Ok(tunnels) => tunnels,
            Err(error) => return Ok(Err(error.into())),
        };
        // What is let go of, new or old, is freed here: the switch's thread does not wait for that.
        let replaced = self.order(|reply| Order::Replace(networks.clone(), tunnels, reply)).await?;
        Ok(replaced.map_err(ReplaceError::from).map(|(generation, _old)| {
            *topology = next;
            generation
        }))
    }
}
