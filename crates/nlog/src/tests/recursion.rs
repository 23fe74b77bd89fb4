//! Recursion under deletion: what supports itself goes, and too much is computed anew.

use alloc::string::String;
use alloc::vec::Vec;

use super::{engine, program};
use crate::{Batch, Engine, Value};

const REACH: &str = "\
input edge(graph: int, from: int, to: int);
input root(graph: int, node: int);
output reach(graph: int, node: int);
output pair(graph: int, one: int, other: int);
reach(g, a) :- root(g, a);
reach(g, b) :- reach(g, a), edge(g, a, b);
pair(g, a, b) :- reach(g, a), reach(g, b), less(a, b);
";

fn edit(engine: &mut Engine, batch: &mut Batch, comes: bool, table: &str, numbers: &[u64]) {
    let tuple: Vec<Value> = numbers.iter().map(|it| engine.values_mut().int(*it)).collect();
    let table = engine.table(table).unwrap();
    if comes { batch.insert(table, &tuple) } else { batch.delete(table, &tuple) }
}

/// A ring of nodes in each of two graphs, both with a root at node 0.
fn rings(nodes: u64) -> Engine {
    let mut engine = engine(program(REACH));
    let mut batch = Batch::new();
    for graph in [1, 2] {
        edit(&mut engine, &mut batch, true, "root", &[graph, 0]);
        for node in 0..nodes {
            edit(&mut engine, &mut batch, true, "edge", &[graph, node, (node + 1) % nodes]);
        }
    }
    engine.commit(1, &batch).unwrap();
    engine
}

fn len(engine: &Engine, table: &str) -> usize {
    engine.len(engine.table(table).unwrap())
}

#[test]
fn a_ring_without_a_root_does_not_support_itself() {
    let mut engine = rings(10);
    assert_eq!((len(&engine, "reach"), len(&engine, "pair")), (20, 90));
    let mut batch = Batch::new();
    edit(&mut engine, &mut batch, false, "root", &[1, 0]);
    let change = engine.commit(2, &batch).unwrap();
    assert_eq!((len(&engine, "reach"), len(&engine, "pair")), (10, 45));
    let names: Vec<&str> = change.tables().map(|table| engine.name(table)).collect();
    assert_eq!(names, ["reach", "pair"]);
}

#[test]
fn the_part_that_loses_most_is_computed_anew_and_no_other() {
    let mut engine = rings(100);
    let mut batch = Batch::new();
    // Everything behind the first edge hangs on it. A way around it comes in the same batch.
    edit(&mut engine, &mut batch, false, "edge", &[1, 0, 1]);
    edit(&mut engine, &mut batch, true, "edge", &[1, 0, 2]);
    let change = engine.commit(2, &batch).unwrap();
    assert_eq!(engine.counters().recomputed, 1);
    let reach = engine.table("reach").unwrap();
    let vanished: Vec<String> =
        change.vanished(reach).map(|tuple| tuple.show(engine.values())).collect();
    assert_eq!(vanished, ["reach(1, 1)"]);
    assert_eq!(change.appeared(reach).len(), 0);
    assert_eq!(len(&engine, "reach"), 199);
    // It can be undone, too.
    let mut batch = Batch::new();
    edit(&mut engine, &mut batch, false, "edge", &[1, 0, 2]);
    assert_eq!(engine.preview(&batch).unwrap().vanished(reach).len(), 98);
    assert_eq!(len(&engine, "reach"), 199);
}
