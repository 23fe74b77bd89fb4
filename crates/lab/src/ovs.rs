//! Open vSwitch as the switch under test: its userspace datapath, with a database, logs and sockets
//! of its own.
//!
//! ```text
//!   ovsdb-server ◀─db.sock─ ovs-vswitchd ◀─AF_PACKET─▶ cables     all inside the switch's namespace
//! ```
//!
//! The datapath takes frames from the cables through packet sockets, which give it neither
//! unfinished checksums nor large segments to pass on; endpoints have no offload here, whatever the
//! lab says. It sends through the cables' queues, as a host's own stack would. When such a queue is
//! full it gives up the rest of the batch that it was about to send: a shallow queue loses more
//! here than it would by itself.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel::netlink::Netlink;
use units::Mac;

use crate::LabError;
use crate::bridge::SWITCH;
use crate::cable::{self, Offload};
use crate::program::{Program, find, first, run};
use crate::site::{Ground, Site};

const PACKAGE: &str = "openvswitch-switch";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// An Open vSwitch of our own: what configures and asks it. Its daemons end with the ground that
/// they run on.
#[derive(Debug)]
pub(crate) struct OpenVSwitch {
    directory: PathBuf,
    vsctl: PathBuf,
    appctl: PathBuf,
}

/// Starts Open vSwitch with a bridge whose ports are the endpoints' cables.
pub(crate) fn up(site: &Site<'_>) -> Result<(), LabError> {
    let [_, _, vswitchd, ..] = programs()?;
    cable::lay(site, &mut Netlink::open_in(&site.ground.switch)?, Offload::Off)?;

    let switch = OpenVSwitch::start(&site.ground, vswitchd, &[])?;
    let mut bridge = switch.configure();
    bridge.args(["add-br", SWITCH, "--", "set", "bridge", SWITCH, "datapath_type=netdev"]);
    // Without this it takes away every queue that it did not make itself.
    bridge.args(["--", "--id=@hands-off", "create", "qos", "type=linux-noop"]);
    for (endpoint, _) in &site.endpoints {
        let name = &endpoint.name;
        bridge.args(["--", "add-port", SWITCH, name, "--", "set", "port", name, "qos=@hands-off"]);
    }
    switch.apply(&mut bridge)?;
    if site.spec.static_addresses {
        for (endpoint, _) in &site.endpoints {
            switch.pin(&endpoint.name, 0, endpoint.mac)?;
        }
    }
    Ok(())
}

/// Open vSwitch's programs: its tool, its two daemons, and what tells and asks them.
pub(crate) fn programs() -> Result<[PathBuf; 5], LabError> {
    let found = |program| find(program).ok_or(LabError::Missing { program, package: PACKAGE });
    Ok([
        found("ovsdb-tool")?,
        found("ovsdb-server")?,
        found("ovs-vswitchd")?,
        found("ovs-vsctl")?,
        found("ovs-appctl")?,
    ])
}

/// How many frames the datapath has taken from its ports.
///
/// What the ports' devices received and the datapath did not was dropped in front of it, by a full
/// packet socket.
pub(crate) fn received(directory: &Path) -> Result<u64, LabError> {
    let [.., vsctl, appctl] = programs()?;
    let switch = OpenVSwitch { directory: directory.to_owned(), vsctl, appctl };
    Ok(sum(&switch.threads()?, "packets received:"))
}

/// Tells the bridge something by OpenFlow 1.3.
pub(crate) fn open_flow(directory: &Path, order: &str, what: &str) -> Result<(), LabError> {
    let program = "ovs-ofctl";
    let ofctl = find(program).ok_or(LabError::Missing { program, package: PACKAGE })?;
    let bridge = format!("unix:{}", directory.join(format!("{SWITCH}.mgmt")).display());
    let mut command = at_home(Command::new(ofctl), directory);
    run(command.args(["-O", "OpenFlow13", order, &bridge, what])).map(drop)
}

/// Adds up what the datapath's threads say behind `name`, as far as each begins with a number.
pub(crate) fn sum(threads: &str, name: &str) -> u64 {
    let said = threads.lines().filter_map(|line| line.trim().strip_prefix(name));
    said.filter_map(|said| said.split_ascii_whitespace().next()?.parse::<u64>().ok()).sum()
}

