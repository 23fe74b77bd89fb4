//! Who is there beside the victim, and what each of them does.
//!
//! ```text
//!   port       victim, senders ──▶ one switch ──▶ witness, receivers       no link in between
//!   uplink     victim, senders ──▶ host 1 ══ link ══▶ host 2 ──▶ witness, receivers
//!   downlink   victim ──▶ host 1 ──┐
//!              senders ─▶ host 2 … ┴══ link ══▶ the last host ──▶ witness, receivers
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};

use lab::{Lab, LabSpec, NetworkTerms};
use model::{ClassKind, NetworkName, NetworkShare};
use units::{Class, ClassSet, Mac, Rate, Span};

use super::kind::{Adversary, Parties, Takes};
use crate::MeasureError;
use crate::endpoint::{
    RawSend, Role, Sockets, Target, TcpReceive, TcpSend, TimedSend, Timetable, UdpReceive, UdpSend,
};
use crate::isolation::meeting::{Meeting, join};
use crate::isolation::peer::{Peer, Terms};
use crate::isolation::set::Set;
use crate::site::{address, quiet_endpoint};

/// The victim's minimum, of the link's rate.
pub const GUARANTEE: f64 = 0.2;

/// What the victim's network and its endpoints are called.
pub const VICTIM: &str = "victim";
pub const WITNESS: &str = "witness";

/// TCP's congestion control.
pub const CONGESTION: &str = "cubic";

/// Expedited forwarding (RFC 3246).
pub const EXPEDITED: u8 = 46;

/// The highest class, and the two that [`Adversary::Streams`] has.
pub const HIGHEST: Class = Class::new(7).unwrap();
const PAIR: [Class; 2] = [Class::new(0).unwrap(), Class::new(5).unwrap()];

/// The Ethernet address that both ports of [`Adversary::Addresses`] claim: no endpoint has it.
const CLAIMED: Mac = Mac::local(0x00ee_0001);

/// One case, as far as it decides who does what.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub adversary: Adversary,
    pub at: Meeting,
    pub peer: Peer,
    /// What the fabric promises, where there is one.
    pub promise: Option<ClassKind>,
    /// How many other networks there are, of those that are as many as one likes.
    pub tenants: u32,
    /// c: the rate of the link, in bits of long frames.
    pub rate: Rate,
    /// How long the others send.
    pub lasts: Span,
    /// Where receivers listen.
    pub port: u16,
}

/// One program of the other networks.
pub struct Part {
    /// The endpoint that it runs in.
    pub endpoint: String,
    pub role: Role,
}

impl Scene {
    pub fn parties(&self) -> Parties {
        self.adversary.parties(self.tenants)
    }

    /// The names of all receivers of the others.
    pub fn receivers(&self) -> impl Iterator<Item = String> {
        let Parties { networks, receivers, .. } = self.parties();
        (0..networks)
            .flat_map(move |network| (0..receivers).map(move |number| receiver(network, number)))
    }

    /// Endpoints by their names, with their hosts, from 1, and their networks.
    fn places(&self) -> Vec<(String, u32, String)> {
        let Parties { networks, senders, receivers } = self.parties();
        let each_has_a_host = self.adversary == Adversary::Incast;
        let from = |number: u32| match self.at {
            Meeting::Port | Meeting::Uplink => 1,
            Meeting::Downlink => 2 + if each_has_a_host { number } else { 0 },
        };
        let last = match self.at {
            Meeting::Port => 1,
            Meeting::Uplink => 2,
            Meeting::Downlink => from(senders.saturating_sub(1)) + 1,
        };
        let mut places = vec![(VICTIM.to_owned(), 1, VICTIM.to_owned())];
        for network in 0..networks {
            let sender = |number| (sender(network, number), from(number), network_name(network));
            places.extend((0..senders).map(sender));
        }
        places.push((WITNESS.to_owned(), last, VICTIM.to_owned()));
        for network in 0..networks {
            let receiver = |number| (receiver(network, number), last, network_name(network));
            places.extend((0..receivers).map(receiver));
        }
        places
    }

