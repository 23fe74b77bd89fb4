//! zovn as the switch under test: an agent of its own, which makes the endpoints' interfaces
//! itself.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use api::Client;
use model::{AgentSettings, Attachment, ClassKind, HostConfig, Limits, PortName, PortSpec};

use crate::endpoint::INTERFACE;
use crate::program::Program;
use crate::site::{Ground, Site};
use crate::{Endpoint, LabError, LabSpec, SwitchKind};

/// Starts an agent with a port for each endpoint, and waits until frames flow.
pub(crate) fn up(site: &Site<'_>) -> Result<(), LabError> {
    let socket = socket(&site.ground.directory);
    let endpoints = site.endpoints.iter().map(|(endpoint, _)| *endpoint);
    let config = host_config(site.spec, endpoints, &socket);
    start(&site.ground, &config, None).map(drop)
}

/// Starts an agent, on one core alone if one is told, and waits until frames flow.
pub(crate) fn start(
    ground: &Ground<'_>,
    config: &HostConfig,
    core: Option<usize>,
) -> Result<Client, LabError> {
    start_by(ground, config, core, &[])
}

/// The same, with flags that say whom it follows.
pub(crate) fn start_by(
    ground: &Ground<'_>,
    config: &HostConfig,
    core: Option<usize>,
    flags: &[OsString],
) -> Result<Client, LabError> {
    let file = ground.directory.join("host.toml");
    let text = toml::to_string(config)
        .expect("every value of a host's declaration can be written as TOML");
    fs::write(&file, text).map_err(LabError::file(&file))?;

    let mut command = match core {
        None => Command::new(ourselves()?),
        Some(core) => {
            let mut pinned = Command::new("taskset");
            pinned.args(["--cpu-list", &core.to_string()]).arg(ourselves()?);
            pinned
        }
    };
    command.arg("agent").arg("-c").arg(&file).args(flags);
    let agent = Program::start(ground, "agent", command)?;
    let client = Client::new(&config.agent.socket)?;
    agent.wait_until(ground, || Ok(client.ready()?))?;
    Ok(client)
}

/// Where a lab's agent listens.
pub(crate) fn socket(directory: &Path) -> PathBuf {
    directory.join("agent.sock")
}

pub(crate) fn host_config<'a>(
    spec: &LabSpec,
    endpoints: impl Iterator<Item = &'a Endpoint> + Clone,
    socket: &Path,
) -> HostConfig {
    let egress_frames = |endpoint: &Endpoint| endpoint.buffer.unwrap_or(Limits::egress().frames);
    let mut ingress = Limits::ingress();
    let mut agent = AgentSettings { socket: socket.display().to_string(), ..spec.agent.clone() };
    if spec.switch == SwitchKind::ZovnLossy {
        agent.udp_gate = false;
        let deepest = endpoints.clone().map(egress_frames).max().unwrap_or(0);
        promise_nothing(&mut agent, &mut ingress, deepest);
    }
    // A logical port has its network's address, unless the lab's file says another.
    let says = |mac| spec.endpoints.iter().any(|endpoint| endpoint.mac == Some(mac));
    let port = |endpoint: &Endpoint| {
        let attach = Attachment::Container {
            netns: endpoint.netns.clone(),
            interface: INTERFACE.into(),
            mac: Some(endpoint.mac).filter(|mac| endpoint.logical.is_none() || says(*mac)),
            addresses: endpoint.addresses.clone(),
            routes: Vec::new(),
            mtu: Some(spec.mtu),
            offload: spec.offload,
        };
        PortSpec {
            rate: endpoint.rate,
            egress: Limits { frames: egress_frames(endpoint), ..Limits::egress() },
            ingress,
            logical: endpoint.logical.clone(),
            ..PortSpec::new(PortName(endpoint.name.clone()), attach)
        }
    };
    HostConfig { agent, ports: endpoints.map(port).collect(), ..HostConfig::default() }
}

/// Makes every class lossy. A full egress, at most so deep, must refuse before what it holds of one
/// sender makes that sender wait.
pub(crate) fn promise_nothing(agent: &mut AgentSettings, ingress: &mut Limits, deepest: u32) {
    agent.classes = [ClassKind::Lossy; 8];
    ingress.frames = ingress.frames.saturating_add(deepest);
}

/// The program that is an agent as well: the one that runs now, unless `$ZOVN` names another.
pub(crate) fn ourselves() -> Result<PathBuf, LabError> {
    match env::var_os("ZOVN") {
        Some(path) => Ok(path.into()),
        None => env::current_exe().map_err(LabError::kernel("find the program that runs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EndpointSpec;

    #[test]
    fn an_endpoint_is_the_logical_port_that_it_says() {
        let mut spec = LabSpec::new("a", SwitchKind::Zovn);
        let logical = Some("t/a".parse().unwrap());
        spec.endpoints = vec![EndpointSpec { logical: logical.clone(), ..EndpointSpec::new("a") }];
        let endpoints = spec.resolve("zovn-7c1e").unwrap();
        let config = host_config(&spec, endpoints.iter(), Path::new("/run/a.sock"));
        config.check().unwrap();
        assert_eq!(config.ports[0].logical, logical);
    }

    #[test]
    fn a_lossy_lab_is_the_same_agent_without_its_promise() {
        let mut spec = LabSpec::new("a", SwitchKind::Zovn);
        spec.endpoints = vec![EndpointSpec { buffer: Some(32), ..EndpointSpec::new("rx") }];
        let config = |switch| {
            let spec = LabSpec { switch, ..spec.clone() };
            let endpoints = spec.resolve("zovn-7c1e").unwrap();
            host_config(&spec, endpoints.iter(), Path::new("/run/a.sock"))
        };
        let (lossless, lossy) = (config(SwitchKind::Zovn), config(SwitchKind::ZovnLossy));
        lossless.check().unwrap();
        assert_eq!(lossless.ports[0].egress, lossy.ports[0].egress);
        assert_eq!((lossless.ports[0].egress.frames, lossless.ports[0].ingress.frames), (32, 1024));
        assert_eq!(lossy.ports[0].ingress.frames, 1056);
        assert!(lossless.agent.udp_gate && !lossy.agent.udp_gate);
        assert_eq!(lossy.agent.classes, [ClassKind::Lossy; 8]);
        let text = toml::to_string(&lossless).unwrap();
        assert_eq!(toml::from_str::<HostConfig>(&text).unwrap(), lossless);
    }
}
