//! What networks that are files intend: which packets machines can send each other, and who is to
//! get each.

use std::collections::BTreeSet;

use interpreter::{Arrival, Decision, State, decide};
use lab::{Endpoint, Lab};
use logical::Topology;
use logical::topology::{Attachment, PortIndex};
use reach::next_hop;
use units::Instant;
use wire::ip::protocol;

use super::question::{Question, Service, Token};

/// How many ports of a protocol are asked for, at most.
const MOST_PORTS: usize = 16;

/// An endpoint that is a logical port.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its logical port, as `tenant/name`.
    pub name: String,
    /// What its host is called.
    pub host: String,
}

impl Machine {
    /// Those of a lab.
    pub fn of(lab: &Lab) -> Vec<Self> {
        let machine = |endpoint: &Endpoint| {
            let name = endpoint.logical.as_ref()?.to_string();
            let host = endpoint.host.map_or("host".into(), |it| format!("host{}", it + 1));
            Some(Self { endpoint: endpoint.clone(), name, host })
        };
        lab.endpoints().iter().filter_map(machine).collect()
    }
}

/// What is intended of a packet.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Verdict {
    /// The machines that get it, by number, in order.
    pub at: Vec<usize>,
    /// Why not all do, if that is so.
    pub why: Option<String>,
    /// Whether it is its receiver's host that refuses it.
    pub is_receivers: bool,
}

/// A network, as it concerns some machines.
#[derive(Debug)]
pub struct Intent<'a> {
    topology: &'a Topology,
    /// The machines' ports. `None`: it has no such port.
    ports: Vec<Option<PortIndex>>,
}

impl<'a> Intent<'a> {
    /// A network of these machines.
    pub fn new(topology: &'a Topology, machines: &[Machine]) -> Self {
        let port = |machine: &Machine| {
            let logical = machine.endpoint.logical.as_ref()?;
            let found = topology.port(logical.tenant(), logical.port());
            found.filter(|it| topology[*it].attachment == Attachment::Vif)
        };
        Self { topology, ports: machines.iter().map(port).collect() }
    }

    /// How many of the machines it has ports of.
    pub fn known(&self) -> usize {
        self.ports.iter().flatten().count()
    }

    /// Its ports of machines that are none of these.
    pub fn others(&self) -> Vec<String> {
        let own: BTreeSet<_> = self.ports.iter().flatten().collect();
        let all = self.topology.ports().filter(|(_, port)| port.attachment == Attachment::Vif);
        let others = all.filter(|(index, _)| !own.contains(index));
        others.map(|(_, port)| reach::name(&port.id)).collect()
    }

    /// The packets of each machine for each other: between the first addresses of both in each
    /// version of IP, one for each service. One after the other is from another machine.
    pub fn questions(&self, services: &[Service]) -> Vec<Question> {
        let count = self.ports.len();
        let pairs =
            (1..count).flat_map(|step| (0..count).map(move |from| (from, (from + step) % count)));
        let asked = pairs.flat_map(|(from, to)| {
            let ports = self.ports[from].zip(self.ports[to]);
            let questions =
                ports.map(|(own, other)| self.between((from, own), (to, other), services));
            questions.unwrap_or_default()
        });
        let mut asked: Vec<_> = asked.collect();
        asked.sort_by_key(|it| it.service);
        asked
    }

    fn between(
        &self,
        (from, own): (usize, PortIndex),
        (to, other): (usize, PortIndex),
        services: &[Service],
    ) -> Vec<Question> {
        let [own, other] = [own, other].map(|it| &self.topology[it]);
        let first = |port: &logical::topology::Port, is_v4| {
            port.addresses.iter().copied().find(|it| it.is_ipv4() == is_v4)
        };
        let mut questions = Vec::new();
        for ends in [true, false].map(|is_v4| first(own, is_v4).zip(first(other, is_v4))) {
            let Some(ends) = ends else { continue };
            // Where nobody would answer for the address, a machine can still know the other's.
            let hop = next_hop(self.topology, &self.topology[own.switch], ends.1);
            let macs = (own.mac, hop.unwrap_or(other.mac));
            let question = |service: &Service| Question { from, to, service: *service, ends, macs };
            questions.extend(services.iter().map(question));
        }
        questions
    }

    /// What is to become of each packet.
    pub fn verdicts(&self, questions: &[Question]) -> Vec<Verdict> {
        questions.iter().map(|it| self.verdict(it)).collect()
    }

