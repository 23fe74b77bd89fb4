//! A lab that is up.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use api::Client;
use kernel::netlink::{LinkChange, Netlink};
use kernel::netns::Namespace;
use kernel::spawn;

use crate::home::{GUEST, PROCESSES, Record};
use crate::process::Process;
use crate::program::{nft, run};
use crate::site::{Ground, Site, open};
use crate::{Controller, Endpoint, Home, LabError, LabSpec, SwitchKind};
use crate::{agent, bridge, endpoint, hosts, ovs};

/// A lab that is up: endpoints in namespaces of their own, around the switch under test.
///
/// ```text
///   zovn-7c1e-sender              zovn-7c1e-switch               zovn-7c1e-receiver
///  ┌────────────────┐   ┌──────────────────────────────────┐   ┌──────────────────┐
///  │ programs  eth0 ├───┤ sender    the switch    receiver ├───┤ eth0    programs │
///  └────────────────┘   └──────────────────────────────────┘   └──────────────────┘
///                          each port's rate and buffer: here, towards its endpoint
/// ```
///
/// Who brings a lab up owns it: dropped, by a panic too, the lab goes down with all that it made.
/// [`Lab::keep`] leaves it to whoever takes it down by name. A lab that was [opened](Lab::open)
/// belongs to somebody else and outlives this value.
#[derive(Debug)]
pub struct Lab {
    home: Home,
    record: Record,
    ours: bool,
}

impl Lab {
    /// Brings a lab up on this machine.
    ///
    /// # Errors
    ///
    /// [`LabError`]; nothing of the lab is left then.
    pub fn up(spec: &LabSpec) -> Result<Self, LabError> {
        Self::up_unless(spec, &Home::system(), &AtomicBool::new(false))
    }

    /// Brings a lab up at a home of the caller's choice, unless `interrupted` becomes true before
    /// that is done.
    ///
    /// # Errors
    ///
    /// [`LabError`], [`LabError::Interrupted`] among them; nothing of the lab is left then.
    pub fn up_unless(
        spec: &LabSpec,
        home: &Home,
        interrupted: &AtomicBool,
    ) -> Result<Self, LabError> {
        let record = home.enroll(spec)?;
        // From here on, leaving early drops the lab and so takes down what there is of it.
        let lab = Self { home: home.clone(), record, ours: true };
        lab.build(interrupted)?;
        Ok(lab)
    }

    /// The lab of this id or name, which somebody else brought up.
    ///
    /// # Errors
    ///
    /// [`LabError::Unknown`] if there is none, or only what is left of one.
    pub fn open(word: &str, home: &Home) -> Result<Self, LabError> {
        let record = home.find(word)?.record.ok_or_else(|| LabError::Unknown(word.to_owned()))?;
        Ok(Self { home: home.clone(), record, ours: false })
    }

    /// Leaves the lab up when this process ends.
    ///
    /// # Errors
    ///
    /// [`LabError::File`] if that cannot be written down; the lab is down then.
    pub fn keep(mut self) -> Result<(), LabError> {
        self.home.disown(&self.record.id)?;
        self.ours = false;
        Ok(())
    }

    /// Takes the lab down.
    ///
    /// # Errors
    ///
    /// The first thing that could not be removed.
    pub fn down(mut self) -> Result<(), LabError> {
        self.ours = false;
        self.home.remove(&self.record.id)
    }

    /// Its id, which no other lab on this machine has.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// What it was asked to be.
    pub fn spec(&self) -> &LabSpec {
        &self.record.spec
    }

