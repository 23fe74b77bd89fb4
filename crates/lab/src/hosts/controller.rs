//! A lab's controller, on a host of its own at the physical switch: the agents of all hosts follow
//! it.
//!
//! ```text
//!   zovn-7c1e-controller               zovn-7c1e-switch               zovn-7c1e-host1
//!  ┌────────────────────────┐         ┌─────────────────┐         ┌────────────────────┐
//!  │ lo  zovn controller eth0├────────┤ physical switch ├─────────┤eth0 agent, tunnels │
//!  └─┬──────────────────────┘         └─────────────────┘         └────────────────────┘
//!  requests, of whoever is in that namespace
//! ```
//!
//! Nothing is encrypted and nobody is asked who they are: only the lab's own hosts reach it.
//!
//! An agent that follows it attaches a logical port when that has been declared, so an endpoint
//! with `logical` has no interface before.

use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use api::{Asked, Remote, RemoteClient};
use kernel::netns::Namespace;
use logical::objects::{Condition, Object, Truth};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::names::{CONTROLLER, host_name, vtep};
use crate::program::Program;
use crate::site::{Ground, Site};
use crate::{LabError, agent, endpoint};

/// Where it takes requests, in its own namespace: what `zovn controller` has as its default.
const LISTEN: &str = "127.0.0.1:6640";

/// The port at which agents connect: the default, too.
const AGENTS: u16 = 6641;

/// How long hosts may take to execute what is declared.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where agents find the controller of so many hosts.
pub(crate) fn agents_at(hosts: u32) -> SocketAddr {
    (vtep(hosts), AGENTS).into()
}

/// Makes its host, if the lab has a controller.
pub(super) fn ground<'a>(site: &Site<'a>, netns: &str) -> Result<Option<Ground<'a>>, LabError> {
    if site.spec.controller.is_none() {
        return Ok(None);
    }
    let switch = endpoint::make_host_namespace(netns)?;
    let directory = site.ground.directory.join(CONTROLLER);
    fs::create_dir(&directory).map_err(LabError::file(&directory))?;
    Ok(Some(site.ground.of_host(directory, switch)))
}

/// Starts it at its host, for so many others, and waits until it takes requests.
pub(super) fn start(ground: &Ground<'_>, hosts: u32) -> Result<(), LabError> {
    let mut command = Command::new(agent::ourselves()?);
    command
        .args(["controller", "--open", "--listen", LISTEN])
        .arg("--agents")
        .arg(agents_at(hosts).to_string())
        .arg("--data")
        .arg(ground.directory.join("data"));
    let program = Program::start(ground, CONTROLLER, command)?;
    program.wait_until(ground, || Ok(ground.switch.run(|| TcpStream::connect(LISTEN))?.is_ok()))
}

/// The flags by which a host's agent, of so many, follows it; its files are in `directory`.
pub(super) fn flags(hosts: u32, host: u32, directory: &Path) -> Vec<OsString> {
    vec![
        "--controller".into(),
        agents_at(hosts).to_string().into(),
        "--node".into(),
        host_name(host).into(),
        "--kept".into(),
        directory.join("kept").into(),
    ]
}

/// A lab's controller, for whoever asks it. Everybody is its operator.
#[derive(Debug)]
pub struct Controller {
    namespace: Namespace,
    client: RemoteClient,
}

/// What was declared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Declared {
    /// How many objects.
    pub objects: usize,
    /// The controller's revision that has them; agents that are told one by one have none.
    pub revision: Option<u64>,
}

impl Controller {
    /// The one in a namespace.
    pub(crate) fn within(namespace: Namespace) -> Result<Self, LabError> {
        let server = format!("http://{LISTEN}");
        let client = RemoteClient::new(Remote { server, tls: None, token: None })?;
        Ok(Self { namespace, client })
    }

    /// Asks something that is answered by JSON.
    ///
    /// # Errors
    ///
    /// [`LabError::Controller`] if it refuses or does not answer; [`LabError::Interrupted`].
    pub fn ask<T: DeserializeOwned + Send>(
        &self,
        asked: Asked<'_>,
        interrupted: &AtomicBool,
    ) -> Result<T, LabError> {
        self.ask_and_wait(asked, Duration::ZERO, interrupted)
    }

