//! What hosts grant of their links: [`tunnel::grants`], the code that agents grant by, for each.
//!
//! A stream is a way. Here as there a byte of credit is a byte on the link a round trip later, and
//! what comes without credit is charged to the link as it comes.

use tunnel::grants::{Downlink, Grant, Grants, LEAST, Progress};
use units::{Instant, Span};

use crate::graph::Graph;
use crate::scenario::Scenario;
use crate::time::Time;

/// The network of machines that are in none with terms.
const NO_NETWORK: u16 = 0;

/// The links from the fabric to hosts.
#[derive(Debug)]
pub(crate) struct Downlinks {
    links: Vec<Link>,
    /// By machine: its network.
    networks: Vec<u16>,
    /// What a frame takes of a link besides its bytes.
    around: u32,
}

#[derive(Debug)]
struct Link {
    grants: Grants<u32>,
    /// When an event looks at it.
    due: Time,
}

/// How far a way may be sent without a grant, in bytes.
pub(crate) fn unsolicited(scenario: &Scenario) -> u64 {
    u64::from(LEAST) * scenario.longest_frame()
}

impl Downlinks {
    /// None where no credit is granted.
    pub(crate) fn new(scenario: &Scenario, graph: &Graph) -> Option<Self> {
        let network = &scenario.virtual_network;
        if !network.grants {
            return None;
        }
        let (datagram, around) = (scenario.longest_frame() as u32, scenario.link.overhead.0 as u32);
        let link = |host: u32| {
            let rate = graph.ends[graph.nic(host) as usize].link.rate;
            let mut grants = Grants::new(Downlink { rate, datagram, latency: network.latency });
            for (number, own) in (1..).zip(scenario.networks.values()) {
                grants.set_terms(Instant::ZERO, number, own.terms(rate, datagram + around));
            }
            Link { grants, due: Time::NEVER }
        };
        let slots = network.vms_per_server() as u32;
        let clients = graph.hosts - graph.servers;
        let mut networks = vec![NO_NETWORK; (graph.servers * slots + clients) as usize];
        for (number, own) in (1..).zip(scenario.networks.values()) {
            for vm in own.machines.iter(network, graph.servers) {
                networks[(vm.server * slots + vm.slot) as usize] = number;
            }
        }
        Some(Self { links: (0..graph.hosts).map(link).collect(), networks, around })
    }

    fn grants(&mut self, host: u32) -> &mut Grants<u32> {
        &mut self.links[host as usize].grants
    }

    /// A frame of so many bytes has come by a host's link.
    pub(crate) fn arrived(&mut self, now: Instant, host: u32, bytes: u32, is_marked: bool) {
        let link_bytes = bytes + self.around;
        self.grants(host).arrived(now, link_bytes, is_marked);
    }

    /// It was one of a way of this machine.
    pub(crate) fn received(
        &mut self,
        now: Instant,
        host: u32,
        (way, machine): (u32, u32),
        progress: Progress,
        bytes: u32,
    ) {
        let (network, link_bytes) = (self.networks[machine as usize], bytes + self.around);
        self.grants(host).received(now, way, network, progress, link_bytes);
    }

    /// The sender of a way asks for credit.
    pub(crate) fn asked(&mut self, now: Instant, host: u32, way: u32, progress: Progress) {
        self.grants(host).asked(now, way, progress);
    }

    /// The next grant of a host, until there is none.
    pub(crate) fn next(&mut self, now: Instant, host: u32) -> Option<Grant<u32>> {
        self.grants(host).next(now)
    }

    /// When an event is to look at a host, if none does before.
    pub(crate) fn arm(&mut self, now: Instant, host: u32) -> Option<Time> {
        let link = &mut self.links[host as usize];
        let at = link.grants.ready_at(now)?.max(now + Span::from_nanos(1));
        let at = Time::from(at);
        (at < link.due).then(|| {
            link.due = at;
            at
        })
    }

    /// Whether an event that says so is the one that a host waits for.
    pub(crate) fn is_due(&mut self, now: Time, host: u32) -> bool {
        let due = &mut self.links[host as usize].due;
        let is_due = *due == now;
        if is_due {
            *due = Time::NEVER;
        }
        is_due
    }
}
