//! zovn as a switch of virtual machines: a whole agent, whose thread never sleeps, on one core.

use std::net::{IpAddr, Ipv4Addr};

use api::{Client, Condition};
use model::{
    AgentSettings, AgentStatus, Attachment, HostConfig, Limits, LogicalPortName, LogicalSettings,
    Member, NetworkName, NetworkShare, NetworkSpec, Polling, PortName, PortSpec, PortState,
    SocketMode, Uplink,
};

use super::{Port, Rig, networks};
use crate::{LabError, agent};

/// An agent, as long as its rig is up.
#[derive(Debug)]
pub struct Zovn {
    client: Client,
}

/// The logical networks of an agent's ports.
#[derive(Clone, Copy, Debug)]
pub struct Tenants<'a> {
    /// Which logical port each port is, in their order.
    pub ports: &'a [LogicalPortName],
    /// Their objects.
    pub objects: &'a [logical::Object],
    /// How many connections there can be.
    pub connections: u32,
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

    /// Starts one that keeps its promise, with these ports, which are ports of logical networks.
    ///
    /// # Errors
    ///
    /// [`LabError`]; [`LabError::Agent`] if the networks cannot stand. What was started ends with
    /// the rig.
    pub fn of_tenants(
        rig: &Rig<'_>,
        ports: &[Port],
        tenants: &Tenants<'_>,
    ) -> Result<Self, LabError> {
        let socket = agent::socket(&rig.ground.directory);
        let config = of_tenants(host_config(socket.display().to_string(), ports, true), tenants);
        let client = agent::start(&rig.ground, &config, Some(rig.core))?;
        client.apply_if(Condition::default(), &tenants.objects)?;
        Ok(Self { client })
    }

    /// Whether each of its ports has its front-end: what goes to one that has none yet waits.
    ///
    /// # Errors
    ///
    /// [`LabError::Agent`] if it does not answer.
    pub fn is_connected(&self) -> Result<bool, LabError> {
        Ok(self.status()?.ports.iter().all(|port| port.state == PortState::Up))
    }

    /// Gives a network of its ports these terms.
    ///
    /// # Errors
    ///
    /// [`LabError::Agent`] if it does not take them.
    pub fn share(&self, network: &NetworkName, share: NetworkShare) -> Result<(), LabError> {
        let known = self.client.networks()?.networks;
        if let Some(spec) = known.into_iter().find(|spec| spec.name == *network) {
            self.client.set_network(&NetworkSpec { share, ..spec })?;
        }
        Ok(())
    }

    /// Who asks it.
    pub fn client(&self) -> &Client {
        &self.client
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
    let networks = networks(ports);
    let spec = |(number, port): (u32, &Port)| {
        let attach = Attachment::VhostUser {
            socket: port.socket.display().to_string(),
            mode: SocketMode::Connect,
            mac: Some(port.mac),
            queues: 1,
            mtu: None,
        };
        let network = port.network.clone();
        let label = network.is_some().then_some(number);
        PortSpec { ingress, network, label, ..PortSpec::new(PortName(port.name.clone()), attach) }
    };
    let network = |(vni, name): (u32, &&NetworkName)| {
        let its = (1..).zip(ports).filter(|(_, port)| port.network.as_ref() == Some(*name));
        let member = |(label, port): (u32, &Port)| Member {
            mac: port.mac,
            addresses: Vec::new(),
            vtep: VTEP.into(),
            label,
        };
        NetworkSpec::new((*name).clone(), vni, its.map(member).collect())
    };
    HostConfig {
        agent,
        uplink: (!networks.is_empty()).then(|| Uplink::new(VTEP)),
        networks: (1..).zip(&networks).map(network).collect(),
        ports: (1..).zip(ports).map(spec).collect(),
        ..HostConfig::default()
    }
}

/// The same host, whose ports are of logical networks.
fn of_tenants(mut config: HostConfig, tenants: &Tenants<'_>) -> HostConfig {
    for (port, name) in config.ports.iter_mut().zip(tenants.ports) {
        port.logical = Some(name.clone());
    }
    let connections = tenants.connections;
    HostConfig { logical: LogicalSettings { connections, ..config.logical }, ..config }
}

/// A host with networks has an address among others; this one knows no others.
const VTEP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

#[cfg(test)]
mod tests {
    use units::Mac;

    use super::*;

    #[test]
    fn ports_of_a_network_are_machines_of_it() {
        let port = |number: u32, network: &str| Port {
            name: format!("p{number}"),
            mac: Mac::local(number),
            socket: format!("/run/p{number}").into(),
            network: Some(NetworkName(network.into())),
        };
        let ports = [port(1, "blue"), port(2, "red"), port(3, "blue")];
        let config = host_config("/run/a.sock".into(), &ports, true);
        config.check().unwrap();
        let members: Vec<_> = config.networks.iter().map(|it| it.members.len()).collect();
        assert_eq!(members, [2, 1]);
    }

    #[test]
    fn ports_of_tenants_are_declared_as_such() {
        let port = |number: u32| Port {
            name: format!("p{number}"),
            mac: Mac::local(number),
            socket: format!("/run/p{number}").into(),
            network: None,
        };
        let names = ["t/a", "t/b"].map(|name| name.parse().unwrap());
        let tenants = Tenants { ports: &names, objects: &[], connections: 2048 };
        let ports = [port(1), port(2)];
        let config = of_tenants(host_config("/run/a.sock".into(), &ports, true), &tenants);
        config.check().unwrap();
        let logical: Vec<_> = config.ports.iter().filter_map(|port| port.logical.clone()).collect();
        assert_eq!((logical, config.logical.connections), (names.to_vec(), 2048));
    }

    #[test]
    fn its_declaration_can_stand_and_only_promises_differ() {
        let port = |number| {
            let [name, socket] = ["p", "/run/p"].map(|begin| format!("{begin}{number}"));
            Port { name, mac: Mac::local(number), socket: socket.into(), network: None }
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