    /// Declares objects, beside those that it has, and waits until all hosts that have to do with
    /// them execute them.
    ///
    /// # Errors
    ///
    /// [`LabError::Controller`] if they cannot stand, [`LabError::Unrealized`] if hosts do not
    /// execute them in time; [`LabError::Interrupted`]: it may keep them then.
    pub fn declare(
        &self,
        objects: &[Object],
        interrupted: &AtomicBool,
    ) -> Result<Declared, LabError> {
        let body = serde_json::to_vec(objects).expect("every object can be written as JSON");
        let seconds = PATIENCE.as_secs();
        let asked = Asked::post(format!("{APPLY}?waitFor=Realized&timeout={seconds}s"), body);
        let Applied { revision, realized } = self.ask_and_wait(asked, PATIENCE, interrupted)?;
        match realized {
            Some(Condition { status: Truth::True, .. }) => {
                Ok(Declared { objects: objects.len(), revision: Some(revision) })
            }
            other => {
                let said = other.map(|it| it.message).unwrap_or_default();
                Err(LabError::Unrealized { seconds, said })
            }
        }
    }

    fn ask_and_wait<T: DeserializeOwned + Send>(
        &self,
        asked: Asked<'_>,
        waits: Duration,
        interrupted: &AtomicBool,
    ) -> Result<T, LabError> {
        let ask = || self.client.ask_unless(asked, waits, interrupted);
        self.namespace.run(ask)??.ok_or(LabError::Interrupted)
    }
}

/// Where objects are declared together.
const APPLY: &str = "/v1/apply";

/// What is answered.
#[derive(Deserialize)]
struct Applied {
    revision: u64,
    realized: Option<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ControllerSpec, Endpoint, LabSpec};

    fn resolved(switch: &str, rest: &str) -> Result<Vec<Endpoint>, LabError> {
        let text = format!(
            "name = \"a\"\nswitch = \"{switch}\"\n[controller]\n{rest}\n[[endpoint]]\nname = \"x\"\n\
             [[endpoint]]\nname = \"y\"\n"
        );
        toml::from_str::<LabSpec>(&text).unwrap().resolve("zovn-7")
    }

    #[test]
    fn hosts_of_zovn_at_a_switch_of_ours_follow_a_controller_and_no_others() {
        let hosts = "[hosts]\ncount = 2\n";
        resolved("zovn", hosts).unwrap();
        resolved("zovn-lossy", hosts).unwrap();
        for (switch, rest, named) in [
            ("zovn", String::new(), "add [hosts]"),
            ("bridge", hosts.into(), "zovn or zovn-lossy"),
            ("zovn", format!("{hosts}[hosts.physical]\ncable = \"whole\""), "leave out `cable`"),
            ("zovn", format!("{hosts}[hosts.physical]\nswitch = \"bridge\""), "fabric"),
            ("zovn", format!("{hosts}[[endpoint]]\nname = \"controller\""), "another name"),
            (
                "zovn",
                format!("{hosts}[[endpoint]]\nname = \"z\"\nlogical = \"t/z\""),
                "`static_addresses`",
            ),
        ] {
            let error = resolved(switch, &rest).unwrap_err().to_string();
            assert!(error.contains("[controller]") && error.contains(named), "{error}");
        }
    }

    #[test]
    fn its_address_is_behind_those_of_hosts() {
        assert_eq!(agents_at(2).to_string(), "192.168.0.3:6641");
        let flags = flags(2, 0, Path::new("/run/host1"));
        let words: Vec<_> = flags.iter().map(|it| it.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "--controller 192.168.0.3:6641 --node host1 --kept /run/host1/kept"
        );
    }

    #[test]
    fn what_comes_with_the_program_is_a_lab_with_a_controller() {
        let text = include_str!("../../../../examples/lab/controlled.toml");
        let spec: LabSpec = toml::from_str(text).unwrap();
        assert_eq!(spec.controller, Some(ControllerSpec {}));
        let endpoints = spec.resolve("zovn-7").unwrap();
        // What is declared by hand says the same of where ports are as the lab does.
        let source = logical::read(include_str!("../../../../examples/shop-hosts.yaml"));
        assert!(source.faults.is_empty(), "{:?}", source.faults);
        let hosts = spec.hosts.as_ref().unwrap();
        assert_eq!(source.objects, crate::networks::places(hosts, &endpoints));
    }
}
