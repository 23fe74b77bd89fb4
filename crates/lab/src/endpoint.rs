//! What the switch does not do for its endpoints: namespaces, settings, neighbours.

use std::fs;
use std::path::Path;
use std::time::Instant;

use kernel::netlink::{LinkChange, Netlink, PATIENCE, Prefix, Route, await_addresses};
use kernel::netns::Namespace;

use crate::site::Site;
use crate::{Endpoint, LabError};

/// What an endpoint's interface is called inside it.
pub const INTERFACE: &str = "eth0";

/// Makes an endpoint's namespace, its loopback up and IPv6 as quiet as it can be: what is not
/// traffic would be counted as if it were.
pub(crate) fn make_namespace(name: &str) -> Result<Namespace, LabError> {
    let namespace = make(name)?;
    for (key, value) in [
        // RFC 4862 §5.4: addresses here are unique because the lab gave them.
        ("net.ipv6.conf.default.accept_dad", "0"),
        // RFC 4861 §6.3.7: nobody here is a router.
        ("net.ipv6.conf.default.router_solicitations", "0"),
        ("net.ipv6.conf.default.accept_ra", "0"),
    ] {
        set(&namespace, name, key, value)?;
    }
    Ok(namespace)
}

/// Makes the switch's namespace. The host in which a switch stands sends nothing of its own.
pub(crate) fn make_switch_namespace(name: &str) -> Result<Namespace, LabError> {
    let namespace = make(name)?;
    set(&namespace, name, "net.ipv6.conf.default.disable_ipv6", "1")?;
    Ok(namespace)
}

/// Makes a host's namespace. It sends nothing but what goes through its tunnels.
pub(crate) fn make_host_namespace(name: &str) -> Result<Namespace, LabError> {
    make_switch_namespace(name)
}

/// Gives endpoints the rest of what they asked for. Those whose interfaces come later have asked
/// for nothing that needs one.
pub(crate) fn finish(site: &Site<'_>) -> Result<(), LabError> {
    for (endpoint, namespace) in &site.endpoints {
        site.ground.check_interrupted()?;
        if !site.spec.comes_later(endpoint) {
            finish_interface(site, endpoint, namespace)?;
        }
        for (key, value) in &endpoint.sysctls {
            set(namespace, &endpoint.name, key, value)?;
        }
    }
    Ok(())
}

/// Waits for an endpoint's addresses, and tells its interface of the others.
fn finish_interface(
    site: &Site<'_>,
    endpoint: &Endpoint,
    namespace: &Namespace,
) -> Result<(), LabError> {
    await_addresses(namespace, INTERFACE, endpoint.addresses.clone(), Instant::now() + PATIENCE)?;
    let mut netlink = Netlink::open_in(namespace)?;
    let link = netlink.index(INTERFACE)?;
    if site.spec.static_addresses {
        for (other, _) in site.endpoints.iter().filter(|(other, _)| other.name != endpoint.name) {
            for address in &other.addresses {
                netlink.add_neighbour(link, address.address, other.mac)?;
            }
        }
    }
    if endpoint.initcwnd.is_some() {
        for address in &endpoint.addresses {
            let to = network(*address);
            netlink.add_route(Route { to, via: None, link, initial_window: endpoint.initcwnd })?;
        }
    }
    Ok(())
}

/// Gives an endpoint's interface its addresses and sets it up.
pub(crate) fn configure(
    netlink: &mut Netlink,
    endpoint: &Endpoint,
    mtu: u32,
) -> Result<(), LabError> {
    let change = LinkChange {
        mac: Some(endpoint.mac),
        mtu: Some(mtu),
        up: Some(true),
        ..Default::default()
    };
    netlink.change_link(INTERFACE, change)?;
    let link = netlink.index(INTERFACE)?;
    for address in &endpoint.addresses {
        netlink.add_address(link, *address)?;
    }
    Ok(())
}

fn make(name: &str) -> Result<Namespace, LabError> {
    let namespace = Namespace::create(name)?;
    let up = LinkChange { up: Some(true), ..Default::default() };
    Netlink::open_in(&namespace)?.change_link("lo", up)?;
    Ok(namespace)
}

fn set(namespace: &Namespace, endpoint: &str, key: &str, value: &str) -> Result<(), LabError> {
    // /proc/sys/net is the namespace's whose thread opens it.
    let path = Path::new("/proc/sys").join(key.replace('.', "/"));
    namespace.run(|| fs::write(path, value))?.map_err(|source| LabError::Sysctl {
        endpoint: endpoint.into(),
        key: key.into(),
        value: value.into(),
        source,
    })
}

/// The network that an address lies in: its bits behind the prefix cleared.
fn network(prefix: Prefix) -> Prefix {
    let address = match prefix.address {
        std::net::IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.length)).unwrap_or(0);
            std::net::Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        std::net::IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.length)).unwrap_or(0);
            std::net::Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    };
    Prefix { address, length: prefix.length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lies_in_its_network() {
        for (address, lies_in) in [
            ("10.0.3.9/24", "10.0.3.0/24"),
            ("10.0.3.9/32", "10.0.3.9/32"),
            ("10.0.3.9/0", "0.0.0.0/0"),
            ("fd00::9/64", "fd00::/64"),
            ("fd00::9/128", "fd00::9/128"),
        ] {
            assert_eq!(network(address.parse().unwrap()).to_string(), lies_in);
        }
    }
}
