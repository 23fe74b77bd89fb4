//! Several hosts, joined by a physical switch or a cable: on each a switch of its own, with the
//! endpoints that are there. A controller, if there is one, is at a host of its own.
//!
//! ```text
//!   zovn-7c1e-host1               zovn-7c1e-switch               zovn-7c1e-host2
//!  ┌────────────────────┐        ┌─────────────────┐        ┌────────────────────┐
//!  │ agent, tunnels eth0├────────┤ physical switch ├────────┤eth0 tunnels, agent │
//!  └─┬──────────────┬───┘        └─────────────────┘        └───┬──────────────┬─┘
//!  endpoint 1    endpoint 2                                 endpoint 3    endpoint 4
//! ```

mod bare;
mod bridge;
mod cable;
mod controller;
mod kernel;
mod names;
mod ovs;
mod secret;
mod spec;
mod wireguard;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ::kernel::netlink::Netlink;
use model::{ClassKind, HostConfig, Member, NetworkName, NetworkSpec, PortSpec, TunnelKey, Uplink};
use seal::Keys;
use units::{Mac, Prefix};

pub(crate) use self::cable::{UPLINK, uplink};
pub(crate) use self::controller::agents_at;
pub use self::controller::{Controller, Declared};
pub(crate) use self::names::{CONTROLLER, host_name};
use self::names::{FIRST_MAC, NETWORK_NUMBER, vtep};
pub use self::spec::{
    Cable, ControllerSpec, HostsSpec, ParseCableError, PhysicalKind, PhysicalSpec, Topology,
};
pub use self::wireguard::check_wireguard;
use crate::physical::{FabricPort, FabricSpec, Trunk};
use crate::program::Program;
use crate::site::{Ground, Site};
use crate::{Endpoint, INTERFACE, LabError, SwitchKind, agent, endpoint};

/// The virtual network of endpoints that name none.
const NETWORK: &str = "lab";

/// Makes the hosts, the physical switch between them, and an agent on each; frames flow then.
/// `netns` has the name of a host's namespace, `controllers` that of the controller's.
pub(crate) fn up(
    site: &Site<'_>,
    hosts: &HostsSpec,
    netns: impl Fn(u32) -> String,
    controllers: &str,
) -> Result<(), LabError> {
    let grounds = (0..hosts.count).map(|host| {
        site.ground.check_interrupted()?;
        let switch = endpoint::make_host_namespace(&netns(host))?;
        let directory = directory(&site.ground.directory, host);
        fs::create_dir(&directory).map_err(LabError::file(&directory))?;
        Ok(site.ground.of_host(directory, switch))
    });
    let grounds = grounds.collect::<Result<Vec<_>, LabError>>()?;
    let controller = controller::ground(site, controllers)?;
    match (hosts.physical.cable, &grounds[..]) {
        (Some(cable), [one, other]) => {
            for number in 0..hosts.uplinks {
                cable::lay([one, other], number, hosts.physical.mtu, cable)?;
                // Open vSwitch has the address at a bridge of its own.
                if hosts.tunnels && site.spec.switch != SwitchKind::Ovs {
                    [one, other].into_iter().zip(0..).try_for_each(|(ground, host)| {
                        let mut netlink = Netlink::open_in(&ground.switch)?;
                        cable::give_address(&mut netlink, &cable::uplink(number), number, host)
                    })?;
                }
            }
        }
        _ => match hosts.physical.switch {
            PhysicalKind::Fabric => {
                let there = site.spec.controller.map(|_| controllers.to_owned());
                join(site, hosts, &netns, there)?;
                introduce(hosts, &grounds.iter().chain(&controller).collect::<Vec<_>>())?;
            }
            PhysicalKind::Bridge => bridge::join(&site.ground, &grounds, &hosts.physical)?,
        },
    }
    match site.spec.switch {
        SwitchKind::Bridge => return kernel::up(site, hosts, grounds),
        SwitchKind::Ovs => return ovs::up(site, hosts, &grounds),
        _ => {}
    }
    if let Some(ground) = &controller {
        controller::start(ground, hosts.count)?;
    }
    let follow = |host, directory: &Path| -> Vec<OsString> {
        let flags = || controller::flags(hosts.count, host, directory);
        controller.as_ref().map(|_| flags()).unwrap_or_default()
    };
    let key = hosts.key.map(|_| Keys::draw());
    for (host, ground) in (0..).zip(&grounds) {
        if let Some(key) = &key {
            secret::keep(Path::new(&key_file(&ground.directory)), key)?;
        }
        let mut config = config(site, hosts, host, &ground.directory);
        if hosts.tunnels {
            let flags = follow(host, &ground.directory);
            agent::start_by(ground, &config, None, &flags)?;
        } else {
            config.ports.push(bare::port(site, host, netns(host)));
            agent::start(ground, &config, None)?;
            bare::bridge(ground)?;
        }
    }
    Ok(())
}

/// The file of a host's key.
fn key_file(directory: &Path) -> String {
    directory.join("tunnel.key").to_string_lossy().into_owned()
}

/// Where a host's files are, by its number from 0.
pub(crate) fn directory(lab: &Path, host: u32) -> PathBuf {
    lab.join(host_name(host))
}

/// Where the physical switch tells what it counted.
pub(crate) fn fabric_socket(lab: &Path) -> PathBuf {
    lab.join("fabric.sock")
}

