//! Rules of the workloads.

use super::*;
use crate::scenario::words::ANY;
use crate::scenario::{
    AllToAll, Flows, Incast, Markov, PartitionAggregate, Permutation, Sizes, Stream, Workload,
    WorkloadKind,
};
use demand::ModelError;
use traffic::Known;
use units::{Bytes, Rate};

const UDP_HEADERS: u64 = crate::scenario::UDP_HEADERS as u64;

/// A workload under examination, and where it stands.
struct Of<'w> {
    path: String,
    workload: &'w Workload,
}

impl Of<'_> {
    fn field(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }
}

impl Check<'_> {
    pub(super) fn workloads(&mut self) {
        let it = self.scenario;
        let what = "a scenario has 1 to 1000 workloads: add a `[workload.NAME]`";
        self.ensure((1..=MOST_WORKLOADS).contains(&it.workloads.len()), "workload", what);
        for (name, workload) in &it.workloads {
            let of = Of { path: format!("workload.{name}"), workload };
            let before = self.found.len();
            self.times_and_class(&of);
            for (field, vms) in workload.kind.vms() {
                self.vms(&of.field(field), vms);
            }
            if self.found.len() > before {
                continue;
            }
            match &workload.kind {
                WorkloadKind::PartitionAggregate(it) => self.partition_aggregate(&of, it),
                WorkloadKind::Incast(it) => self.incast(&of, it),
                WorkloadKind::Permutation(it) => self.permutation(&of, it),
                WorkloadKind::AllToAll(it) => self.all_to_all(&of, it),
                WorkloadKind::Flows(it) => self.flows(&of, it),
                WorkloadKind::Stream(it) => self.stream(&of, it),
                WorkloadKind::Markov(it) => self.markov(&of, name, it),
            }
            if self.found.len() == before {
                let what = "its gaps are too short or too long to be counted: write another mean, or other `arrivals`";
                self.ensure(self.has_gaps(workload), &of.path, what);
            }
        }
    }

    fn times_and_class(&mut self, of: &Of<'_>) {
        let workload = of.workload;
        let classes: Vec<&str> = self.scenario.classes.keys().map(String::as_str).collect();
        if !classes.contains(&workload.class.as_str()) {
            self.complain(&of.field("class"), unknown(&workload.class, &classes));
        }
        let stops = workload.stop.unwrap_or(Span::from_nanos(u64::MAX));
        self.ensure(
            workload.start < stops,
            &of.field("stop"),
            "it would end before it begins: write more than `start`",
        );
        let ends = self.scenario.run.duration.unwrap_or(Span::from_nanos(u64::MAX));
        self.ensure(
            workload.start < ends,
            &of.field("start"),
            "the run ends before: lower it, or raise `run.duration`",
        );
    }

    /// There are such machines.
    pub(super) fn vms(&mut self, path: &str, vms: &Vms) {
        let network = &self.scenario.virtual_network;
        let roles: Vec<&str> = network.vms.keys().map(String::as_str).chain([ANY]).collect();
        if let Some(role) = vms.role.as_deref().filter(|role| !roles.contains(role)) {
            self.complain(path, unknown(role, &roles));
            return;
        }
        let servers = self.scenario.topology.servers();
        if let Some(last) = vms
            .servers
            .as_ref()
            .map(|range| *range.end())
            .filter(|last| u64::from(*last) >= servers)
        {
            self.complain(
                path,
                format!("there is no server {last}: they count from 0 to {}", servers - 1),
            );
        }
        if vms.slots(network).is_none() {
            let each = Vms { place: None, ..vms.clone() }
                .slots(network)
                .map_or(0, |slots| slots.end - slots.start);
            let place = vms.place.unwrap_or(0);
            self.complain(
                path,
                format!(
                    "there is no machine {place} of that role: a server has {each}, counted from 0"
                ),
            );
        }
    }

    fn partition_aggregate(&mut self, of: &Of<'_>, it: &PartitionAggregate) {
        self.messages(of, &[("query", it.query), ("request", it.request), ("reply", it.reply)]);
        self.ensure(
            it.queries != Some(0),
            &of.field("queries"),
            "there is at least one query: raise it, or leave it out",
        );
        self.gaps(of, it.gap, &it.arrivals, it.closed);
        let asked = match &it.mids {
            None => {
                // Whoever aggregates is no worker of its own query.
                let itself = self.overlap(&it.workers, &it.aggregators);
                self.pairs(
                    &of.field("workers"),
                    self.count(&it.aggregators),
                    self.count(&it.workers),
                );
                self.count(&it.workers) - u64::from(itself)
            }
            Some(mids) => self.groups(of, it, mids),
        };
        self.ensure(
            asked > 0,
            &of.field("workers"),
            "an aggregator would have nobody to ask but itself: choose more",
        );
        let fan_out = it.fan_out.map_or(1, u64::from);
        let what = format!("a query can ask 1 to {asked}: lower it, or leave it out for all");
        self.ensure(asked == 0 || (1..=asked).contains(&fan_out), &of.field("fan_out"), what);
    }

    /// How many groups have a mid-level aggregator. Each has one who is not the query's own
    /// aggregator, and who has somebody to ask.
    fn groups(&mut self, of: &Of<'_>, it: &PartitionAggregate, mids: &Vms) -> u64 {
        let network = &self.scenario.virtual_network;
        let (mut groups, mut pairs) = (0, 0u64);
        for servers in self.scenario.topology.groups() {
            let (here, workers) = (
                mids.count_on(network, servers.clone()),
                it.workers.count_on(network, servers.clone()),
            );
            if here == 0 {
                continue;
            }
            groups += 1;
            pairs = pairs.saturating_add(here.saturating_mul(workers));
            let of_group = format!("of the group of server{}", servers.start);
            let itself = it.workers.meets(mids, network, servers.clone());
            if workers == u64::from(itself) {
                let what = format!(
                    "the mid-level aggregator {of_group} would have nobody to ask: choose more"
                );
                self.complain(&of.field("workers"), what);
                break;
            }
            if here == 1 && mids.meets(&it.aggregators, network, servers) {
                let what = format!(
                    "the only one {of_group} is an aggregator, and would have to ask itself: choose more"
                );
                self.complain(&of.field("mids"), what);
                break;
            }
        }
        self.pairs(&of.field("mids"), self.count(&it.aggregators), self.count(mids));
        self.pairs(&of.field("workers"), pairs, 1);
        groups
    }

    fn incast(&mut self, of: &Of<'_>, it: &Incast) {
        self.messages(of, &[("bytes", it.bytes)]);
        self.ensure(
            it.rounds > 0,
            &of.field("rounds"),
            "there is at least one round: raise it above 0",
        );
        let receivers = self.count(&it.receiver);
        let what = format!("incast has one receiver, not {receivers}: write `ROLE@SERVER/0`");
        self.ensure(receivers == 1, &of.field("receiver"), what);
        let senders = self.count(&it.senders) - u64::from(self.overlap(&it.senders, &it.receiver));
        self.ensure(
            senders > 0,
            &of.field("senders"),
            "nobody is left who sends: nobody sends to itself",
        );
        let what = format!("a round has 1 to {senders} senders: lower it, or leave it out for all");
        let fan_in = it.fan_in.map_or(1, u64::from);
        self.ensure(senders == 0 || (1..=senders).contains(&fan_in), &of.field("fan_in"), what);
    }

    fn permutation(&mut self, of: &Of<'_>, it: &Permutation) {
        if let Some(bytes) = it.bytes {
            self.messages(of, &[("bytes", bytes)]);
        }
        let count = self.count(&it.vms);
        self.ensure(count >= 2, &of.field("vms"), "a permutation needs two machines: choose more");
        let stays = it.stride.is_some_and(|stride| u64::from(stride).is_multiple_of(count.max(1)));
        let what = format!("each would send to itself: write what is no multiple of {count}");
        self.ensure(!stays, &of.field("stride"), what);
    }

    fn all_to_all(&mut self, of: &Of<'_>, it: &AllToAll) {
        self.messages(of, &[("bytes", it.bytes)]);
        self.ensure(
            it.rounds > 0,
            &of.field("rounds"),
            "there is at least one round: raise it above 0",
        );
        let count = self.count(&it.vms);
        self.ensure(count >= 2, &of.field("vms"), "it takes two machines: choose more");
        self.pairs(&of.field("vms"), count, count);
    }

    fn flows(&mut self, of: &Of<'_>, it: &Flows) {
        let (sources, destinations) = (self.count(&it.sources), self.count(&it.destinations));
        let only_itself =
            destinations == 1 && sources >= 1 && self.overlap(&it.sources, &it.destinations);
        self.ensure(
            !only_itself,
            &of.field("destinations"),
            "a source would send to itself: choose more destinations",
        );
        match &it.sizes {
            Sizes::Named(name) => self.distribution(&of.field("sizes"), name, true),
            Sizes::Fixed(bytes)
            | Sizes::Exponential(bytes)
            | Sizes::LogNormal { mean: bytes, .. } => {
                self.messages(of, &[("sizes", *bytes)]);
            }
        }
        match (it.load, it.gap) {
            (Some(_), Some(_)) => {
                self.complain(&of.field("load"), "`gap` says it too: leave one of them out")
            }
            (Some(load), None) => {
                let what = "a load is a share of a server's link, 0 to 10: write 0.1 for a tenth";
                self.ensure((0.0..=10.0).contains(&load), &of.field("load"), what);
                let what = "a source that waits for its flow's end offers no fixed load: write `gap`, or leave `closed` out";
                self.ensure(!it.closed, &of.field("load"), what);
                if let Arrivals::Named(name) = &it.arrivals {
                    self.distribution(&of.field("arrivals"), name, false);
                }
            }
            (None, None) if !matches!(it.arrivals, Arrivals::Named(_)) => {
                let what = "add `load`, the share of a server's link, or `gap`, the mean time to a source's next flow";
                self.complain(&of.path, what);
            }
            (None, gap) => self.gaps(of, gap, &it.arrivals, it.closed),
        }
        let is_udp = it.transport == Transport::Udp;
        self.ensure(
            is_udp || it.rate.is_none(),
            &of.field("rate"),
            "TCP finds its own rate: leave it out, or write `transport = \"udp\"`",
        );
        self.rate(of, it.rate);
    }

    fn stream(&mut self, of: &Of<'_>, it: &Stream) {
        self.paired(&of.field("destination"), &it.source, &it.destination);
        let is_udp = it.transport == Transport::Udp;
        let what = "TCP cuts its own segments: leave it out, or write `transport = \"udp\"`";
        self.ensure(is_udp || it.datagram.is_none(), &of.field("datagram"), what);
        let most = u64::from(self.scenario.virtual_network.mtu) - UDP_HEADERS;
        let what = format!("a datagram in one packet of the MTU carries 1 to {most} bytes");
        self.ensure(
            it.datagram.is_none_or(|bytes| (1..=most).contains(&bytes.0)),
            &of.field("datagram"),
            what,
        );
        self.rate(of, it.rate);
    }

    fn markov(&mut self, of: &Of<'_>, name: &str, it: &Markov) {
        self.paired(&of.field("destinations"), &it.sources, &it.destinations);
        let what = "each state has a rate and a holding time: write as many of both";
        self.ensure(it.hold.len() == it.rates.len(), &of.field("hold"), what);
        for level in &it.rates {
            self.rate_in(&of.field("rates"), level.0);
        }
        let most = u64::from(self.scenario.virtual_network.mtu);
        let frame = it.frame.map_or(most, |bytes| bytes.0);
        let what = format!(
            "a packet of UDP has {} to {most} bytes, its headers included",
            UDP_HEADERS + 1
        );
        self.ensure((UDP_HEADERS + 1..=most).contains(&frame), &of.field("frame"), what);
        let what = format!("at least one packet waits: write {frame}b or more, to 1024gib");
        self.ensure((frame..=MOST_BYTES).contains(&it.queue.0), &of.field("queue"), what);
        if it.hold.len() == it.rates.len()
            && let Err(error) = it.model()
        {
            let is_hold = matches!(error, ModelError::Hold { .. });
            self.complain(&of.field(if is_hold { "hold" } else { "jump" }), error.to_string());
        }
        let longest = it.hold.iter().max().copied().unwrap_or(Span::ZERO);
        self.ensure(
            longest <= LONGEST,
            &of.field("hold"),
            "a state lasts at most 200 days: lower it",
        );
        let others = self.scenario.workloads.iter().take_while(|(other, _)| *other != name);
        let differs = others.filter_map(|(other, workload)| match &workload.kind {
            WorkloadKind::Markov(its) if its.together.is_some() && its.together == it.together => {
                ((&its.hold, &its.jump) != (&it.hold, &it.jump)).then_some(other)
            }
            _ => None,
        });
        if let Some(other) = differs.last() {
            let what = format!(
                "it moves together with `{other}`, whose `hold` and `jump` differ: write the same, or another word"
            );
            self.complain(&of.field("together"), what);
        }
    }

    /// The n-th source has the n-th destination, or all the only one, and none itself.
    fn paired(&mut self, path: &str, from: &Vms, to: &Vms) {
        let (sources, destinations) = (self.count(from), self.count(to));
        let what = format!(
            "{sources} sources and {destinations} destinations make no pairs: choose as many, or one destination"
        );
        self.ensure(destinations == sources || destinations == 1, path, what);
        if self.found.is_empty() {
            let (network, servers) = (&self.scenario.virtual_network, self.servers());
            let mut pairs = from.iter(network, servers).zip(to.iter(network, servers));
            let overlap = self.overlap(from, to);
            let it_sends_to_itself = overlap && (destinations == 1 || pairs.any(|(a, b)| a == b));
            let what = "a source would send to itself: choose others";
            self.ensure(!it_sends_to_itself, path, what);
        }
    }

    /// Bytes can be told apart in time.
    fn rate(&mut self, of: &Of<'_>, rate: Option<Rate>) {
        self.rate_in(&of.field("rate"), rate);
    }

    fn rate_in(&mut self, path: &str, rate: Option<Rate>) {
        let sane =
            rate.is_none_or(|rate| (1_000..=1_000_000_000_000).contains(&rate.bits_per_sec()));
        self.ensure(sane, path, "a sender's rate lies in 1kbit to 1tbit");
    }

    fn messages(&mut self, of: &Of<'_>, messages: &[(&str, Bytes)]) {
        for (field, bytes) in messages {
            self.ensure(
                (1..=MOST_BYTES).contains(&bytes.0),
                &of.field(field),
                "it has 1b to 1024gib",
            );
        }
    }

    /// Something comes next, and not everything at once.
    fn gaps(&mut self, of: &Of<'_>, gap: Option<Span>, arrivals: &Arrivals, closed: bool) {
        if let Arrivals::Named(name) = arrivals {
            self.distribution(&of.field("arrivals"), name, false);
        } else if gap.is_none() {
            self.complain(
                &of.path,
                "`gap` is missing: add the mean time from one query to the next",
            );
        }
        let what = "everything would come at once: raise it above 0, or write `closed = true`";
        self.ensure(closed || gap != Some(Span::ZERO), &of.field("gap"), what);
    }

    /// What comes again and again has gaps that a clock can count.
    fn has_gaps(&self, workload: &Workload) -> bool {
        match &workload.kind {
            WorkloadKind::PartitionAggregate(it) => it.gaps(self.scenario).is_some(),
            WorkloadKind::Flows(it) => it.load == Some(0.0) || it.gaps(self.scenario).is_some(),
            _ => true,
        }
    }

    /// There is a distribution of this name, of sizes or of gaps.
    fn distribution(&mut self, path: &str, name: &str, sizes: bool) {
        let own = self.scenario.distributions.keys().map(String::as_str);
        let known = Known::ALL.map(Known::name);
        let others: &[&str] = if sizes { &known } else { &["poisson", "fixed", "log-normal(2)"] };
        let names: Vec<&str> = own.chain(others.iter().copied()).collect();
        let exists =
            self.scenario.distributions.contains_key(name) || sizes && known.contains(&name);
        self.ensure(exists, path, unknown(name, &names));
    }

    fn pairs(&mut self, path: &str, here: u64, there: u64) {
        let what = format!("that makes more than {MOST_PAIRS} connections: choose fewer machines");
        self.ensure(here.saturating_mul(there) <= MOST_PAIRS, path, what);
    }

    fn servers(&self) -> u32 {
        u32::try_from(self.scenario.topology.servers()).unwrap_or(u32::MAX)
    }

    fn count(&self, vms: &Vms) -> u64 {
        vms.count(&self.scenario.virtual_network, self.scenario.topology.servers())
    }

    /// Whether some machine belongs to both.
    fn overlap(&self, these: &Vms, those: &Vms) -> bool {
        these.meets(those, &self.scenario.virtual_network, 0..self.servers())
    }
}

