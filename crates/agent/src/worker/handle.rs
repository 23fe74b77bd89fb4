//! What everybody else asks of the switch's thread.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use model::{
    AddressStatus, AgentStatus, CaptureSpec, ConnectionsPage, PacketTrace, PacketTraceSpec,
    PortChange, PortName, PortSpec, PortStatus, RuleHits, TraceReport, TraceSpec,
};
use plane::taps::Reader;
use seal::Keys;
use tokio::sync::oneshot;

use super::order::{Order, Shared};
use crate::addresses;
use crate::host::{
    AttachError, CaptureError, ChangeError, ConnectionsAsked, DetachError, Ending,
    PacketTraceError, Proof, TraceError,
};

/// How often it is looked whether this host has its address in the underlay, while it does not.
const LOOK_FOR_ADDRESS: Duration = Duration::from_millis(500);

/// Gives orders to the switch's thread. Cheap to clone; one for each who has something to say.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) shared: Arc<Shared>,
}

/// Why a port cannot be as it is declared.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// It cannot be attached.
    #[error(transparent)]
    Attach(AttachError),
    /// It cannot be changed so.
    #[error(transparent)]
    Change(ChangeError),
    /// It is attached, and differs in what stays as long as a port is.
    #[error("port `{port}` is attached with another {what}, which stays: detach the port first")]
    Otherwise {
        /// The port.
        port: PortName,
        /// What differs.
        what: String,
    },
}

/// The switch takes no more orders: the agent is about to exit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the agent is stopping: start it again, then ask again")]
pub struct Stopped;

impl Handle {
    /// The state of the agent.
    ///
    /// # Errors
    ///
    /// [`Stopped`], here and below: nobody is there to answer.
    pub async fn status(&self, proof: Proof) -> Result<AgentStatus, Stopped> {
        let mut status = self.order(|reply| Order::Status(proof, reply)).await?;
        if let Some(logical) = &mut status.logical {
            logical.silence_seconds = self.silence().map(|it| it.as_secs());
            if let Ok(rules) = self.order(|reply| Order::Rules(None, reply)).await? {
                logical.rules = rules.totals();
            }
        }
        Ok(status)
    }

    /// What each rule of logical networks has done; of a port: each that holds for it.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why there is no answer.
    pub(crate) async fn rules(
        &self,
        port: Option<PortName>,
    ) -> Result<Result<Vec<RuleHits>, PacketTraceError>, Stopped> {
        let rules = self.order(|reply| Order::Rules(port, reply)).await?;
        Ok(rules.map(|rules| rules.told()))
    }

    /// Connections of a logical port.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why there is no answer.
    pub(crate) async fn connections(
        &self,
        asked: ConnectionsAsked,
    ) -> Result<Result<ConnectionsPage, PacketTraceError>, Stopped> {
        self.order(|reply| Order::Connections(asked, reply)).await
    }

    /// How many turns the thread has taken. A thread that sleeps takes the next one when it is
    /// [woken](Self::wake).
    pub fn turns(&self) -> u64 {
        self.shared.turns.load(Ordering::Relaxed)
    }

    /// Has the thread take a turn, if it sleeps.
    pub fn wake(&self) {
        self.shared.bell.ring();
    }

    /// One port at this moment, if there is one of that name.
    ///
    /// # Errors
    ///
    /// [`Stopped`]
    pub async fn port(&self, name: PortName) -> Result<Option<PortStatus>, Stopped> {
        self.order(|reply| Order::Port(name, reply)).await
    }

    /// The table of addresses.
    ///
    /// # Errors
    ///
    /// [`Stopped`]
    pub async fn addresses(&self) -> Result<Vec<AddressStatus>, Stopped> {
        self.order(Order::Addresses).await
    }

    /// Attaches a port and returns it as it is then, once its addresses are in use.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why the port cannot be attached.
    pub async fn attach(&self, spec: PortSpec) -> Result<Result<PortStatus, AttachError>, Stopped> {
        // Whoever asked may hang up: what was begun is done, and kept, all the same.
        let handle = self.clone();
        let attached = tokio::spawn(async move { handle.attach_and_keep(spec).await });
        attached.await.map_err(|_| Stopped)?
    }

    async fn attach_and_keep(
        &self,
        spec: PortSpec,
    ) -> Result<Result<PortStatus, AttachError>, Stopped> {
        self.expect(&spec).await;
        let attached = self.attach_now(&spec).await;
        self.expect_no_more(&spec);
        let attached = attached?;
        if attached.is_ok() {
            self.shared.journal.keep(spec.clone());
            // It logs what it waits for in vain.
            let _ = tokio::task::spawn_blocking(move || addresses::await_use([&spec])).await;
        }
        Ok(attached)
    }

    /// Attaches a port, and has its logical network executed here.
    pub(super) async fn attach_now(
        &self,
        spec: &PortSpec,
    ) -> Result<Result<PortStatus, AttachError>, Stopped> {
        self.make_room_for(spec).await?;
        let mut attached = self.order(|reply| Order::Attach(Box::new(spec.clone()), reply)).await?;
        if attached.is_ok() && spec.logical.is_some() {
            self.follow_ports().await?;
            let port = self.port(spec.name.clone()).await?;
            attached = port.map_or(attached, Ok);
        }
        Ok(attached)
    }

    /// Drains and detaches a port and returns what it was at its end.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why the port cannot be detached.
    pub async fn detach(&self, name: PortName) -> Result<Result<PortStatus, DetachError>, Stopped> {
        let handle = self.clone();
        let detached = tokio::spawn(async move {
            let detached = handle.order(|reply| Order::Detach(name.clone(), reply)).await?;
            // One whose interface may remain is detached, too.
            if !matches!(detached, Err(DetachError::UnknownPort(_))) {
                handle.shared.journal.forget(&name);
            }
            if matches!(&detached, Ok(port) if port.logical.is_some()) {
                handle.follow_ports().await?;
            }
            Ok(detached)
        });
        detached.await.map_err(|_| Stopped)?
    }

