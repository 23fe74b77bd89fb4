//! The logical networks of a lab's endpoints: what its agents, or their controller, are told of
//! them, and when they execute it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use api::{Client, ClientError};
use logical::objects::{Kind, Object};
use model::{PortName, PortState, PortStatus};

use crate::hosts::host_name;
use crate::wire::Wire;
use crate::{Declared, Endpoint, HostsSpec, Lab, LabError, site};

/// How long agents may take to execute what they are told.
const PATIENCE: Duration = Duration::from_secs(20);

impl Lab {
    /// Tells all agents the logical networks of their ports, one agent after the other; or the
    /// controller that they follow, which keeps them beside what it has, and returns when all hosts
    /// execute them. On several hosts, objects that say nothing of nodes get those that this lab
    /// has: a TransportNode for each host, and where each endpoint's port is.
    ///
    /// # Errors
    ///
    /// [`LabError`], [`LabError::Agent`] or [`LabError::Controller`] if the networks cannot stand;
    /// [`LabError::Interrupted`]: some agents may have been told, or the controller may keep them.
    pub fn declare(
        &self,
        objects: &[Object],
        interrupted: &AtomicBool,
    ) -> Result<Declared, LabError> {
        let mut all = objects.to_vec();
        let says = |it: &Object| matches!(it.kind(), Kind::TransportNode | Kind::Binding);
        if !objects.iter().any(says)
            && let Some(hosts) = &self.spec().hosts
        {
            all.extend(places(hosts, self.endpoints()));
        }
        if self.spec().controller.is_some() {
            return self.controller()?.declare(&all, interrupted);
        }
        for agent in self.agents()? {
            agent.apply_unless(&all, interrupted)?.ok_or(LabError::Interrupted)?;
        }
        Ok(Declared { objects: all.len(), revision: None })
    }

    /// Waits until all endpoints that are logical ports are up, and decided about by a network.
    ///
    /// # Errors
    ///
    /// [`LabError::Late`], with one that is not; [`LabError::Interrupted`].
    pub fn await_networks(&self, interrupted: &AtomicBool) -> Result<(), LabError> {
        let begun = Instant::now();
        for endpoint in self.endpoints().iter().filter(|it| it.logical.is_some()) {
            let agent = self.agent_at(endpoint)?;
            let name = PortName(endpoint.name.clone());
            loop {
                let port = match agent.port_unless(&name, interrupted) {
                    // It comes when the controller's agent knows its network.
                    Err(ClientError::Refused { status: 404, .. })
                        if self.spec().comes_later(endpoint) =>
                    {
                        None
                    }
                    port => Some(port?.ok_or(LabError::Interrupted)?),
                };
                let is_up = |it: &PortStatus| {
                    let state = it.logical_state.as_ref();
                    it.state == PortState::Up && state.is_some_and(|it| it.realized.is_some())
                };
                if port.as_ref().is_some_and(is_up) {
                    break;
                }
                if interrupted.load(Ordering::Relaxed) {
                    return Err(LabError::Interrupted);
                }
                if begun.elapsed() > PATIENCE {
                    let said = format!("port {name} is not up, or of no logical network");
                    let (program, seconds) = ("agent".into(), PATIENCE.as_secs());
                    return Err(LabError::Late { program, seconds, said });
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// The agent whose port an endpoint is.
    ///
    /// # Errors
    ///
    /// [`LabError`] if no agent's socket is there.
    pub fn agent_at(&self, endpoint: &Endpoint) -> Result<Client, LabError> {
        endpoint.host.map_or_else(|| self.agent(), |host| self.agent_of(host))
    }

    /// An endpoint's end of its interface.
    ///
    /// # Errors
    ///
    /// [`LabError`] if the interface is not there.
    pub fn wire(&self, endpoint: &Endpoint) -> Result<Wire, LabError> {
        Wire::at(&site::open(&endpoint.netns)?)
    }

    /// Every agent, by host.
    fn agents(&self) -> Result<Vec<Client>, LabError> {
        match &self.spec().hosts {
            None => Ok(vec![self.agent()?]),
            Some(hosts) => (0..hosts.count).map(|host| self.agent_of(host)).collect(),
        }
    }
}

/// Where hosts and endpoints' ports are.
pub(crate) fn places(hosts: &HostsSpec, endpoints: &[Endpoint]) -> Vec<Object> {
    let node = |host: u32| {
        let vteps: Vec<_> = hosts.vteps(host).iter().map(|it| format!("'{it}'")).collect();
        let (name, vteps) = (host_name(host), vteps.join(", "));
        format!(
            "- {{kind: TransportNode, metadata: {{name: {name}}}, spec: {{vteps: [{vteps}]}}}}\n"
        )
    };
    let binding = |(number, endpoint): (usize, &Endpoint)| {
        let (port, node) = (endpoint.logical.as_ref()?, host_name(endpoint.host.unwrap_or(0)));
        let spec = format!("{{port: {port}, node: {node}}}");
        Some(format!("- {{kind: Binding, metadata: {{name: endpoint{number}}}, spec: {spec}}}\n"))
    };
    let bindings = (1..).zip(endpoints).filter_map(binding);
    let text: String = (0..hosts.count).map(node).chain(bindings).collect();
    logical::read(&text).objects
}