    /// The lab, and the rate of its links.
    pub fn lab(&self) -> Result<(LabSpec, Rate), MeasureError> {
        let Self { adversary, at, peer, .. } = *self;
        let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), peer.switch());
        spec.offload = adversary == Adversary::Gso;
        let places = self.places();
        for (number, (name, ..)) in (1..).zip(&places) {
            spec.endpoints.push(quiet_endpoint(name.clone(), number)?);
        }
        if at == Meeting::Port && peer == Peer::Bridge {
            return Ok((spec, self.rate));
        }
        let places = places.iter().map(|(_, host, network)| (*host, &network[..]));
        let link = join(&mut spec, peer, places, self.rate, self.promise);
        if peer.terms() != Terms::None {
            let min = Some(Set::of(GUARANTEE, link));
            spec.networks.push(terms(VICTIM, NetworkShare { min, ..NetworkShare::default() }));
        }
        if adversary == Adversary::Streams && peer != Peer::Bridge {
            let classes = PAIR.iter().fold(0, |bits, class| bits | 1 << class.pcp());
            let classes = Some(ClassSet::from_bits(classes));
            let share = NetworkShare { classes, ..NetworkShare::default() };
            spec.networks.push(terms(&network_name(0), share));
        }
        Ok((spec, link))
    }

    /// Who receives what the others send.
    pub fn takers(&self) -> impl Iterator<Item = Part> {
        let Self { adversary, port, .. } = *self;
        let Parties { networks, senders, receivers } = self.parties();
        (0..networks).flat_map(move |network| {
            (0..receivers).map(move |number| {
                let role = match adversary.takes(number) {
                    Takes::Datagrams => Role::UdpReceive(UdpReceive { port, senders, pace: None }),
                    Takes::Streams(flows) => {
                        let congestion = CONGESTION.into();
                        Role::TcpReceive(TcpReceive { port, flows, congestion, part: None })
                    }
                    Takes::Nothing { sockets: count } => {
                        let (on_one_port, are_read) = (false, false);
                        Role::Sockets(Sockets { port, count, on_one_port, are_read })
                    }
                    Takes::Copies { sockets: count } => {
                        let (on_one_port, are_read) = (true, true);
                        Role::Sockets(Sockets { port, count, on_one_port, are_read })
                    }
                };
                Part { endpoint: receiver(network, number), role }
            })
        })
    }

    /// Who sends.
    pub fn senders(&self, lab: &Lab) -> Result<Vec<Part>, MeasureError> {
        let Parties { networks, senders, .. } = self.parties();
        let mut parts = Vec::new();
        for network in 0..networks {
            for number in 0..senders {
                let streams = match self.adversary.takes(0) {
                    Takes::Streams(streams) => streams,
                    _ => 1,
                };
                for _ in 0..streams {
                    let endpoint = sender(network, number);
                    parts.push(Part { role: self.role(lab, network, number)?, endpoint });
                }
            }
        }
        Ok(parts)
    }

    /// What one of the senders does, `number` being its own among those of its network.
    fn role(&self, lab: &Lab, network: u32, number: u32) -> Result<Role, MeasureError> {
        let Self { adversary, lasts: duration, port, .. } = *self;
        let Parties { networks, senders, receivers } = self.parties();
        let to = address(lab, &receiver(network, 0), port)?;
        let size = adversary.size();
        let rate = adversary.rate(self.rate.bits_per_sec() as f64, networks * senders);
        if let Some((burst, gap)) = adversary.period() {
            let bursts = duration.as_nanos() / (burst + gap).as_nanos();
            let bursts = u32::try_from(bursts).unwrap_or(u32::MAX).max(1);
            let timetable = Timetable { rate, lead: Span::ZERO, bursts, burst, gap };
            return Ok(Role::TimedSend(TimedSend { to, sender: number, size, timetable }));
        }
        let raw = |from: Target, to: Vec<Target>| RawSend {
            from,
            to,
            ports: 1,
            sources: 1,
            tags: Vec::new(),
            dscp: 0,
            sender: number,
            size,
            rate,
            duration,
        };
        let from = || target(lab, &sender(network, number), port);
        let first = || target(lab, &receiver(network, 0), port);
        Ok(match adversary {
            Adversary::Gso | Adversary::Tcp => {
                Role::TcpSend(TcpSend { to, congestion: CONGESTION.into(), duration })
            }
            Adversary::Priority => Role::RawSend(RawSend {
                tags: vec![HIGHEST],
                dscp: EXPEDITED,
                ..raw(from()?, vec![first()?])
            }),
            Adversary::Streams => {
                let all = (0..receivers).map(|one| target(lab, &receiver(network, one), port));
                Role::RawSend(RawSend {
                    tags: PAIR.into(),
                    ..raw(from()?, all.collect::<Result<_, _>>()?)
                })
            }
            Adversary::Parked => {
                let ports = match adversary.takes(0) {
                    Takes::Nothing { sockets } => sockets,
                    _ => 1,
                };
                Role::RawSend(RawSend { ports, ..raw(from()?, vec![first()?]) })
            }
            Adversary::Broadcast => {
                let address = SocketAddrV4::new(Ipv4Addr::BROADCAST, port);
                let everybody = Target { mac: Mac::BROADCAST, address };
                Role::RawSend(raw(from()?, vec![everybody]))
            }
            Adversary::Addresses => {
                Role::RawSend(raw(Target { mac: CLAIMED, ..from()? }, vec![first()?]))
            }
            _ => Role::UdpSend(UdpSend { to, sender: number, size, rate: Some(rate), duration }),
        })
    }
}

