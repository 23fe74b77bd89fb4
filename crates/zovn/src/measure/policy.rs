//! `zovn measure policy`: its flags.

use clap::ValueEnum;
use measure::policy::{Config, Load, Ports, Through};
use measure::{SwitchKind, policy};
use units::Span;

use super::common::Output;
use crate::ending::Outcome;

#[derive(clap::Args)]
pub struct PolicyArgs {
    #[command(flatten)]
    output: Output,
    /// Where frames enter and leave: rings of virtual machines (vhost-user), or interfaces of
    /// containers.
    #[arg(long, value_enum, default_value = "vhost-user")]
    ports: PortsArg,
    /// The switches to compare. Between virtual machines: ovs-dpdk, which has OpenFlow rules that
    /// decide the same, and zovn. Between containers: bridge, the kernel's with nftables, and zovn.
    /// Both if left out.
    #[arg(long = "switch", value_name = "SWITCH", value_delimiter = ',')]
    switches: Vec<SwitchKind>,
    /// What frames pass: plain (no logical network), l2 (a logical switch), acl (that, and rules
    /// that keep no connections), stateful (rules that keep them), routed (two switches and a
    /// router), nat (that, and the router hides the sender behind another address).
    #[arg(long, value_name = "PATH", value_delimiter = ',', default_values_t = Through::ALL)]
    through: Vec<Through>,
    /// How many rules the receiver has: all but the last refuse what does not come, the last
    /// allows. `stateful` has the first of these numbers.
    #[arg(long, value_delimiter = ',', default_value = "10,1000,10000")]
    rules: Vec<u32>,
    /// How many flows take turns, frame by frame: pairs of UDP ports between the same two
    /// addresses. At most 1,000,000 between virtual machines and 100,000 between containers.
    #[arg(long, value_delimiter = ',', default_value = "1,1000,100000")]
    flows: Vec<u32>,
    /// What is put on the switches: flows (those that are known), connect (ever new UDP flows, as
    /// many as the switch takes, through stateful and nat), accept (connections of TCP that are
    /// opened and closed again), first (the first packets of flows at 20,000 a second, through
    /// acl). All that `--through` has a path for, if left out; containers have flows and accept.
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    loads: Vec<Load>,
    /// Bytes a frame, Ethernet header included.
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Between virtual machines: how many connections `connect` and `accept` begin, each time.
    #[arg(long, default_value_t = 200_000)]
    connections: u32,
    /// How long each run lasts.
    #[arg(long, default_value = "1s")]
    duration: Span,
    /// How often each switch has its turn.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// A minute instead of a quarter of an hour: --rules 10,1000 --flows 1,1000
    /// --connections 50000 --duration 200ms --rounds 1.
    #[arg(long, conflicts_with_all = ["rules", "flows", "connections", "duration", "rounds"])]
    quick: bool,
}

impl PolicyArgs {
    /// Makes the experiment.
    pub fn run(self) -> Outcome {
        let config = self.config();
        self.output.make(|bench| policy::run(bench, config))
    }

    fn config(&self) -> Config {
        let ports = match self.ports {
            PortsArg::VhostUser => Ports::VhostUser,
            PortsArg::Container => Ports::Container,
        };
        let put_on = |load: &Load| self.through.iter().any(|it| load.is_put_on(*it, ports));
        let loads = match &self.loads[..] {
            [] => Load::ALL.into_iter().filter(put_on).collect(),
            loads => loads.to_vec(),
        };
        let config = Config {
            switches: match &self.switches[..] {
                [] => ports.switches().to_vec(),
                switches => switches.to_vec(),
            },
            ports,
            through: self.through.clone(),
            rules: self.rules.clone(),
            flows: self.flows.clone(),
            loads,
            size: self.size,
            connections: self.connections,
            duration: self.duration,
            rounds: self.rounds,
        };
        if !self.quick {
            return config;
        }
        Config {
            rules: vec![10, 1000],
            flows: vec![1, 1000],
            connections: 50_000,
            duration: Span::from_millis(200),
            rounds: 1,
            ..config
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum PortsArg {
    VhostUser,
    Container,
}
