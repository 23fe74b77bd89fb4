//! WireGuard below the kernel's overlay: what VXLAN sends to the other host is encrypted.
//!
//! The kernel's own is used where it has one, or else `wireguard-go`, which is a process with a TUN
//! device.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernel::netlink::{LinkChange, Netlink, Prefix};
use kernel::spawn;

use super::names::vtep;
use super::secret::keep;
use crate::LabError;
use crate::program::{Program, find, first, run};
use crate::site::Ground;

const PORT: u16 = 51_820;

/// A host's address inside.
pub(super) fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 97, 0, host as u8 + 1)
}

/// Whether tunnels can go over WireGuard here.
///
/// # Errors
///
/// [`LabError::Missing`] names what to install.
pub fn check_wireguard() -> Result<(), LabError> {
    programs().map(drop)
}

fn programs() -> Result<[PathBuf; 2], LabError> {
    let missing = |program, package| move || LabError::Missing { program, package };
    Ok([
        find("wg").ok_or_else(missing("wg", "wireguard-tools"))?,
        find("wireguard-go").ok_or_else(missing("wireguard-go", "wireguard-go"))?,
    ])
}

/// Makes the device on both hosts, with an address there, so that packets of `mtu` bytes and what
/// it puts around them fit.
pub(super) fn up([one, other]: [&Ground<'_>; 2], mtu: u32) -> Result<(), LabError> {
    let [wg, go] = programs()?;
    let ends = [(one, 0), (other, 1)];
    let mut public = Vec::new();
    for (ground, _) in ends {
        let file = ground.directory.join("wireguard.key");
        let private = run(Command::new(&wg).arg("genkey"))?;
        keep(&file, &private)?;
        let input = fs::File::open(&file).map_err(LabError::file(&file))?;
        let output = Command::new(&wg).arg("pubkey").stdin(Stdio::from(input)).output();
        let output = output.map_err(LabError::kernel("run wg"))?;
        public.push(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    for (ground, host) in ends {
        // Its socket is among those of the whole machine.
        let device = format!("wg{}-{host}", std::process::id());
        add(ground, &go, &device)?;
        let mut set = Command::new(&wg);
        set.args(["set", &device, "listen-port", &PORT.to_string(), "private-key"]);
        set.arg(ground.directory.join("wireguard.key"));
        set.args(["peer", &public[1 - host as usize], "allowed-ips"]);
        set.arg(format!("{}/32", address(1 - host)));
        set.arg("endpoint").arg(format!("{}:{PORT}", vtep(1 - host)));
        inside(ground, &mut set)?;
        run(&mut set)?;
        let mut netlink = Netlink::open_in(&ground.switch)?;
        let link = netlink.index(&device)?;
        netlink.add_address(link, Prefix { address: address(host).into(), length: 24 })?;
        let change = LinkChange { mtu: Some(mtu), up: Some(true), ..LinkChange::default() };
        netlink.change_link(&device, change)?;
    }
    Ok(())
}

/// Makes the device: the kernel's, or a process's.
fn add(ground: &Ground<'_>, go: &Path, device: &str) -> Result<(), LabError> {
    let mut ip = Command::new("ip");
    ip.args(["link", "add", device, "type", "wireguard"]);
    inside(ground, &mut ip)?;
    if run(&mut ip).is_ok() {
        return Ok(());
    }
    let mut command = first(go);
    command.args(["--foreground", device]);
    let program = Program::start(ground, "wireguard-go", command)?;
    let socket = PathBuf::from(format!("/var/run/wireguard/{device}.sock"));
    program.wait_until(ground, || Ok(socket.exists()))
}

fn inside(ground: &Ground<'_>, command: &mut Command) -> Result<(), LabError> {
    spawn::inside(command, crate::site::open(&ground.switch.path().to_string_lossy())?);
    Ok(())
}
