//! Figure 6, and what it costs: probes a flow, bytes a tuple, tables a change.

use std::collections::BTreeSet;

use nlog::{Batch, Engine, Role, Tuple};

use crate::network::{Network, engine};

fn show(engine: &Engine, tuple: Tuple<'_>) -> String {
    tuple.show(engine.values())
}

fn all(engine: &Engine, table: &str) -> BTreeSet<String> {
    let table = engine.table(table).unwrap();
    engine.tuples(table).map(|tuple| show(engine, tuple)).collect()
}

#[test]
fn a_port_that_moves_takes_its_tunnels_along() {
    let mut engine = engine(0);
    let (ports, datapaths) = (vec![(0, 0), (0, 1)], vec![vec![0, 1]]);
    let mut network = Network { hypervisors: 3, ports, datapaths, reported: BTreeSet::new() };
    let mut batch = Batch::new();
    network.insert_all(&mut engine, &mut batch);
    engine.commit(1, &batch).unwrap();
    assert_eq!(
        all(&engine, "tunnel"),
        [
            "tunnel(#0, #1, \"stt\", #167772160)".into(),
            "tunnel(#1, #0, \"stt\", #167772161)".into()
        ]
        .into()
    );
    assert_eq!(
        all(&engine, "ovs_flow"),
        ["ovs_flow(#0, #1001, #1)".into(), "ovs_flow(#1, #1000, #2)".into()].into()
    );

    let mut batch = Batch::new();
    network.move_port(1, 2, &mut engine, &mut batch);
    let change = engine.commit(2, &batch).unwrap();
    let names: Vec<&str> = change.tables().map(|table| engine.name(table)).collect();
    assert_eq!((names, change.revision()), (vec!["ovsdb_tunnel", "ovs_flow"], 2));
    let flows = engine.table("ovs_flow").unwrap();
    let appeared: Vec<String> = change.appeared(flows).map(|it| show(&engine, it)).collect();
    let vanished: Vec<String> = change.vanished(flows).map(|it| show(&engine, it)).collect();
    assert_eq!(vanished, ["ovs_flow(#0, #1001, #1)", "ovs_flow(#1, #1000, #2)"]);
    assert_eq!(appeared, ["ovs_flow(#0, #1001, #4)", "ovs_flow(#2, #1000, #3)"]);
}

/// Sums over all rules: searches, rows found, derivations.
fn work(engine: &Engine) -> [u64; 3] {
    engine.rules().fold([0; 3], |[probes, rows, derivations], (_, counters)| {
        [probes + counters.probes, rows + counters.rows, derivations + counters.derivations]
    })
}

fn tuples(engine: &Engine) -> usize {
    engine.tables().map(|table| engine.len(table)).sum()
}

#[test]
fn a_cold_start_stays_within_its_bounds() {
    let mut engine = engine(0);
    let mut network = Network::new(500);
    let mut batch = Batch::new();
    network.insert_all(&mut engine, &mut batch);
    let change = engine.commit(1, &batch).unwrap();
    let outputs = change.tables().map(|table| change.appeared(table).len()).sum::<usize>() as f64;
    let [probes, rows, derivations] = work(&engine).map(|it| it as f64 / outputs);
    // More would be a cross product in the rules, or a plan that has become worse.
    let found = format!("{probes:.2} probes, {rows:.2} rows, {derivations:.2} derivations");
    assert!(probes <= 1.8 && rows <= 3.5 && derivations <= 2.5, "an output: {found}");
    let bytes = engine.bytes() as f64 / tuples(&engine) as f64;
    assert!(bytes <= 28.0, "{bytes} bytes a tuple");
    let flows = engine.len(engine.table("ovs_flow").unwrap()) as f64;
    let tuples = tuples(&engine) as f64 / flows;
    assert!(tuples <= 3.0, "{tuples} tuples a flow");
}

#[test]
fn a_change_touches_no_table_but_those_that_depend_on_it() {
    let mut engine = engine(400);
    assert!(engine.rules().count() >= 1200);
    let mut network = Network::new(100);
    let mut batch = Batch::new();
    network.insert_all(&mut engine, &mut batch);
    engine.commit(1, &batch).unwrap();
    let before = work(&engine);

    let mut batch = Batch::new();
    let members = network.datapaths[99].len() as u64;
    network.add(99, 7, &mut engine, &mut batch);
    engine.commit(2, &batch).unwrap();
    // Four inputs, the tunnels, and two outputs, of 3,600 tables.
    let touched = engine.counters().touched;
    assert!(touched <= 7, "{touched} tables");
    let after = work(&engine);
    let probes = after[0] - before[0];
    assert!(probes <= 16 * (members + 4), "{probes} probes for {members} neighbours");
    let roles = engine.tables().filter(|table| engine.role(*table) == Role::Input).count();
    assert_eq!(roles, 401 * 6);
}

#[test]
fn bytes_stay_within_their_bound_after_many_changes() {
    let mut engine = engine(0);
    let mut network = Network::new(100);
    let mut batch = Batch::new();
    network.insert_all(&mut engine, &mut batch);
    engine.commit(1, &batch).unwrap();
    let (ports, hypervisors) = (network.ports.len() as u32, network.hypervisors);
    for step in 0..2 * ports {
        let mut batch = Batch::new();
        let port = step.wrapping_mul(7919) % ports;
        let to = (network.ports[port as usize].1 + 1 + step % (hypervisors - 1)) % hypervisors;
        network.move_port(port, to, &mut engine, &mut batch);
        engine.commit(u64::from(step) + 2, &batch).unwrap();
    }
    let bytes = engine.bytes() as f64 / tuples(&engine) as f64;
    assert!(bytes <= 48.0, "{bytes} bytes a tuple");
}
