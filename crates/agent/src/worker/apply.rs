//! How logical networks are applied, and how they follow the host's ports: one generation after the
//! other, each made of the one before away from the switch's thread.

use std::collections::BTreeSet;
use std::sync::Arc;

use datapath::CannotReach;
use logical::objects::Object;
use model::{Generation, LogicalApplied, LogicalPortName, PortSpec};
use tokio::task::spawn_blocking;

use super::handle::{Handle, Stopped};
use super::networks::Condition;
use super::order::{Order, Tunnels};
use crate::host;
use crate::logical::{ApplyError, Difference, Faults, Logical};

impl Handle {
    /// The logical networks at this moment.
    pub(crate) async fn logical(&self) -> Arc<Logical> {
        self.shared.logical.lock().await.clone()
    }

    /// Puts objects of logical networks in the place of those that there are, and returns what that
    /// changes.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why they are not applied. Then all stays as it was.
    pub(crate) async fn apply(
        &self,
        condition: Condition,
        objects: Vec<Object>,
    ) -> Result<Result<LogicalApplied, ApplyError>, Stopped> {
        // Whoever asked may hang up: what was begun is done all the same.
        let handle = self.clone();
        let applied = tokio::spawn(async move { handle.apply_now(condition, objects).await });
        applied.await.map_err(|_| Stopped)?
    }

    async fn apply_now(
        &self,
        condition: Condition,
        objects: Vec<Object>,
    ) -> Result<Result<LogicalApplied, ApplyError>, Stopped> {
        if self.shared.follows {
            return Ok(Err(ApplyError::Followed));
        }
        // One change after the other: each begins where the one before has ended.
        let mut logical = self.shared.logical.lock().await;
        let own = self.order(Order::LogicalPorts).await?;
        let before = logical.clone();
        let made = aside(move || {
            let next = before.next(objects, own)?;
            let difference = before.difference(&next);
            Ok((next, difference))
        });
        let (next, Difference { objects, domains }) = match made.await? {
            Ok(made) => made,
            Err(faults) => return Ok(Err(ApplyError::Faults(Faults(faults)))),
        };
        let now = logical.generation();
        if !condition.is_met(now) {
            return Ok(Err(ApplyError::Stale(now)));
        }
        if condition.dry_run {
            return Ok(Ok(LogicalApplied { generation: now, objects, domains }));
        }
        let next = Arc::new(next);
        if let Err(error) = self.put_logical(&mut logical, next.clone()).await? {
            return Ok(Err(error.into()));
        }
        let (generation, shared) = (next.generation(), self.shared.clone());
        aside(move || shared.kept.keep(generation, next.objects())).await?;
        Ok(Ok(LogicalApplied { generation, objects, domains }))
    }

    /// Has the switch execute another generation, and lets go of the one before.
    pub(super) async fn put_logical(
        &self,
        place: &mut Arc<Logical>,
        next: Arc<Logical>,
    ) -> Result<Result<(), CannotReach>, Stopped> {
        let mut topology = self.shared.topology.lock().await;
        let (_, networks) = self.order(Order::Networks).await?;
        let mut advanced = topology.clone();
        let tunnels = match Tunnels::advance(&mut advanced, &networks, &next) {
            Ok(tunnels) => tunnels,
            Err(error) => return Ok(Err(error)),
        };
        let vtep = self.shared.vtep.as_ref();
        let realization = next.realization(vtep, |host| advanced.peer(host));
        // A router that translates for other hosts needs it as ports do.
        if realization.has_routers {
            self.make_room().await?;
        }
        let realization = Box::new((realization, tunnels));
        let before = self.order(|reply| Order::Realize(realization, reply)).await?;
        let old = std::mem::replace(place, next);
        // Neither the switch's thread nor the API waits for that.
        drop(spawn_blocking(move || drop((before, old))));
        *topology = advanced;
        Ok(Ok(()))
    }

    /// Before a port is attached: if it is a logical network's and the host has no memory for such
    /// yet, it has from now on.
    pub(super) async fn make_room_for(&self, port: &PortSpec) -> Result<(), Stopped> {
        if port.logical.is_none() {
            return Ok(());
        }
        let _one_at_a_time = self.shared.logical.lock().await;
        self.make_room().await
    }

    /// Memory for logical networks, if the host has none yet. One asks at a time.
    async fn make_room(&self) -> Result<(), Stopped> {
        if self.order(Order::HasLogical).await? {
            return Ok(());
        }
        let room = self.shared.room;
        let networks = aside(move || host::memory(room, kernel::clock::now())).await?;
        self.order(|reply| Order::SetLogical(Box::new(networks), reply)).await
    }

    /// Has the rows that this host executes be those that its ports need, if they are not.
    pub(super) async fn follow_ports(&self) -> Result<(), Stopped> {
        self.shared.expected.send_modify(|_| {});
        let mut logical = self.shared.logical.lock().await;
        let own: BTreeSet<LogicalPortName> = self.order(Order::LogicalPorts).await?;
        let has_room = self.order(Order::HasLogical).await?;
        if !has_room || logical.generation() == Generation(0) {
            return Ok(());
        }
        let before = logical.clone();
        let next = aside(move || before.with_ports(own)).await?;
        if let Err(error) = self.put_logical(&mut logical, Arc::new(next)).await? {
            tracing::error!(%error, "ports' logical networks are not executed");
        }
        Ok(())
    }
}

/// Does what takes long away from the threads that others wait for.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    spawn_blocking(work).await.map_err(|_| Stopped)
}
