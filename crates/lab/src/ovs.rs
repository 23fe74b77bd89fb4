//! Open vSwitch as the switch under test: its userspace datapath, with a database, logs and sockets of its own.
//!
//! ```text
//!   ovsdb-server ◀─db.sock─ ovs-vswitchd ◀─AF_PACKET─▶ cables     all inside the switch's namespace
//! ```
//!
//! The datapath takes frames from the cables through packet sockets, which give it neither unfinished checksums nor
//! large segments to pass on; endpoints have no offload here, whatever the lab says. It sends through the cables'
//! queues, as a host's own stack would. When such a queue is full it gives up the rest of the batch that it was
//! about to send: a shallow queue loses more here than it would by itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use ports::netlink::Netlink;

use crate::LabError;
use crate::bridge::SWITCH;
use crate::cable::{self, Offload};
use crate::lab::Site;
use crate::program::{Program, find, run};

const PACKAGE: &str = "openvswitch-switch";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Starts Open vSwitch with a bridge whose ports are the endpoints' cables.
pub(crate) fn up(site: &Site<'_>) -> Result<(), LabError> {
    let [tool, server, vswitchd, vsctl, appctl] = programs()?;
    cable::lay(site, &mut Netlink::open_in(&site.switch)?, Offload::Off)?;

    let here = site.directory.as_path();
    let (database, socket) = (here.join("conf.db"), here.join("db.sock"));
    let remote = format!("unix:{}", socket.display());
    run(command(tool, here).arg("create").arg(&database).arg(SCHEMA))?;

    let mut command_line = daemon(server, here);
    command_line
        .arg(&database)
        .arg(format!("--remote=p{remote}"))
        .arg(unixctl(&here.join("ovsdb-server.ctl")));
    let server = Program::start(site, "ovsdb-server", command_line)?;
    server.wait_until(site, || Ok(socket.exists()))?;
    let configure = || {
        let mut configure = command(vsctl.clone(), here);
        configure.arg(format!("--db={remote}")).arg("--timeout=20");
        configure
    };
    run(configure().args(["--no-wait", "init"]))?;

    let mut command_line = daemon(vswitchd, here);
    command_line.arg(&remote).arg(unixctl(&control(here)));
    let vswitchd = Program::start(site, "ovs-vswitchd", command_line)?;
    vswitchd.wait_until(site, || Ok(control(here).exists()))?;
    // Returns once the daemon has done it all.
    let mut bridge = configure();
    bridge.args(["add-br", SWITCH, "--", "set", "bridge", SWITCH, "datapath_type=netdev"]);
    // Without this it takes away every queue that it did not make itself.
    bridge.args(["--", "--id=@hands-off", "create", "qos", "type=linux-noop"]);
    for (endpoint, _) in &site.endpoints {
        let name = &endpoint.name;
        bridge.args(["--", "add-port", SWITCH, name, "--", "set", "port", name, "qos=@hands-off"]);
    }
    run(&mut bridge)?;
    if site.spec.static_addresses {
        for (endpoint, _) in &site.endpoints {
            let mac = endpoint.mac.to_string();
            // Port and address, in VLAN 0: untagged.
            run(ask(&appctl, here).args(["fdb/add", SWITCH, &endpoint.name, "0", &mac]))?;
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
/// What the ports' devices received and the datapath did not was dropped in front of it, by a full packet socket.
pub(crate) fn received(directory: &Path) -> Result<u64, LabError> {
    let [.., appctl] = programs()?;
    let said = run(ask(&appctl, directory).arg("dpif-netdev/pmd-stats-show"))?;
    let counts = said.lines().filter_map(|line| line.trim().strip_prefix("packets received:"));
    Ok(counts.filter_map(|count| count.trim().parse::<u64>().ok()).sum())
}

/// A command of Open vSwitch's that keeps its files in the lab's directory.
fn command(program: PathBuf, directory: &Path) -> Command {
    let mut command = Command::new(program);
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
        command.env(variable, directory);
    }
    command
}

/// The daemons' priority: what Debian's own scripts give them, and zovn's agent its thread.
const NICE: i32 = -10;

/// Every frame waits for the daemons: they go first, as zovn's thread does.
fn daemon(program: PathBuf, directory: &Path) -> Command {
    let ours = rustix::process::getpriority_process(None).unwrap_or(0);
    let mut daemon = command("nice".into(), directory);
    // `nice` adds to what we run at.
    daemon.arg("-n").arg((NICE - ours).to_string()).arg(program);
    daemon
}

fn ask(appctl: &Path, directory: &Path) -> Command {
    let mut command = command(appctl.to_owned(), directory);
    command.arg("-t").arg(control(directory));
    command
}

fn control(directory: &Path) -> PathBuf {
    directory.join("ovs-vswitchd.ctl")
}

fn unixctl(socket: &Path) -> String {
    format!("--unixctl={}", socket.display())
}
