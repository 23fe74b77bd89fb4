//! Rows: a query or a flow that counts, and the columns that tell it.

use crate::ideal::Ideal;
use crate::record::{Flow, Query};
use crate::scenario::{Cell, Scenario, Transport, Vm};
use crate::time::Time;
use crate::world::Outcome;

/// A query, a round or a flow, as it is written down.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    cell: u64,
    workload: &'a str,
    kind: &'static str,
    from: String,
    to: Option<String>,
    bytes: Option<u64>,
    begun: Time,
    ended: Time,
    base: Option<Time>,
}

/// A column: what it is called, and where it comes from.
pub(super) struct Column {
    pub name: &'static str,
    /// Whether every row has it.
    pub is_full: bool,
    pub values: Values,
}

/// What a column has.
pub(super) enum Values {
    Text(for<'a> fn(&'a Row<'_>) -> Option<&'a str>),
    Whole(fn(&Row<'_>) -> Option<u64>),
    Real(fn(&Row<'_>) -> Option<f64>),
}

/// The kinds of rows.
pub(super) const QUERY: &str = "query";
pub(super) const FLOW: &str = "flow";

/// All columns, in the order in which files have them. docs/simulator.md explains each.
pub(super) const COLUMNS: [Column; 11] = [
    full("cell", Values::Whole(|row| Some(row.cell))),
    full("workload", Values::Text(|row| Some(row.workload))),
    full(KIND, Values::Text(|row| Some(row.kind))),
    full("from", Values::Text(|row| Some(&row.from))),
    partial("to", Values::Text(|row| row.to.as_deref())),
    partial("bytes", Values::Whole(|row| row.bytes)),
    full("start_ns", Values::Whole(|row| Some(row.begun.as_nanos()))),
    full("end_ns", Values::Whole(|row| Some(row.ended.as_nanos()))),
    full(FCT, Values::Whole(|row| Some(row.fct().as_nanos()))),
    partial("base_fct_ns", Values::Whole(|row| row.base.map(Time::as_nanos))),
    partial("slowdown", Values::Real(|row| row.slowdown())),
];

/// The columns that are read again.
pub(super) const KIND: &str = "kind";
pub(super) const FCT: &str = "fct_ns";

const fn full(name: &'static str, values: Values) -> Column {
    Column { name, is_full: true, values }
}

const fn partial(name: &'static str, values: Values) -> Column {
    Column { name, is_full: false, values }
}

impl Row<'_> {
    fn fct(&self) -> Time {
        self.ended - self.begun
    }

    fn slowdown(&self) -> Option<f64> {
        let base = self.base.filter(|base| *base > Time::ZERO)?;
        Some(self.fct().as_picos() as f64 / base.as_picos() as f64)
    }
}

/// The rows that a cell's scenario wants written down: queries, then flows, each in the order in which they ended.
pub(super) fn rows<'a>(cell: &'a Cell, outcome: &'a Outcome) -> impl Iterator<Item = Row<'a>> {
    let scenario = &cell.scenario;
    let workloads: Vec<(&str, Transport)> =
        scenario.workloads.iter().map(|(name, it)| (name.as_str(), it.kind.transport())).collect();
    let queries = if scenario.output.queries { outcome.record.queries() } else { &[] };
    let flows = if scenario.output.flows { outcome.record.flows() } else { &[] };
    let ideal = (!flows.is_empty()).then(|| Ideal::new(scenario));
    let names = workloads.clone();
    let query = move |it: &Query| Row {
        cell: cell.index,
        workload: names[usize::from(it.workload)].0,
        kind: QUERY,
        from: machine(scenario, it.at),
        to: None,
        bytes: None,
        begun: it.begun,
        ended: it.ended,
        base: None,
    };
    let flow = move |it: &Flow| {
        let (workload, transport) = workloads[usize::from(it.workload)];
        let [from, to] = [it.from, it.to].map(|machine| host(scenario, machine));
        Row {
            cell: cell.index,
            workload,
            kind: FLOW,
            from: machine(scenario, it.from),
            to: Some(machine(scenario, it.to)),
            bytes: Some(it.bytes),
            begun: it.begun,
            ended: it.ended,
            base: ideal.as_ref().map(|ideal| ideal.time(from, to, it.bytes, transport)),
        }
    };
    queries.iter().map(query).chain(flows.iter().map(flow))
}

/// A machine as scenarios call it, `worker@3/0`; clients are behind the last server's machines.
fn machine(scenario: &Scenario, number: u32) -> String {
    match place(scenario, number) {
        Ok(vm) => {
            let mut slot = vm.slot;
            for (role, count) in &scenario.virtual_network.vms {
                if slot < *count {
                    return format!("{role}@{}/{slot}", vm.server);
                }
                slot -= count;
            }
            unreachable!("a server has no slot {} more than roles", slot)
        }
        Err(client) => format!("client{client}"),
    }
}

/// The host of a machine.
fn host(scenario: &Scenario, number: u32) -> u32 {
    match place(scenario, number) {
        Ok(vm) => vm.server,
        Err(client) => scenario.topology.servers() as u32 + client,
    }
}

/// The server and slot of a machine, or the number of a client.
fn place(scenario: &Scenario, number: u32) -> Result<Vm, u32> {
    let slots = scenario.virtual_network.vms_per_server() as u32;
    let machines = slots * scenario.topology.servers() as u32;
    if number < machines {
        Ok(Vm { server: number / slots, slot: number % slots })
    } else {
        Err(number - machines)
    }
}