/// Starts the physical switch, which makes the hosts' interfaces, and that of the controller's in
/// its namespace.
fn join(
    site: &Site<'_>,
    hosts: &HostsSpec,
    netns: &impl Fn(u32) -> String,
    controllers: Option<String>,
) -> Result<(), LabError> {
    let PhysicalSpec { promise, mtu, rate, delay, buffer, ecn, loss, seed, offload, .. } =
        hosts.physical;
    let (leaves, spines) = match hosts.physical.topology {
        Topology::Star => (1, 0),
        Topology::LeafSpine => hosts.physical.leaves_and_spines(),
    };
    let leaf = |leaf: u32| format!("leaf{}", leaf + 1);
    let leaf_of = |host: u32| leaf(host.min(hosts.count - 1) * leaves / hosts.count);
    // The controller's is one more: with the last at its leaf, with an address behind all others'.
    let port = |host: u32, name: String, netns: String| FabricPort {
        name,
        switch: if spines > 0 { leaf_of(host) } else { String::new() },
        netns,
        interface: INTERFACE.into(),
        mac: Mac::local(FIRST_MAC + host),
        addresses: vec![Prefix { address: vtep(host).into(), length: 24 }],
        mtu,
        offload,
        rate,
        delay,
        buffer,
        class: Default::default(),
    };
    let trunk = |end: u32, spine: u32| Trunk {
        between: [leaf(end), format!("spine{}", spine + 1)],
        rate: hosts.physical.spine_rate.unwrap_or(rate),
        delay,
        buffer,
    };
    let spec = FabricSpec {
        trunks: (0..leaves)
            .flat_map(|leaf| (0..spines).map(move |spine| trunk(leaf, spine)))
            .collect(),
        classes: [promise; 8],
        ecn,
        loss,
        seed,
        ports: (0..hosts.count)
            .map(|host| port(host, host_name(host), netns(host)))
            .chain(controllers.map(|netns| port(hosts.count, CONTROLLER.into(), netns)))
            .collect(),
        ..FabricSpec::default()
    };
    let file = site.ground.directory.join("fabric.toml");
    let text =
        toml::to_string(&spec).expect("every value of a physical switch can be written as TOML");
    fs::write(&file, text).map_err(LabError::file(&file))?;
    let mut command = Command::new(agent::ourselves()?);
    command
        .arg("fabric")
        .arg("-c")
        .arg(&file)
        .arg("--socket")
        .arg(fabric_socket(&site.ground.directory));
    let switch = Program::start(&site.ground, "fabric", command)?;
    switch.wait_until(&site.ground, || Ok(switch.said().contains("\"ready\":true")))
}

/// Tells hosts at several switches each other's addresses: nobody can be asked across the spines.
fn introduce(hosts: &HostsSpec, grounds: &[&Ground<'_>]) -> Result<(), LabError> {
    if hosts.physical.topology == Topology::Star {
        return Ok(());
    }
    for (host, ground) in (0..).zip(grounds) {
        let mut netlink = Netlink::open_in(&ground.switch)?;
        let link = netlink.index(INTERFACE)?;
        for other in (0..grounds.len() as u32).filter(|other| *other != host) {
            netlink.add_neighbour(link, vtep(other).into(), Mac::local(FIRST_MAC + other))?;
        }
    }
    Ok(())
}

fn config(site: &Site<'_>, hosts: &HostsSpec, host: u32, directory: &Path) -> HostConfig {
    let here = site.endpoints.iter().map(|(endpoint, _)| *endpoint);
    // A logical port's network is its own matter.
    let labelled = || (1..).zip(here.clone()).filter(|(_, endpoint)| endpoint.logical.is_none());
    let network_of = |endpoint: &Endpoint| -> NetworkName {
        endpoint.network.clone().unwrap_or(NetworkName(NETWORK.into()))
    };
    let member = |(label, endpoint): (u32, &Endpoint)| Member {
        mac: endpoint.mac,
        addresses: endpoint.addresses.iter().map(|prefix| prefix.address).collect(),
        vtep: hosts.vteps(endpoint.host.unwrap_or(0)),
        label,
    };
    let ours = here.clone().filter(|endpoint| endpoint.host == Some(host));
    let mut config = agent::host_config(site.spec, ours, &agent::socket(directory));
    if !hosts.tunnels {
        return config;
    }
    let plain = config.ports.iter_mut().filter(|port| port.logical.is_none());
    for PortSpec { name: port, network, label, .. } in plain {
        let found = labelled().find(|(_, endpoint)| endpoint.name == port.0);
        let (number, endpoint) = found.expect("each port is an endpoint's");
        (*network, *label) = (Some(network_of(endpoint)), Some(number));
    }
    let names: BTreeSet<_> = labelled().map(|(_, endpoint)| network_of(endpoint)).collect();
    let network = |(vni, name): (u32, NetworkName)| {
        let members = labelled().filter(|(_, endpoint)| network_of(endpoint) == name);
        let members = members.map(member).collect();
        let terms = site.spec.networks.iter().find(|terms| terms.name == name);
        let share = terms.map(|terms| terms.share).unwrap_or_default();
        NetworkSpec { share, ..NetworkSpec::new(name, vni, members) }
    };
    let networks = (NETWORK_NUMBER..).zip(names).map(network).collect();
    HostConfig {
        uplink: Some(Uplink {
            encapsulation: hosts.encapsulation,
            retransmit: hosts.retransmit,
            credit: hosts.credit,
            key: hosts.key.map(|mode| TunnelKey { file: key_file(directory), mode }),
            rate: hosts.rate,
            grants: hosts.grants,
            pfc: (hosts.physical.promise == ClassKind::Lossless).then_some(hosts.physical.rate),
            ..Uplink::new(hosts.vteps(host))
        }),
        networks,
        ..config
    }
}
