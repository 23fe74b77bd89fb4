//! Ports, networks and machines by number, and who gets a frame.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use datapath::{Declared, Directory, Fate, Network, Peer, PortConfig, Remote, Verdict};
use lossless::{Audience, Destination, PortId, Reason};
use model::{Member, NetworkName, NetworkShare, NetworkSpec};
use units::{ClassSet, Instant, Mac};

pub const NOW: Instant = Instant::ZERO;

pub fn mac(number: usize) -> Mac {
    Mac::local(number as u32 + 1)
}

pub fn port(number: usize) -> PortId {
    PortId::new(number as u16).unwrap()
}

pub fn network(number: u16) -> Network {
    Network::new(number).unwrap()
}

pub fn local(number: u16) -> PortConfig {
    PortConfig { network: network(number), ..PortConfig::default() }
}

/// Who may get a frame: a port, or one of a far host.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Receiver {
    Port(PortId),
    Far(Remote),
}

/// Who gets a frame, or why nobody does. A flood may name nobody.
pub type Outcome = Result<BTreeSet<Receiver>, Reason>;

/// The port that far hosts are behind.
pub const UPLINK: usize = 20;

pub fn peer(number: u32) -> Peer {
    Peer::new(number).unwrap()
}

pub fn vtep(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0xc000_0200 + number).into()
}

/// Machines of a network by their addresses, peers and labels, as far hosts declare them.
pub fn declared(number: u16, machines: &BTreeMap<usize, (u32, u32)>) -> Declared {
    declared_with(number, machines, None)
}

/// The same, where they may choose these classes.
pub fn declared_with(
    number: u16,
    machines: &BTreeMap<usize, (u32, u32)>,
    classes: Option<ClassSet>,
) -> Declared {
    let vni = u32::from(number) + 100;
    let member = |(address, (host, label)): (&usize, &(u32, u32))| Member {
        mac: mac(*address),
        addresses: [].into(),
        vtep: vtep(*host).into(),
        label: *label,
    };
    let name = NetworkName(format!("n{number}"));
    let share = NetworkShare { classes, ..NetworkShare::default() };
    let members = machines.iter().map(member).collect();
    let spec = NetworkSpec { share, ..NetworkSpec::new(name, vni, members) };
    let directory = Directory::new(&[spec], &vtep(99).into()).unwrap();
    let number_of = |it: IpAddr| (0..9).find(|number| vtep(*number) == it).map(peer);
    Declared::new(vni, directory.network(vni).unwrap(), number_of)
}

/// Link-layer discovery's.
pub const LINK_LOCAL: Mac = Mac([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

/// One of a few addresses, of which two are groups'.
pub fn address(number: usize) -> Mac {
    match number {
        6 => Mac::BROADCAST,
        7 => LINK_LOCAL,
        _ => mac(number),
    }
}

/// Everybody of an audience.
pub fn all_of(audience: &Audience) -> BTreeSet<Receiver> {
    let flows = audience.flows.iter().map(|(uplink, flow)| {
        assert_eq!(*uplink, port(UPLINK));
        Receiver::Far(Remote::of_flow(*flow).0)
    });
    audience.ports.iter().map(Receiver::Port).chain(flows).collect()
}

pub fn outcome(verdict: Verdict<'_>) -> Outcome {
    match verdict {
        Verdict::Forward(Destination::One(port)) => Ok(BTreeSet::from([Receiver::Port(port)])),
        Verdict::Forward(Destination::Flow(uplink, flow)) => {
            assert_eq!(uplink, port(UPLINK));
            Ok(BTreeSet::from([Receiver::Far(Remote::of_flow(flow).0)]))
        }
        Verdict::Forward(Destination::Many(audience)) => Ok(all_of(audience)),
        Verdict::Refuse(refusal) => Err(refusal.reason()),
    }
}

pub fn outcome_of(fate: &Fate) -> Outcome {
    match fate {
        Fate::To(port) => Ok(BTreeSet::from([Receiver::Port(*port)])),
        Fate::Far(remote) => Ok(BTreeSet::from([Receiver::Far(*remote)])),
        Fate::Flooded(audience) => Ok(all_of(audience)),
        Fate::Refused(refusal) => Err(refusal.reason()),
    }
}
