//! zovn as a switch of virtual machines: a whole agent, whose thread never sleeps, on one core.

use api::Client;
use model::{
    AgentSettings, AgentStatus, Attachment, HostConfig, Limits, Polling, PortName, PortSpec,
    PortState, SocketMode,
};

use super::{Port, Rig};
use crate::{LabError, agent};

/// An agent, as long as its rig is up.
#[derive(Debug)]
pub struct Zovn {
    client: Client,
}

impl Zovn {
    /// Starts one with these ports. It keeps its promise, or promises nothing: every class is lossy
    /// then.
    ///
    /// # Errors
    ///
    /// [`LabError`]; what was started ends with the rig.
    pub fn up(rig: &Rig<'_>, ports: &[Port], is_lossless: bool) -> Result<Self, LabError> {
        let socket = agent::socket(&rig.ground.directory);
        let config = host_config(socket.display().to_string(), ports, is_lossless);
        Ok(Self { client: agent::start(&rig.ground, &config, Some(rig.core))? })
    }

    /// Whether each of its ports has its front-end: what goes to one that has none yet waits.
    ///
    /// # Errors
    ///
    /// [`LabError::Agent`] if it does not answer.
    pub fn is_connected(&self) -> Result<bool, LabError> {
        Ok(self.status()?.ports.iter().all(|port| port.state == PortState::Up))
    }

    /// What it says of itself, its ports in the order of their names.
    ///
    /// # Errors
    ///
    /// [`LabError::Agent`] if it does not answer.
    pub fn status(&self) -> Result<AgentStatus, LabError> {
        Ok(self.client.status()?)
    }
}

fn host_config(socket: String, ports: &[Port], is_lossless: bool) -> HostConfig {
    // Nobody tells it of the sockets behind these ports.
    let mut agent = AgentSettings {
        socket,
        polling: Polling::Always,
        udp_gate: false,
        ..AgentSettings::default()
    };
    let mut ingress = Limits::ingress();
    if !is_lossless {
        agent::promise_nothing(&mut agent, &mut ingress, Limits::egress().frames);
    }
    let port = |port: &Port| {
        let attach = Attachment::VhostUser {
            socket: port.socket.display().to_string(),
            mode: SocketMode::Connect,
            mac: Some(port.mac),
            queues: 1,
            mtu: None,
        };
        PortSpec { ingress, ..PortSpec::new(PortName(port.name.clone()), attach) }
    };
    HostConfig { agent, ports: ports.iter().map(port).collect(), ..HostConfig::default() }
}

#[cfg(test)]
mod tests {
    use units::Mac;

    use super::*;

    #[test]
    fn its_declaration_can_stand_and_only_promises_differ() {
        let port = |number| {
            let [name, socket] = ["p", "/run/p"].map(|begin| format!("{begin}{number}"));
            Port { name, mac: Mac::local(number), socket: socket.into() }
        };
        let [lossless, lossy] = [true, false]
            .map(|lossless| host_config("/run/a.sock".into(), &[port(1), port(2)], lossless));
        for config in [&lossless, &lossy] {
            config.check().unwrap();
            assert_eq!(
                toml::from_str::<HostConfig>(&toml::to_string(config).unwrap()).unwrap(),
                *config
            );
        }
        assert_eq!(lossless.ports[1].egress, lossy.ports[1].egress);
        assert_eq!((lossless.ports[0].ingress.frames, lossy.ports[0].ingress.frames), (1024, 2048));
        assert_ne!(lossless.agent.classes, lossy.agent.classes);
    }
}
