//! A plan at a glance: how large it is, and how much it offers.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    Flows, Markov, PartitionAggregate, Plan, Scenario, Stream, Transport, UDP_HEADERS, WorkloadKind,
};

/// A plan at a glance. What a sweep varies is that of the first cell, but for the workloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// What people call it.
    pub name: String,
    /// What it shows, and what to expect.
    pub description: String,
    /// The first cell's [`Scenario::digest`], in hexadecimal.
    pub digest: String,
    /// Servers.
    pub servers: u64,
    /// External clients.
    pub clients: u32,
    /// Switches, tier by tier from the servers up.
    pub switches: Vec<SwitchCount>,
    /// Links, of servers and clients too.
    pub links: u64,
    /// Virtual machines.
    pub vms: u64,
    /// How many machines of each role a server has.
    pub vms_per_server: BTreeMap<String, u32>,
    /// What the servers' links carry together, in bits per second.
    pub access_bps: f64,
    /// The workloads of all cells, by name.
    pub workloads: Vec<WorkloadSummary>,
    /// Each axis of the sweep with the labels of its values.
    pub axes: Vec<(String, Vec<String>)>,
    /// How often each combination runs.
    pub repeat: u32,
    /// How many runs there are.
    pub cells: u64,
}

/// How many switches a tier has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchCount {
    /// The tier, as nodes are called.
    pub tier: &'static str,
    /// How many.
    pub count: u64,
}

/// A workload at a glance, in all cells that have one of its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadSummary {
    /// What it is called.
    pub name: String,
    /// What it is, in the first cell that has it.
    pub kind: &'static str,
    /// The classes of its frames: several if a sweep varies it.
    pub classes: BTreeSet<String>,
    /// What carries it, in the first cell that has it.
    pub transport: Transport,
    /// The payload that it offers in bits per second, the least and the most of all cells; absent
    /// if it offers as much as gets through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_bps: Option<[f64; 2]>,
}

impl Plan {
    /// The plan at a glance. Takes as long as reading it.
    pub fn summary(&self) -> Summary {
        let it = self.first();
        let network = &it.virtual_network;
        let servers = it.topology.servers();
        let labels =
            |axis: &super::Axis| axis.choices.iter().map(|choice| choice.label.clone()).collect();
        let tiers = it.topology.switches().into_iter();
        Summary {
            name: it.name.clone(),
            description: it.description.clone(),
            digest: format!("{:016x}", it.digest()),
            servers,
            clients: it.topology.clients(),
            switches: tiers.map(|(tier, count)| SwitchCount { tier: tier.name(), count }).collect(),
            links: it.topology.layers(it.link).iter().map(|layer| layer.cables).sum(),
            vms: network.vms_per_server() * servers,
            vms_per_server: network.vms.clone(),
            access_bps: it.topology.access(it.link).rate.bits_per_sec() as f64 * servers as f64,
            workloads: self.workloads(),
            axes: self.axes().iter().map(|axis| (axis.name.clone(), labels(axis))).collect(),
            repeat: self.repeat(),
            cells: self.len(),
        }
    }

    /// The workloads of all cells. Repetitions do not differ in them.
    fn workloads(&self) -> Vec<WorkloadSummary> {
        let mut all: BTreeMap<String, WorkloadSummary> = BTreeMap::new();
        let mut cells: BTreeMap<String, u64> = BTreeMap::new();
        for index in (0..self.len()).step_by(self.repeat() as usize) {
            let scenario = self.cell(index).scenario;
            for (name, it) in &scenario.workloads {
                let bps = offer(&it.kind, &scenario);
                let summary = all.entry(name.clone()).or_insert_with(|| WorkloadSummary {
                    name: name.clone(),
                    kind: it.kind.name(),
                    classes: BTreeSet::new(),
                    transport: it.kind.transport(),
                    offered_bps: bps.map(|bps| [bps, bps]),
                });
                summary.classes.insert(it.class.clone());
                let both = summary.offered_bps.zip(bps);
                summary.offered_bps =
                    both.map(|([least, most], bps)| [least.min(bps), most.max(bps)]);
                *cells.entry(name.clone()).or_default() += 1;
            }
        }
        // Where it is missing it offers nothing.
        let combinations = self.len() / u64::from(self.repeat());
        for summary in all.values_mut().filter(|summary| cells[&summary.name] < combinations) {
            summary.offered_bps = summary.offered_bps.map(|[_, most]| [0.0, most]);
        }
        all.into_values().collect()
    }
}

/// What a workload offers, in bits of payload per second; `None` if that depends on what gets
/// through.
fn offer(kind: &WorkloadKind, scenario: &Scenario) -> Option<f64> {
    match kind {
        WorkloadKind::PartitionAggregate(it) if !it.closed => {
            Some(8e9 * query_bytes(it, scenario) / it.gaps(scenario)?.mean())
        }
        WorkloadKind::Flows(it) if !it.closed => flows(it, scenario),
        WorkloadKind::Stream(Stream { rate: Some(rate), source, .. }) => {
            Some(rate.bits_per_sec() as f64 * count(source, scenario))
        }
        WorkloadKind::Markov(it) => states(it, scenario),
        _ => None,
    }
}

/// Frames have headers, which are no payload.
fn states(it: &Markov, scenario: &Scenario) -> Option<f64> {
    let frame = it.frame.map_or(u64::from(scenario.virtual_network.mtu), |bytes| bytes.0) as f64;
    let mean = it.model().ok()?.source().mean();
    Some(mean * (frame - f64::from(UDP_HEADERS)) / frame * count(&it.sources, scenario))
}

fn flows(it: &Flows, scenario: &Scenario) -> Option<f64> {
    let Some(gaps) = it.gaps(scenario) else { return Some(0.0) };
    Some(8e9 * it.sizes(scenario)?.mean() * count(&it.sources, scenario) / gaps.mean())
}

/// The bytes of all messages of a query, on average.
fn query_bytes(it: &PartitionAggregate, scenario: &Scenario) -> f64 {
    let pair = (it.request.0 + it.reply.0) as f64;
    let workers = count(&it.workers, scenario);
    let Some(mids) = &it.mids else {
        return it.query.0 as f64 + pair * it.fan_out.map_or(workers, f64::from);
    };
    let network = &scenario.virtual_network;
    let mut groups = scenario.topology.groups();
    groups.retain(|servers| mids.count_on(network, servers.clone()) > 0);
    let asked = it.fan_out.map_or(groups.len() as f64, f64::from);
    let workers: u64 =
        groups.iter().map(|servers| it.workers.count_on(network, servers.clone())).sum();
    let per_group = workers as f64 / groups.len() as f64;
    it.query.0 as f64 + pair * asked * (1.0 + per_group)
}

fn count(vms: &super::Vms, scenario: &Scenario) -> f64 {
    vms.count(&scenario.virtual_network, scenario.topology.servers()) as f64
}
