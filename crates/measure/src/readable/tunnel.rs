//! What tunnels cost, told.

use lab::Cable;

use crate::Environment;
use crate::page::{Axis, Bars, Chart, Unit, count, si};
use crate::tunnel::{Cost, Report};

use super::{Readable, Rows, many};

impl Readable for Report {
    fn title(&self) -> String {
        "What tunnels cost: TCP between two hosts".into()
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        let rounds = many(config.rounds.into(), "round");
        let cable = match config.cable {
            Cable::Whole => "takes large packets whole",
            Cable::Cut => "has every large packet cut",
        };
        format!(
            "{} each, {rounds}, {}; the cable between the hosts {cable}.",
            config.duration, config.tcp
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "tunnel",
            "streams",
            "bit/s",
            "CPU s/GB",
            "bit per CPU s",
            "of the first",
            "B/packet",
            "resent",
            "lost",
        ]);
        for one in &self.results {
            let bits = |gbit: Option<f64>| {
                gbit.map_or("–".into(), |gbit| si(gbit * 1e9, Unit::BITS_PER_SEC))
            };
            rows.row([
                one.tunnel.to_string(),
                one.streams.to_string(),
                bits(one.gbps),
                one.cpu_s_per_gb.map_or("–".into(), |cpu| format!("{cpu:.2}")),
                bits(one.gbit_per_cpu_s),
                one.of_first.map_or("–".into(), |share| format!("{share:.2}×")),
                one.bytes_per_packet.map_or("–".into(), |bytes| format!("{bytes:.0}")),
                count(one.retransmits),
                count(one.lost),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        vec![
            "CPU is all time that the machine's processors were busy meanwhile: both hosts, both endpoints, the kernel. Whatever \
             else runs counts too."
                .into(),
            "`none` is both endpoints at one switch of zovn, `none-two-hosts` at two, between which frames cross as they are. `geneve` \
             has credit and repair; `geneve-plain`, `vxlan`, `nvgre` and `stt` have neither, like `kernel-vxlan` and `ovs-vxlan`."
                .into(),
            "B/packet is how long packets were that the sender's host put on the cable, on average.".into(),
        ]
    }

    fn charts(&self) -> Vec<Chart> {
        let mut streams: Vec<u32> = self.results.iter().map(|one| one.streams).collect();
        streams.dedup();
        let groups = streams.iter().map(|streams| many((*streams).into(), "stream"));
        let mut bars = Bars::new(
            "Payload for a second of a processor",
            Axis::linear("carried", Unit::BITS_PER_SEC),
        )
        .groups("streams", groups);
        for tunnel in &self.config.tunnels {
            let of = |streams: &u32| {
                let mine = |one: &&Cost| (one.tunnel, one.streams) == (*tunnel, *streams);
                let gbit = self.results.iter().find(mine).and_then(|one| one.gbit_per_cpu_s);
                gbit.map_or(f64::NAN, |gbit| gbit * 1e9)
            };
            bars = bars.series(tunnel.to_string(), streams.iter().map(of));
        }
        vec![bars.into()]
    }

    fn broken(&self) -> Vec<String> {
        let lost = self.results.iter().filter(|one| one.tunnel.is_lossless() && one.lost > 0);
        let lost = lost.map(|one| format!("{} lost {}.", one.tunnel, many(one.lost, "frame")));
        let idle = self.results.iter().filter(|one| one.gbps.is_none());
        let idle = idle
            .map(|one| format!("nothing arrived through {}: that is no measurement.", one.tunnel));
        let wrong = self.results.iter().filter(|one| one.balanced == Some(false));
        let wrong = wrong.map(|one| format!("the books of {} do not balance.", one.tunnel));
        lost.chain(idle).chain(wrong).collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}
