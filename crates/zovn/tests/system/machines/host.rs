//! A host: an agent in a directory of its own, which ends with its test even if that fails.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use api::Client;
use model::{AgentSettings, Attachment, HostConfig, PortName, PortSpec, SocketMode};
use rustix::process::{Pid, Signal, kill_process};
use units::Mac;

use super::manager::Manager;
use crate::common::until;

pub struct Host {
    pub directory: tempfile::TempDir,
    agent: Option<Child>,
    /// Keeps descriptors from one agent to the next.
    pub manager: Option<Manager>,
}

impl Host {
    pub fn new() -> Self {
        // As /run is: a tmpfs.
        Self { directory: tempfile::tempdir_in("/dev/shm").unwrap(), agent: None, manager: None }
    }

    /// One whose agents are started by a service manager that keeps what they leave.
    pub fn managed() -> Self {
        let mut host = Self::new();
        host.manager = Some(Manager::new(&host.path("notify")));
        host
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts an agent and waits until it is ready.
    pub fn start(&mut self, agent: AgentSettings, ports: Vec<PortSpec>) -> Client {
        assert!(self.agent.is_none());
        let agent =
            AgentSettings { socket: self.path("agent.sock").display().to_string(), ..agent };
        let file = self.path("host.toml");
        fs::write(
            &file,
            toml::to_string(&HostConfig { agent, ports, ..HostConfig::default() }).unwrap(),
        )
        .unwrap();
        let program = env!("CARGO_BIN_EXE_zovn");
        let mut command = match &self.manager {
            Some(manager) => manager.command(program),
            None => Command::new(program),
        };
        self.agent = Some(
            command.arg("agent").arg("-c").arg(file).stderr(Stdio::inherit()).spawn().unwrap(),
        );
        let client = Client::new(self.path("agent.sock")).unwrap();
        until(|| {
            let agent = self.agent.as_mut().unwrap();
            assert_eq!(agent.try_wait().unwrap(), None, "the agent ended at its start");
            client.ready().unwrap_or(false)
        });
        client
    }

    pub fn pid(&self) -> u32 {
        self.agent.as_ref().unwrap().id()
    }

    /// Ends the agent with a signal, and returns its exit code if it has one.
    pub fn end(&mut self, signal: Signal) -> Option<i32> {
        let mut agent = self.agent.take().unwrap();
        kill_process(Pid::from_child(&agent), signal).unwrap();
        agent.wait().unwrap().code()
    }

    /// A virtual machine's port, whose socket has its name.
    pub fn machine(&self, name: &str, mode: SocketMode, mac: Option<Mac>) -> PortSpec {
        let socket = self.path(name).display().to_string();
        let attach = Attachment::VhostUser { socket, mode, mac, queues: 1, mtu: None };
        PortSpec::new(PortName(name.into()), attach)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}