impl Scenario {
    /// A workload on account of which a run without a duration may never end.
    pub(super) fn endless(&self) -> Option<&str> {
        let has_queries_always = |it: &Workload| it.stop.is_none() && it.kind.queries().is_none();
        // Queries go on until enough of them are complete. A bounded number may not do: those of
        // the warmup do not count.
        if self.run.queries.is_some() && self.workloads.values().any(has_queries_always) {
            return None;
        }
        let (name, _) = self.workloads.iter().find(|(_, workload)| !workload.is_finite())?;
        Some(name)
    }
}

impl Workload {
    /// Whether it ends by itself.
    fn is_finite(&self) -> bool {
        self.stop.is_some()
            || match &self.kind {
                WorkloadKind::PartitionAggregate(it) => it.queries.is_some(),
                WorkloadKind::Incast(_) | WorkloadKind::AllToAll(_) => true,
                WorkloadKind::Permutation(it) => it.bytes.is_some(),
                WorkloadKind::Flows(it) => it.load == Some(0.0),
                WorkloadKind::Stream(_) | WorkloadKind::Markov(_) => false,
            }
    }
}

impl WorkloadKind {
    /// How many queries it has at most; `None` for as many as there is time for.
    pub(super) fn queries(&self) -> Option<u64> {
        match self {
            Self::PartitionAggregate(it) => it.queries,
            Self::Incast(it) => Some(it.rounds),
            Self::AllToAll(it) => Some(it.rounds),
            Self::Permutation(_) | Self::Flows(_) | Self::Stream(_) | Self::Markov(_) => Some(0),
        }
    }
}