impl OpenVSwitch {
    /// Starts both daemons; `settings` of the database are there before the second reads them.
    pub(crate) fn start(
        ground: &Ground<'_>,
        vswitchd: PathBuf,
        settings: &[String],
    ) -> Result<Self, LabError> {
        let [tool, server, _, vsctl, appctl] = programs()?;
        let here = ground.directory.as_path();
        let switch = Self { directory: here.to_owned(), vsctl, appctl };
        let database = here.join("conf.db");
        run(at_home(Command::new(tool), here).arg("create").arg(&database).arg(SCHEMA))?;

        let mut command_line = at_home(first(&server), here);
        command_line
            .arg(&database)
            .arg(format!("--remote=p{}", switch.remote()))
            .arg(unixctl(&here.join("ovsdb-server.ctl")));
        let server = Program::start(ground, "ovsdb-server", command_line)?;
        server.wait_until(ground, || Ok(switch.socket().exists()))?;
        let mut setup = switch.configure();
        setup.args(["--no-wait", "init"]);
        if !settings.is_empty() {
            setup.args(["--", "set", "Open_vSwitch", "."]).args(settings);
        }
        run(&mut setup)?;

        let mut command_line = at_home(first(&vswitchd), here);
        command_line.arg(switch.remote()).arg(unixctl(&control(here)));
        let vswitchd = Program::start(ground, "ovs-vswitchd", command_line)?;
        vswitchd.wait_until(ground, || Ok(control(here).exists()))?;
        Ok(switch)
    }

    /// A change of the database: it returns once the daemon has done it all.
    pub(crate) fn configure(&self) -> Command {
        let mut configure = self.at_home(Command::new(&self.vsctl));
        configure.arg(format!("--db={}", self.remote())).arg("--timeout=20");
        configure
    }

    /// Makes a change of the database, and sees to it that its ports are there: what the daemon
    /// could not do it only writes down.
    pub(crate) fn apply(&self, change: &mut Command) -> Result<(), LabError> {
        run(change)?;
        let errors =
            run(self.configure().args(["--bare", "--columns=error", "list", "interface"]))?;
        match errors.lines().find(|line| !line.is_empty()) {
            None => Ok(()),
            Some(error) => {
                Err(LabError::Program { program: "ovs-vswitchd".into(), said: error.into() })
            }
        }
    }

    /// Tells the bridge behind which port an address is, in a VLAN; 0 is none.
    pub(crate) fn pin(&self, port: &str, vlan: u16, address: Mac) -> Result<(), LabError> {
        let (vlan, address) = (vlan.to_string(), address.to_string());
        run(self.ask().args(["fdb/add", SWITCH, port, &vlan, &address])).map(drop)
    }

    /// Tells tunnels that leave by a bridge who has an address in the network there.
    pub(crate) fn tell_neighbour(
        &self,
        bridge: &str,
        address: Ipv4Addr,
        mac: Mac,
    ) -> Result<(), LabError> {
        let (address, mac) = (address.to_string(), mac.to_string());
        run(self.ask().args(["tnl/neigh/set", bridge, &address, &mac])).map(drop)
    }

    /// What the datapath's threads have counted.
    pub(crate) fn threads(&self) -> Result<String, LabError> {
        run(self.ask().arg("dpif-netdev/pmd-stats-show"))
    }

    /// What the datapath's threads have counted of their turns, in words of their own.
    pub(crate) fn turns(&self) -> Result<String, LabError> {
        run(self.ask().arg("dpif-netdev/pmd-perf-show"))
    }

    /// A file of its own.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Has one of Open vSwitch's commands meet this one, not the host's.
    pub(crate) fn at_home(&self, command: Command) -> Command {
        at_home(command, &self.directory)
    }

    fn ask(&self) -> Command {
        let mut command = self.at_home(Command::new(&self.appctl));
        command.arg("-t").arg(control(&self.directory));
        command
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("db.sock")
    }

    fn remote(&self) -> String {
        format!("unix:{}", self.socket().display())
    }
}

/// Has a command of Open vSwitch's, or of the DPDK within, keep its files in the lab's directory.
fn at_home(mut command: Command, directory: &Path) -> Command {
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR", "RUNTIME_DIRECTORY"]
    {
        command.env(variable, directory);
    }
    command
}

fn control(directory: &Path) -> PathBuf {
    directory.join("ovs-vswitchd.ctl")
}

fn unixctl(socket: &Path) -> String {
    format!("--unixctl={}", socket.display())
}
