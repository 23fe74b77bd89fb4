//! Times NVP's networks at the scale of the paper's §6.1.
//!
//! `cargo run --release -p hypervisor --example nvp [SWITCHES]`: 7,000 switches are NVP's 63,000
//! ports.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::print_stdout, reason = "it prints what it measured")]

#[path = "../tests/it/nvp.rs"]
mod nvp;

use std::time::{Duration, Instant};

use hypervisor::{Edit, Hypervisor};

use nvp::{Forms, app, put};

fn main() {
    let switches: u32 = std::env::args().nth(1).map_or(7000, |it| it.parse().expect("a number"));
    let forms = Forms::new();
    let (mut hypervisor, mut revision) = (Hypervisor::new(1), 0);
    let objects = forms.networks(switches);
    let (number, declared) = (objects.len(), resident());
    let start = Instant::now();
    let changes = put(&mut hypervisor, &mut revision, objects);
    let cold = start.elapsed();
    drop(changes);
    let (tuples, bytes) = hypervisor.size();
    let rows: usize = hypervisor.image().values().map(image::Domain::len).sum();
    println!(
        "cold: {number} objects, {} machines, {rows} rows, {tuples} tuples in {cold:.3?}: {:.2} M \
         tuples/s, {:.1} B/tuple; {} MB more than the objects' {declared} MB",
        switches * 9,
        tuples as f64 / cold.as_secs_f64() / 1e6,
        bytes as f64 / tuples as f64,
        resident().saturating_sub(declared),
    );
    let (mut changes, mut removals, mut additions) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..1000_u32 {
        let tenant = step.wrapping_mul(2_654_435_769) % (switches / 10);
        let machine = step % 90;
        let other = if app(machine) == "web" { "db" } else { "web" };
        let [one, other] = [app(machine), other].map(|app| forms.machine(tenant, machine, app));
        let mut time = |hypervisor: &mut Hypervisor, edit| {
            revision += 1;
            let start = Instant::now();
            let changes = hypervisor.commit(revision, [edit]);
            let time = start.elapsed();
            assert!(!changes.is_empty());
            time
        };
        changes.push(time(&mut hypervisor, Edit::put(other)));
        removals.push(time(&mut hypervisor, Edit::remove(one.identity())));
        additions.push(time(&mut hypervisor, Edit::put(one)));
    }
    print("a machine has another policy", &mut changes);
    print("a machine goes", &mut removals);
    print("a machine comes", &mut additions);
    let (mut hypervisor, mut revision) = (Hypervisor::new(1), 0);
    let (objects, larger) = forms.group(0, 10_000, 100);
    let group = objects.iter().find(|it| it.identity() == larger.identity());
    let groups = [larger.clone(), group.expect("the group is one of them").clone()];
    put(&mut hypervisor, &mut revision, objects);
    let members = (0..100).map(|step| {
        let start = Instant::now();
        put(&mut hypervisor, &mut revision, [groups[step % 2].clone()]);
        start.elapsed()
    });
    print("a member of 10,000 in 100 rules", &mut members.collect::<Vec<_>>());
}

fn print(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!("{what}: p50 {:.3?}, p99 {:.3?}, max {:.3?}", at(50), at(99), at(100));
}

/// The memory of this program, in MB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kb.unwrap_or(0) / 1000
}
