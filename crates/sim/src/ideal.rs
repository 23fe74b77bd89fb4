//! How long a flow takes that has the network to itself: what its slowdown is measured by.
//!
//! ```text
//! base = the delay of each link on the way                     ┐
//!      + the stack's delay at the sender and at the receiver   ├ one way
//!      + its last frame on each link but the slowest           ┘
//!      + all its frames on the slowest
//! ```
//!
//! Frames are as full as they can be, with IP's and TCP's or UDP's headers, encapsulation, preamble
//! and gap. A connection is not opened, nobody waits for an acknowledgement or for a window to
//! grow, and a UDP workload's own `rate` does not count: these are what slows flows down. No flow
//! is faster.

use units::Rate;

use crate::graph::Graph;
use crate::scenario::{Link, Scenario, Transport};
use crate::time::Time;

/// What knows how long flows take alone.
#[derive(Debug)]
pub(crate) struct Ideal<'a> {
    scenario: &'a Scenario,
    graph: Graph,
}

impl<'a> Ideal<'a> {
    /// In the network of a scenario that was checked.
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        Self { scenario, graph: Graph::new(scenario) }
    }

    /// How long `bytes` of payload take from one host to another, or between machines of one host.
    pub(crate) fn time(&self, from: u32, to: u32, bytes: u64, transport: Transport) -> Time {
        let network = &self.scenario.virtual_network;
        let headers = match transport {
            // IPv4's and TCP's, IPv4's and UDP's.
            Transport::Tcp => 40,
            Transport::Udp => 28,
        };
        let most = u64::from(network.mtu) - headers;
        let frames = bytes.div_ceil(most).max(1);
        let around = headers + network.encapsulation.0;
        let (all, last) = (bytes + frames * around, bytes - (frames - 1) * most + around);
        let links = self.links(from, to);
        let slowest =
            links.iter().enumerate().min_by_key(|(_, link)| link.rate).map(|(place, _)| place);
        let mut one_way = Time::from(network.stack_delay) + Time::from(network.stack_delay);
        let mut bottleneck = Time::ZERO;
        for (place, link) in links.iter().enumerate() {
            one_way += Time::from(link.delay);
            let overhead = link.overhead.0;
            if Some(place) == slowest {
                bottleneck = taking(all + frames * overhead, link.rate);
            } else {
                one_way += taking(last + overhead, link.rate);
            }
        }
        if let Some(rate) = network.rate {
            // A virtual NIC sends one longest frame at once; what it is sent comes at once as far
            // as its bucket goes, and one frame further.
            let bucket = if network.paced { 0 } else { u64::from(rate.bucket_bytes(network.mtu)) };
            let at_once = self.scenario.longest_frame() + bucket;
            bottleneck = bottleneck.max(taking(all.saturating_sub(at_once), rate));
        }
        one_way + bottleneck
    }

    /// The links on a shortest way; all shortest ways are alike.
    fn links(&self, from: u32, to: u32) -> Vec<Link> {
        let mut links = Vec::new();
        let (mut node, mut port) = (from, self.graph.nic(from));
        while node != to {
            let end = self.graph.ends[port as usize];
            links.push(end.link);
            node = self.graph.ends[end.peer as usize].node;
            if node != to {
                port = self.graph.route(node, to, 0);
            }
        }
        links
    }
}

fn taking(bytes: u64, rate: Rate) -> Time {
    let picos = u128::from(bytes) * 8_000_000_000_000 / u128::from(rate.bits_per_sec().max(1));
    Time::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Plan;

    #[test]
    fn a_flow_alone_takes_its_bytes_and_one_way() {
        let text = "version = 1\nname = \"x\"\n[topology]\nkind = \"dumbbell\"\nleft = 1\nright = 1\n\
                    bottleneck.rate = \"1gbit\"\n[workload.w]\nkind = \"incast\"\nsenders = \"vm@0\"\n\
                    receiver = \"vm@1\"\nbytes = \"1kb\"\n";
        let plan = Plan::parse(text).unwrap();
        let ideal = Ideal::new(plan.first());
        // Two frames of 1446 bytes with 54 around and 20 more on the wire, at 1 Gb/s; the second
        // once more on each of two links of 10 Gb/s; three links of 500 ns; two stacks of 5 µs.
        let frame = 1446 + 54 + 20;
        let expected = 2 * frame * 8 + 2 * frame * 8 / 10 + 3 * 500 + 2 * 5000;
        assert_eq!(ideal.time(0, 1, 2 * 1406, Transport::Tcp).as_nanos(), expected);
        assert_eq!(ideal.time(0, 0, 2 * 1406, Transport::Tcp).as_nanos(), 10_000);
    }
}
