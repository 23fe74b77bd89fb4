//! `zovn measure profile`: its flags.

use measure::SwitchKind;
use measure::profile::{self, Config, Load, Tunnel, Way};
use units::Span;

use super::common::Output;
use crate::ending::Outcome;

#[derive(clap::Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    output: Output,
    /// The switches to compare: bridge, ovs, zovn-lossy, zovn.
    #[arg(
        long = "switch",
        value_name = "SWITCH",
        value_delimiter = ',',
        default_value = "bridge,ovs,zovn"
    )]
    switches: Vec<SwitchKind>,
    /// Where frames go: from one endpoint to another of the same host, or by the lab's link to
    /// another host, which is on this machine as well.
    #[arg(long, value_name = "WAY", value_delimiter = ',', default_values_t = Way::ALL)]
    ways: Vec<Way>,
    /// What is put around frames on the link: none, vxlan, geneve. Only zovn has geneve, and
    /// zovn-lossy vxlan alone; what a switch has not is left out.
    #[arg(long, value_name = "TUNNEL", value_delimiter = ',', default_values_t = Tunnel::ALL)]
    tunnels: Vec<Tunnel>,
    /// What is carried: UDP frames of each size, which are never offloaded; TCP streams, once in
    /// frames of the MTU and once in large segments. ovs takes none of the latter.
    #[arg(long, value_name = "LOAD", value_delimiter = ',', default_values_t = Load::ALL)]
    loads: Vec<Load>,
    /// Bytes a frame, Ethernet header included; 62 to 1514.
    #[arg(long, value_delimiter = ',', default_value = "64,256,512,1024,1514")]
    sizes: Vec<u32>,
    /// How many senders, or streams, to one receiver.
    #[arg(long, default_value_t = 2)]
    senders: u32,
    /// How long each run lasts. Each size has seven in each round, and up to six before them.
    #[arg(long, default_value = "500ms")]
    duration: Span,
    /// How often each case has its turn.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// A few minutes instead of an hour: --sizes 64,1514 --duration 200ms --rounds 2.
    #[arg(long, conflicts_with_all = ["sizes", "duration", "rounds"])]
    quick: bool,
}

impl ProfileArgs {
    /// Makes the experiment.
    pub fn run(self) -> Outcome {
        let config = Config {
            switches: self.switches,
            ways: self.ways,
            tunnels: self.tunnels,
            loads: self.loads,
            sizes: self.sizes,
            senders: self.senders,
            duration: self.duration,
            rounds: self.rounds,
        };
        let config = if self.quick {
            Config { sizes: vec![64, 1514], duration: Span::from_millis(200), rounds: 2, ..config }
        } else {
            config
        };
        self.output.make(|bench| profile::run(bench, config))
    }
}
