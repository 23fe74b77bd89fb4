//! How a controller that is followed has logical networks executed, and what it is told of ports.

use std::collections::BTreeSet;
use std::time::Duration;

use model::{Generation, LogicalPortName, PortSpec};
use tokio::sync::watch;
use tokio::time::timeout;

use super::apply::aside;
use super::handle::{Handle, Stopped};
use super::order::{Heard, Order};
use crate::logical::{Domains, Labels, Sites};

/// How long whoever attaches a port waits until its network is known.
const PATIENCE: Duration = Duration::from_secs(5);

impl Handle {
    /// Puts a controller's domains in the place of those that there are. Inside: why they cannot be
    /// executed, in a sentence. Then all stays as it was.
    pub(crate) async fn execute(
        &self,
        generation: Generation,
        domains: Domains,
        sites: Sites,
        labels: Labels,
    ) -> Result<Result<(), String>, Stopped> {
        let mut logical = self.shared.logical.lock().await;
        let own = self.order(Order::LogicalPorts).await?;
        let before = logical.clone();
        let made = aside(move || before.followed(generation, domains, &sites, &labels, &own));
        let made = made.await?;
        let next = match made {
            Ok(next) => next,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let put = self.put_logical(&mut logical, next.into()).await?;
        drop(logical);
        self.shared.executed.send_replace(generation);
        Ok(put.map_err(|error| error.to_string()))
    }

    /// The logical ports of this host.
    pub(crate) async fn own_ports(&self) -> Result<BTreeSet<LogicalPortName>, Stopped> {
        self.order(Order::LogicalPorts).await
    }

    /// Those, and those that are to be attached when their networks are known.
    pub(crate) async fn wanted_ports(&self) -> Result<BTreeSet<LogicalPortName>, Stopped> {
        let mut ports = self.own_ports().await?;
        ports.extend(self.shared.expected.borrow().iter().cloned());
        Ok(ports)
    }

    /// Tells of changes of these.
    pub(crate) fn wanted(&self) -> watch::Receiver<BTreeSet<LogicalPortName>> {
        self.shared.expected.subscribe()
    }

    /// A controller is heard, or was.
    pub(crate) fn hear(&self, heard: Heard) {
        self.shared.heard.send_replace(Some(heard));
    }

    /// For how long the controller that is followed has said nothing. `None`: it was never heard,
    /// or none is followed.
    pub(crate) fn silence(&self) -> Option<Duration> {
        Some(match (*self.shared.heard.borrow())? {
            Heard::Now => Duration::ZERO,
            Heard::At(then) => then.elapsed().unwrap_or_default(),
        })
    }

    /// Before a port is attached: waits for a while until its network is known, if a controller is
    /// to say what that is.
    pub(super) async fn expect(&self, port: &PortSpec) {
        if let Some(name) = port.logical.as_ref().filter(|_| self.shared.follows) {
            self.shared.expected.send_modify(|it| {
                it.insert(name.clone());
            });
            let _ = timeout(PATIENCE, self.known(name)).await;
        }
    }

    /// Once that port is attached, or cannot be.
    pub(super) fn expect_no_more(&self, port: &PortSpec) {
        if let Some(name) = port.logical.as_ref().filter(|_| self.shared.follows) {
            self.shared.expected.send_modify(|it| {
                it.remove(name);
            });
        }
    }

    /// Returns when a port's network is known.
    async fn known(&self, name: &LogicalPortName) {
        let mut executed = self.shared.executed.subscribe();
        while !self.logical().await.has(name) && executed.changed().await.is_ok() {}
    }

    /// Attaches a declared port once its network is known.
    pub(crate) async fn attach_late(&self, port: PortSpec) {
        let Some(name) = &port.logical else { return };
        self.shared.expected.send_modify(|it| {
            it.insert(name.clone());
        });
        self.known(name).await;
        let attached = self.attach_now(&port).await;
        self.expect_no_more(&port);
        if let Ok(Err(error)) = attached {
            tracing::error!(port = %port.name, %error, "a declared port cannot be attached");
        }
    }
}
