//! `zovn measure profile`: its flags.

use measure::SwitchKind;
use measure::profile::{self, Config, Load, Tunnel, Way, paper};
use units::{Bytes, Span};

use super::common::Output;
use crate::ending::Outcome;

/// The switches that are compared if nobody says which.
const SWITCHES: [SwitchKind; 3] = [SwitchKind::Bridge, SwitchKind::Ovs, SwitchKind::Zovn];

#[derive(clap::Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    output: Output,
    /// The switches to compare, of bridge, ovs, zovn-lossy, zovn. If left out bridge, ovs and zovn;
    /// with --paper those of them that are installed.
    #[arg(long = "switch", value_name = "SWITCH", value_delimiter = ',')]
    switches: Vec<SwitchKind>,
    /// Where frames go: from one endpoint to another of the same host, or by the lab's link to
    /// another host, which is on this machine as well. Both if left out; with --paper the link, as
    /// in the paper.
    #[arg(long, value_name = "host|link", value_delimiter = ',')]
    ways: Vec<Way>,
    /// What is put around frames on the link: none, vxlan, geneve, gre. Of geneve there is zovn's
    /// alone, and of zovn-lossy no none; a bridge has neither geneve nor gre. What a switch has not
    /// is left out. If left out all but gre; with --paper none, vxlan and gre.
    #[arg(long, value_name = "TUNNEL", value_delimiter = ',')]
    tunnels: Vec<Tunnel>,
    /// How many other hosts frames go to by the link; several are for the tunnels of zovn-lossy and
    /// zovn alone. Senders send to them in turn, so each needs one.
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', default_value = "1")]
    far: Vec<u32>,
    /// How many processors switches, senders and receivers of all hosts have together; all that
    /// there are if left out.
    #[arg(long, value_name = "PROCESSORS", value_delimiter = ',')]
    cores: Vec<u32>,
    /// What is carried: UDP frames of each size, which are never offloaded; TCP streams, once in
    /// frames of the MTU and once in large segments. ovs takes none of the latter.
    #[arg(long, value_name = "LOAD", value_delimiter = ',', default_values_t = Load::ALL)]
    loads: Vec<Load>,
    /// Bytes a frame, Ethernet header included; 62 to 1514.
    #[arg(long, value_delimiter = ',', default_value = "64,256,512,1024,1514")]
    sizes: Vec<u32>,
    /// How many senders, or streams, to one receiver: 2 if left out; with --paper 4 streams.
    #[arg(long)]
    senders: Option<u32>,
    /// How long each run lasts: 500ms if left out. Each size has seven in each round, and up to six
    /// before them. With --paper how long streams last: 300s if left out.
    #[arg(long)]
    duration: Option<Span>,
    /// How often each case has its turn: 10 times if left out. With --paper how often each file is
    /// downloaded: 50 times if left out.
    #[arg(long)]
    rounds: Option<u32>,
    /// A few minutes instead of an hour: --sizes 64,1514 --duration 200ms --rounds 2.
    #[arg(long, conflicts_with_all = ["sizes", "duration", "rounds"])]
    quick: bool,
    /// Repeat what the paper measured instead (Sarker et al., ICN 2016, §III): 4 TCP streams for
    /// 300 s, and downloads of 10 MB and of 5 GB 50 times; box plots as its figures 7 and 8. It
    /// takes hours, and says how many before it begins.
    #[arg(long, conflicts_with_all = ["far", "cores", "loads", "sizes", "quick"])]
    paper: bool,
    /// With --paper: the sizes of files.
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        default_value = "10mb,5gb",
        requires = "paper"
    )]
    downloads: Vec<Bytes>,
    /// With --paper: have endpoints cut large segments themselves, with every switch as with ovs.
    #[arg(long, requires = "paper")]
    no_offload: bool,
}

impl ProfileArgs {
    /// Makes the experiment.
    pub fn run(self) -> Outcome {
        if self.paper {
            let config = self.of_paper();
            self.output.make(|bench| paper::run(bench, config))
        } else {
            let config = self.config();
            self.output.make(|bench| profile::run(bench, config))
        }
    }

    fn config(&self) -> Config {
        let cores = or(&self.cores, &[profile::available()]);
        let config = Config {
            switches: or(&self.switches, &SWITCHES),
            ways: or(&self.ways, &Way::ALL),
            tunnels: or(&self.tunnels, &Tunnel::USUAL),
            far: self.far.clone(),
            cores,
            loads: self.loads.clone(),
            sizes: self.sizes.clone(),
            senders: self.senders.unwrap_or(2),
            duration: self.duration.unwrap_or(Span::from_millis(500)),
            rounds: self.rounds.unwrap_or(10),
        };
        if self.quick {
            Config { sizes: vec![64, 1514], duration: Span::from_millis(200), rounds: 2, ..config }
        } else {
            config
        }
    }

    fn of_paper(&self) -> paper::Config {
        let installed = SWITCHES.into_iter().filter(|switch| switch.check().is_ok());
        paper::Config {
            switches: or(&self.switches, &installed.collect::<Vec<_>>()),
            ways: or(&self.ways, &[Way::Link]),
            tunnels: or(&self.tunnels, &Tunnel::PAPER),
            offload: !self.no_offload,
            streams: self.senders.unwrap_or(4),
            duration: self.duration.unwrap_or(Span::from_secs(300)),
            downloads: self.downloads.clone(),
            rounds: self.rounds.unwrap_or(50),
        }
    }
}

/// What was said, or else this.
fn or<T: Clone>(said: &[T], otherwise: &[T]) -> Vec<T> {
    if said.is_empty() { otherwise.to_vec() } else { said.to_vec() }
}