    fn verdict(&self, question: &Question) -> Verdict {
        let none = || Verdict { why: Some("there is no such port".into()), ..Verdict::default() };
        let Some(port) = self.ports[question.from] else { return none() };
        let token = Token { run: 0, round: 0, question: 0 };
        let Some(frame) = question.frame(1, token) else { return none() };
        let arrival = Arrival { port, node: None, frame: &frame };
        let Decision { delivered, refused, .. } =
            decide(self.topology, &State::default(), Instant::ZERO, arrival);
        let machine = |port| self.ports.iter().position(|it| *it == Some(port));
        let mut at: Vec<_> = delivered.iter().filter_map(|it| machine(it.port)).collect();
        at.sort_unstable();
        let why = refused.first().map(|it| match &it.by {
            Some(rule) => format!("{} by {rule}", it.reason.name()),
            None => format!("{} at {}", it.reason.name(), it.at),
        });
        // What is refused at its receiver's port was let pass by the sender's host.
        let to = self.ports[question.to].map(|it| &self.topology[it].id);
        let is_receivers = refused.first().is_some_and(|it| Some(&it.at) == to);
        Verdict { at, why, is_receivers }
    }
}

/// The services that networks speak of: an echo; and where rules name ports of TCP or UDP, the
/// first of each range, and one that no rule names.
pub fn services(networks: &[&Topology]) -> Vec<Service> {
    let policies = networks.iter().flat_map(|it| it.policies());
    let conditions = policies.flat_map(|(_, it)| &it.rules).flat_map(|rule| &rule.conditions);
    let spoken_of: Vec<_> = conditions.flat_map(|it| &it.services).collect();
    let mut all = vec![Service::Echo];
    let tcp: fn(u16) -> Service = Service::Tcp;
    for (carried, service) in [(protocol::TCP, tcp), (protocol::UDP, Service::Udp)] {
        let own: Vec<_> = spoken_of.iter().filter(|it| it.protocol.0 == carried).collect();
        let ranges = || own.iter().flat_map(|it| &it.ports);
        let is_free = |port: &u16| !ranges().any(|it| (it.first..=it.last).contains(port));
        let free = (1..=u16::MAX).find(is_free).filter(|_| !own.is_empty());
        let named: BTreeSet<_> = ranges().map(|it| it.first).collect();
        let asked: BTreeSet<_> = named.into_iter().take(MOST_PORTS).chain(free).collect();
        all.extend(asked.into_iter().map(service));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = include_str!("../../../../examples/shop.yaml");

    fn machines(names: &[&str]) -> Vec<Machine> {
        let mut spec = lab::LabSpec::new("t", lab::SwitchKind::Zovn);
        let endpoint = |name: &&str| lab::EndpointSpec {
            logical: format!("shop/{name}").parse().ok(),
            ..lab::EndpointSpec::new(*name)
        };
        spec.endpoints = names.iter().map(endpoint).collect();
        let endpoints = spec.resolve("t").unwrap();
        let machine = |endpoint: Endpoint| {
            let name = endpoint.logical.as_ref().unwrap().to_string();
            Machine { endpoint, name, host: "host".into() }
        };
        endpoints.into_iter().map(machine).collect()
    }

    #[test]
    fn what_is_asked_and_intended_is_what_the_file_says() {
        let topology = logical::read(SHOP).resolve().unwrap();
        let services = services(&[&topology]);
        assert_eq!(services, [Service::Echo, Service::Tcp(1), Service::Tcp(5432)]);
        let machines = machines(&["web-1", "web-2", "db-1", "x"]);
        let intent = Intent::new(&topology, &machines);
        assert_eq!((intent.known(), intent.others()), (3, Vec::new()));
        let questions = intent.questions(&services);
        assert_eq!(questions.len(), 6 * 3);
        let verdicts = intent.verdicts(&questions);
        for (question, verdict) in questions.iter().zip(&verdicts) {
            let is_in = question.to == 2 && question.service != Service::Tcp(5432);
            let at = if is_in { vec![] } else { vec![question.to] };
            assert_eq!(verdict.at, at, "{question:?}");
            let why = match (is_in, question.service) {
                (false, _) => None,
                (true, Service::Echo) => Some("policy at LogicalPort/shop/db-1"),
                (true, _) => Some("rejected by Policy/shop/db-in/nothing-else"),
            };
            assert_eq!(verdict.why.as_deref(), why);
            assert_eq!(verdict.is_receivers, is_in);
        }
    }
}