    /// Its endpoints, in order.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.record.resolved
    }

    /// One of its endpoints.
    ///
    /// # Errors
    ///
    /// [`LabError::UnknownEndpoint`].
    pub fn endpoint(&self, name: &str) -> Result<&Endpoint, LabError> {
        self.endpoints().iter().find(|endpoint| endpoint.name == name).ok_or_else(|| {
            let known: Vec<_> =
                self.endpoints().iter().map(|endpoint| endpoint.name.as_str()).collect();
            LabError::UnknownEndpoint {
                lab: self.spec().name.clone(),
                endpoint: name.to_owned(),
                known: known.join(", "),
            }
        })
    }

    /// A command that will run inside an endpoint, and that is killed when the thread that starts
    /// it ends (prctl(2), PR_SET_PDEATHSIG): start it from a thread that lives as long as it
    /// should.
    ///
    /// # Errors
    ///
    /// [`LabError::UnknownEndpoint`], or [`LabError::Kernel`] if its namespace is gone.
    pub fn command(&self, endpoint: &str, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        let namespace = open(&self.endpoint(endpoint)?.netns)?;
        let mut command = Command::new(program);
        spawn::inside(&mut command, namespace);
        spawn::dies_with_parent(&mut command);
        Ok(command)
    }

    /// Runs a command inside an endpoint to its end, and gives what it said.
    ///
    /// # Errors
    ///
    /// [`LabError::UnknownEndpoint`], or [`LabError::Program`] with what it said if it failed.
    pub fn run_in(
        &self,
        endpoint: &str,
        program: &str,
        arguments: &[&str],
    ) -> Result<String, LabError> {
        run(self.command(endpoint, program)?.args(arguments))
    }

    /// Runs a command where the switch's ports are, each an interface of its endpoint's name, to
    /// its end, and gives what it said: of a lab with one switch.
    ///
    /// # Errors
    ///
    /// [`LabError::Program`] with what it said if it failed.
    pub fn run_at_switch(&self, program: &str, arguments: &[&str]) -> Result<String, LabError> {
        let mut command = Command::new(program);
        spawn::inside(&mut command, open(&self.home.switch_netns(self.id()))?);
        run(command.args(arguments))
    }

    /// Tells the bridge of a lab's Open vSwitch something by OpenFlow 1.3: an order of `ovs-ofctl`,
    /// such as `add-flow`, and what it takes.
    ///
    /// # Errors
    ///
    /// [`LabError::Program`] with what `ovs-ofctl` said if it failed.
    pub fn open_flow(&self, order: &str, what: &str) -> Result<(), LabError> {
        ovs::open_flow(&self.directory(), order, what)
    }

    /// Has the kernel filter where the switch's ports are, by the rules of an nftables file, all of
    /// them or none: of a lab with one switch.
    ///
    /// # Errors
    ///
    /// [`LabError::Missing`] without `nft`, [`LabError::Program`] with what it said if this kernel
    /// does not take the rules.
    pub fn filter(&self, rules: &str) -> Result<(), LabError> {
        let file = self.directory().join("rules.nft");
        fs::write(&file, rules).map_err(LabError::file(&file))?;
        let mut command = Command::new(nft()?);
        spawn::inside(&mut command, open(&self.home.switch_netns(self.id()))?);
        run(command.arg("-f").arg(&file)).map(drop)
    }

    /// Becomes a command inside an endpoint, or where the `controller` is; it ends when the lab is
    /// taken down. Returns only if that fails.
    pub fn exec(
        &self,
        endpoint: &str,
        program: &OsStr,
        arguments: &[impl AsRef<OsStr>],
    ) -> LabError {
        let namespace = match self.inside(endpoint) {
            Ok(namespace) => namespace,
            Err(error) => return error,
        };
        let book = self.home.directory_of(self.id()).join(PROCESSES);
        let recorded = Process::ourselves().ok_or(io::ErrorKind::NotFound.into());
        if let Err(error) = recorded.and_then(|process| process.record(&book, GUEST)) {
            return LabError::file(&book)(error);
        }
        let mut command = Command::new(program);
        spawn::inside(command.args(arguments), namespace);
        match command.exec() {
            error if error.kind() == io::ErrorKind::NotFound => LabError::NoProgram(program.into()),
            error => LabError::kernel(format!("run {}", program.display()))(error),
        }
    }

    /// The namespace of an endpoint, or of the controller's host.
    fn inside(&self, word: &str) -> Result<Namespace, LabError> {
        if word == hosts::CONTROLLER && self.spec().controller.is_some() {
            return open(&self.home.controller_netns(self.id()));
        }
        open(&self.endpoint(word)?.netns)
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.home.directory_of(self.id())
    }

    /// Where the files of each switch under test are: of one for all endpoints, or of one on each
    /// host.
    pub(crate) fn switches(&self) -> Vec<PathBuf> {
        let directory = self.directory();
        match &self.spec().hosts {
            None => vec![directory],
            Some(hosts) => {
                (0..hosts.count).map(|host| hosts::directory(&directory, host)).collect()
            }
        }
    }

    /// The namespace of the switch that an endpoint is at.
    pub(crate) fn switch_of(&self, endpoint: &Endpoint) -> Result<Namespace, LabError> {
        match endpoint.host {
            None => open(&self.home.switch_netns(self.id())),
            Some(host) => self.host(host),
        }
    }

    /// The namespace of the physical switch between hosts.
    pub(crate) fn physical(&self) -> Result<Namespace, LabError> {
        open(&self.home.switch_netns(self.id()))
    }

    /// Asks and orders the agent of a lab that has one switch, which is zovn.
    ///
    /// # Errors
    ///
    /// [`LabError`] if no agent's socket is there.
    pub fn agent(&self) -> Result<Client, LabError> {
        Ok(Client::new(agent::socket(&self.directory()))?)
    }

    /// Asks and orders a host's agent, by the host's number from 0.
    ///
    /// # Errors
    ///
    /// [`LabError`] if no agent's socket is there.
    pub fn agent_of(&self, host: u32) -> Result<Client, LabError> {
        Ok(Client::new(agent::socket(&hosts::directory(&self.directory(), host)))?)
    }

    /// Where agents find the lab's controller, if it has one.
    pub fn controller_at(&self) -> Option<SocketAddr> {
        let hosts = self.spec().hosts.as_ref().filter(|_| self.spec().controller.is_some());
        hosts.map(|hosts| hosts::agents_at(hosts.count))
    }

    /// Asks the controller that the lab's agents follow.
    ///
    /// # Errors
    ///
    /// [`LabError::NoController`] if it has none, [`LabError::Namespace`] if its host is gone.
    pub fn controller(&self) -> Result<Controller, LabError> {
        if self.spec().controller.is_none() {
            return Err(LabError::NoController(self.spec().name.clone()));
        }
        Controller::within(open(&self.home.controller_netns(self.id()))?)
    }

    /// Plugs a host's end of a cable between two hosts in, or pulls it out; both by their numbers
    /// from 0. The other end is up still.
    ///
    /// # Errors
    ///
    /// [`LabError`] if there is no such cable.
    pub fn plug(&self, host: u32, uplink: u32, is_in: bool) -> Result<(), LabError> {
        let change = LinkChange { up: Some(is_in), ..LinkChange::default() };
        Ok(Netlink::open_in(&self.host(host)?)?.change_link(&hosts::uplink(uplink), change)?)
    }

    /// The namespace of a host, by its number from 0.
    pub(crate) fn host(&self, host: u32) -> Result<Namespace, LabError> {
        open(&self.home.host_netns(self.id(), host))
    }

    fn build(&self, interrupted: &AtomicBool) -> Result<(), LabError> {
        let ground = Ground {
            directory: self.directory(),
            processes: self.directory().join(PROCESSES),
            switch: endpoint::make_switch_namespace(&self.home.switch_netns(self.id()))?,
            interrupted,
        };
        let mut site = Site { ground, spec: self.spec(), endpoints: Vec::new() };
        for endpoint in self.endpoints() {
            site.ground.check_interrupted()?;
            site.endpoints.push((endpoint, endpoint::make_namespace(&endpoint.netns)?));
        }
        if let Some(hosts) = &self.spec().hosts {
            let netns = |host| self.home.host_netns(self.id(), host);
            hosts::up(&site, hosts, netns, &self.home.controller_netns(self.id()))?;
            endpoint::finish(&site)?;
            return site.ground.check_interrupted();
        }
        match self.spec().switch {
            SwitchKind::Bridge => bridge::up(&site)?,
            SwitchKind::Ovs => ovs::up(&site)?,
            SwitchKind::ZovnLossy | SwitchKind::Zovn => agent::up(&site)?,
            SwitchKind::OvsDpdk | SwitchKind::Testpmd => {
                unreachable!("no spec of a lab resolves to one")
            }
        }
        endpoint::finish(&site)?;
        site.ground.check_interrupted()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.ours {
            // Nobody is left to tell; what remains is found by `zovn lab down --all`.
            let _ = self.home.remove(&self.record.id);
        }
    }
}