    /// Changes a port and returns it as it is then.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why the port cannot be so.
    pub async fn change(
        &self,
        name: PortName,
        change: PortChange,
    ) -> Result<Result<PortStatus, ChangeError>, Stopped> {
        let handle = self.clone();
        let changed = tokio::spawn(async move {
            let changed =
                handle.order(|reply| Order::Change(name.clone(), change.clone(), reply)).await?;
            if changed.is_ok() {
                handle.shared.journal.update(&name, |port| port.changed(&change));
            }
            Ok(changed)
        });
        changed.await.map_err(|_| Stopped)?
    }

    /// Has a port be as it is declared here: attaches it, changes it, or does nothing. Whether it
    /// was attached, and the port as it is then.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why the port cannot be so.
    pub async fn put(
        &self,
        spec: PortSpec,
    ) -> Result<Result<(bool, PortStatus), PutError>, Stopped> {
        let Some(before) = self.order(|reply| Order::Spec(spec.name.clone(), reply)).await? else {
            return Ok(self.attach(spec).await?.map(|port| (true, port)).map_err(PutError::Attach));
        };
        let Some(change) = before.change_to(&spec) else {
            let fields = before.fixed_differences(&spec).map(|field| format!("`{field}`"));
            let what = fields.collect::<Vec<_>>().join(", ");
            return Ok(Err(PutError::Otherwise { port: spec.name, what }));
        };
        let changed = self.change(spec.name, change).await?;
        Ok(changed.map(|port| (false, port)).map_err(PutError::Change))
    }

    /// Attaches ports again that are kept and are not attached, as their networks were not there.
    pub(super) async fn attach_kept(&self) -> Result<(), Stopped> {
        for port in self.shared.journal.ports() {
            if self.port(port.name.clone()).await?.is_none() {
                let name = port.name.clone();
                match self.attach(port).await? {
                    Ok(_) => {}
                    // Its network is still not there.
                    Err(AttachError::Invalid(_)) => {}
                    Err(error) => {
                        tracing::error!(port = %name, %error, "a port that was attached through the API cannot be attached again");
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins to capture frames.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why nothing is captured.
    pub(crate) async fn capture(
        &self,
        spec: CaptureSpec,
    ) -> Result<Result<Reader, CaptureError>, Stopped> {
        self.order(|reply| Order::Capture(spec, reply)).await
    }

    /// What would become of a frame that came now.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why there is no answer.
    pub(crate) async fn trace(
        &self,
        spec: TraceSpec,
    ) -> Result<Result<TraceReport, TraceError>, Stopped> {
        self.order(|reply| Order::Trace(spec, reply)).await
    }

    /// What would become of a packet of a logical port that came now.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why there is no answer.
    pub(crate) async fn trace_packet(
        &self,
        spec: PacketTraceSpec,
    ) -> Result<Result<PacketTrace, PacketTraceError>, Stopped> {
        self.order(|reply| Order::TracePacket(spec, reply)).await
    }

    /// Waits until this host has its addresses in the underlay, if it does not have them, and then
    /// takes its place there. Whoever starts a host early, before its network is set up, finds it
    /// connected once that is done.
    ///
    /// # Errors
    ///
    /// [`Stopped`]
    pub async fn connect(&self) -> Result<(), Stopped> {
        let mut said = String::new();
        while self.shared.is_unconnected.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_FOR_ADDRESS).await;
            if !self.shared.vtep.as_ref().is_some_and(addresses::are_ours) {
                continue;
            }
            let topology = self.shared.topology.lock().await;
            match self.order(|reply| Order::Connect(topology.whole(), reply)).await? {
                Ok(()) => {
                    self.shared.is_unconnected.store(false, Ordering::Relaxed);
                    tracing::info!("this host has its address in the underlay: tunnels begin");
                }
                Err(error) => {
                    let before = mem::replace(&mut said, error.to_string());
                    if said != before {
                        tracing::error!(%error, "cannot connect the uplink; it is tried again");
                    }
                }
            }
        }
        Ok(())
    }

    /// Has tunnels use these keys from now on.
    ///
    /// # Errors
    ///
    /// [`Stopped`]
    pub async fn set_keys(&self, keys: Arc<Keys>) -> Result<(), Stopped> {
        self.order(|reply| Order::SetKeys(keys, reply)).await
    }

    /// Takes no more frames, lets those that are held reach their receivers within the declared
    /// time, ends every port, and ends the thread. Returns the last status, taken when the draining
    /// was over.
    ///
    /// # Errors
    ///
    /// [`Stopped`]: it had ended already.
    pub async fn stop(&self, ending: Ending) -> Result<AgentStatus, Stopped> {
        self.shared.stopping.store(true, Ordering::Relaxed);
        if ending == Ending::Remove {
            self.shared.journal.clear();
            self.shared.kept.clear();
        }
        self.order(|reply| Order::Stop(ending, reply)).await
    }

    /// Whether a [`stop`](Self::stop) is under way or over.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed)
    }

    /// Cuts a [`stop`](Self::stop) short: what is still held is not waited for.
    pub fn hurry(&self) {
        self.shared.at_once.store(true, Ordering::Relaxed);
        self.shared.bell.ring();
    }

    pub(super) async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply)).map_err(|_| Stopped)?;
        self.shared.bell.ring();
        answer.await.map_err(|_| Stopped)
    }
}