/// An endpoint as the end of a flow.
fn target(lab: &Lab, name: &str, port: u16) -> Result<Target, MeasureError> {
    let endpoint = lab.endpoint(name)?;
    let ip = endpoint.ipv4().unwrap_or(Ipv4Addr::UNSPECIFIED);
    Ok(Target { mac: endpoint.mac, address: SocketAddrV4::new(ip, port) })
}

fn terms(network: &str, share: NetworkShare) -> NetworkTerms {
    NetworkTerms { name: NetworkName(network.into()), share }
}

/// The names of endpoints of the other networks.
fn sender(network: u32, number: u32) -> String {
    format!("tx{}-{}", network + 1, number + 1)
}

fn receiver(network: u32, number: u32) -> String {
    format!("rx{}-{}", network + 1, number + 1)
}

/// What another network is called, by its number from 0.
pub fn network_name(network: u32) -> String {
    format!("other{}", network + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(adversary: Adversary, at: Meeting, peer: Peer) -> Scene {
        let rate = Rate::from_bits_per_sec(100_000_000).unwrap();
        let lasts = Span::from_secs(1);
        Scene { adversary, at, peer, promise: None, tenants: 8, rate, lasts, port: 5001 }
    }

    #[test]
    fn every_lab_can_be() {
        for adversary in Adversary::ALL {
            for at in Meeting::ALL {
                for peer in Peer::ALL {
                    if adversary.meets(at) && adversary.stands(at, peer) {
                        let (spec, _) = scene(adversary, at, peer).lab().unwrap();
                        spec.resolve("zovn-7").unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn an_incast_comes_from_a_host_each() {
        let places = scene(Adversary::Incast, Meeting::Downlink, Peer::Zovn).places();
        let hosts: Vec<u32> = places.iter().map(|(_, host, _)| *host).collect();
        let expected: Vec<u32> = (1..=17).chain([17]).collect();
        assert_eq!(hosts, expected);
        let places = scene(Adversary::Bytes, Meeting::Downlink, Peer::Zovn).places();
        assert!(places[1..9].iter().all(|(_, host, _)| *host == 2));
        assert!(places[9..].iter().all(|(_, host, _)| *host == 3));
    }

    #[test]
    fn only_the_victim_has_a_minimum() {
        let terms = |adversary| {
            let (spec, _) = scene(adversary, Meeting::Uplink, Peer::Zovn).lab().unwrap();
            let of = |terms: NetworkTerms| (terms.name.0, terms.share.min.is_some());
            spec.networks.into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(terms(Adversary::Bytes), [("victim".to_owned(), true)]);
        let streams = [("victim".to_owned(), true), ("other1".to_owned(), false)];
        assert_eq!(terms(Adversary::Streams), streams);
    }
}
