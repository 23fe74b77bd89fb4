//! How many instructions an edited object costs, and whether they are still as few.
//!
//! `cargo bench -p hypervisor --bench instructions`. In NVP's networks at a tenth (700 switches,
//! 6,300 machines): `cold` counts by object of a first commit; `change` a machine that becomes what
//! another policy holds for; `come and go` a machine that comes, or goes; `member` one of a group
//! of 10,000 that 100 policies speak of. What the bench itself does counts.

#[path = "../tests/it/nvp.rs"]
mod nvp;

use std::process::ExitCode;

use hypervisor::{Edit, Hypervisor};

use nvp::{Forms, app, put};

const CASES: [callgrind::Case<'_>; 4] = [
    ("cold", 92_250.0),
    ("change", 307_548.0),
    ("come and go", 166_265.0),
    ("member", 1_402_436.0),
];

const SWITCHES: u32 = 700;

fn main() -> ExitCode {
    // Twice as many machines are changed once each.
    callgrind::main("object", &CASES, 80, objects)
}

fn objects(case: &str, amount: u64) -> u64 {
    let forms = Forms::new();
    let (mut hypervisor, mut revision) = (Hypervisor::new(1), 0);
    if case == "cold" {
        let objects = forms.networks(amount as u32);
        let number = objects.len() as u64;
        put(&mut hypervisor, &mut revision, objects);
        return number;
    }
    if case == "member" {
        let (objects, larger) = forms.group(0, 10_000, 100);
        let group = objects.iter().find(|it| it.identity() == larger.identity());
        let groups = [larger.clone(), group.expect("the group is one of them").clone()];
        put(&mut hypervisor, &mut revision, objects);
        for step in 0..amount as usize {
            put(&mut hypervisor, &mut revision, [groups[step % 2].clone()]);
        }
        return amount;
    }
    put(&mut hypervisor, &mut revision, forms.networks(SWITCHES));
    for step in 0..amount as u32 {
        let (tenant, number) = (step * 7 % (SWITCHES / 10), step / 2 % 90);
        match case {
            "change" => {
                let other = if app(number) == "web" { "db" } else { "web" };
                let machine = forms.machine(tenant, number, other);
                put(&mut hypervisor, &mut revision, [machine]);
            }
            _ if step % 2 == 0 => {
                let gone = forms.machine(0, number, app(number)).identity();
                revision += 1;
                hypervisor.commit(revision, [Edit::remove(gone)]);
            }
            _ => {
                let machine = forms.machine(0, number, app(number));
                put(&mut hypervisor, &mut revision, [machine]);
            }
        }
    }
    amount
}
