//! The first packet of a connection, as a machine would send it.

use std::net::IpAddr;

use logical::Topology;
use logical::objects::AddressRange;
use logical::topology::{Attachment, Port, PortIndex};
use units::Mac;
use wire::ip::protocol;
use wire::{tcp, udp, whole};
use zerocopy::IntoBytes;

/// What a packet asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asks {
    /// An echo.
    Echo,
    /// A TCP port.
    Tcp(u16),
    /// A UDP port.
    Udp(u16),
}

/// The port of a name, as `web-1` or `shop/web-1`.
pub fn port(topology: &Topology, name: &str) -> Result<PortIndex, String> {
    let (tenant, short) = name.split_once('/').map_or((None, name), |(a, b)| (Some(a), b));
    let is_it = |port: &Port| {
        port.id.name.as_str() == short
            && tenant.is_none_or(|it| port.id.tenant.as_ref().is_some_and(|own| own.as_str() == it))
    };
    let mut found = topology.ports().filter(|(_, port)| is_it(port)).map(|(index, _)| index);
    match (found.next(), found.next()) {
        (Some(port), None) => Ok(port),
        (Some(_), Some(_)) => {
            Err(format!("several tenants have a port `{name}`: write it as tenant/{short}"))
        }
        (None, _) => {
            let all = topology.ports().map(|(_, port)| port.id.name.to_string());
            let all: Vec<_> = all.take(20).collect();
            Err(format!("no port is called `{name}`: there are {}", all.join(", ")))
        }
    }
}

/// The address that a word is: itself, or the first of a port of that name.
pub fn address(topology: &Topology, word: &str, like: &Port) -> Result<IpAddr, String> {
    if let Ok(address) = word.parse() {
        return Ok(address);
    }
    let port = &topology[port(topology, word)?];
    let is_of_family =
        |it: &&IpAddr| like.addresses.iter().any(|own| own.is_ipv4() == it.is_ipv4());
    let found = port.addresses.iter().find(is_of_family).or_else(|| port.addresses.first());
    found.copied().ok_or_else(|| format!("{} has no address: write one", port.id))
}

/// Whom a port's machine hands a packet for an address to: whoever has it on the switch, or the
/// switch's first router.
fn next_hop(topology: &Topology, port: &Port, to: IpAddr) -> Option<Mac> {
    let switch = &topology[port.switch];
    let legs = || {
        switch.ports.iter().filter_map(|it| match topology[*it].attachment {
            Attachment::Router(leg) => Some(&topology[leg]),
            _ => None,
        })
    };
    let own = switch.ports.iter().map(|it| &topology[*it]);
    let is_on_link = switch.subnets.iter().any(|it| AddressRange::from(*it).contains(to))
        || legs().any(|leg| leg.reaches(to))
        || legs().next().is_none();
    let there = own
        .filter(|it| it.addresses.contains(&to))
        .map(|it| it.mac)
        .chain(legs().filter(|leg| leg.has(to)).map(|leg| leg.mac))
        .next();
    match (there, is_on_link) {
        (Some(mac), _) => Some(mac),
        (None, true) => None,
        (None, false) => legs().next().map(|leg| leg.mac),
    }
}

/// The frame.
pub fn first(
    topology: &Topology,
    from: PortIndex,
    to: IpAddr,
    asks: Asks,
    source_port: u16,
    size: usize,
) -> Result<Vec<u8>, String> {
    let port = &topology[from];
    let own = port.addresses.iter().find(|it| it.is_ipv4() == to.is_ipv4()).copied();
    let own = own.ok_or_else(|| format!("{} has no address of {to}'s family", port.id))?;
    let mac = next_hop(topology, port, to).ok_or_else(|| {
        format!("nobody on {} has {to}, so ARP and ND would not answer", topology[port.switch].id)
    })?;
    let data = vec![0; size];
    let (carried, body) = match asks {
        Asks::Tcp(to) => {
            let header = tcp::Header::new(source_port, to, 0, tcp::Flags::SYN);
            (protocol::TCP, [header.as_bytes(), &data].concat())
        }
        Asks::Udp(to) => {
            let header = udp::Header::new(source_port, to, data.len()).ok_or("it is too long")?;
            (protocol::UDP, [header.as_bytes(), &data].concat())
        }
        Asks::Echo => {
            let (carried, kind) =
                if to.is_ipv4() { (protocol::ICMP, 8) } else { (protocol::ICMPV6, 128) };
            let [high, low] = source_port.to_be_bytes();
            (carried, [&[kind, 0, 0, 0, high, low, 0, 1][..], &data].concat())
        }
    };
    let frame = whole::packet((port.mac, mac), (own, to), carried, &body);
    frame.ok_or_else(|| "it is too long".to_owned())
}
