//! Machines by their numbers: the names that scenarios give them, and their hosts.

use crate::scenario::{Scenario, Vm};

/// A machine as scenarios call it, `worker@3/0`.
pub(crate) fn machine(scenario: &Scenario, number: u32) -> String {
    let Vm { server, mut slot } = match place(scenario, number) {
        Ok(vm) => vm,
        Err(client) => return format!("client{client}"),
    };
    for (role, count) in &scenario.virtual_network.vms {
        if slot < *count {
            return format!("{role}@{server}/{slot}");
        }
        slot -= count;
    }
    unreachable!("machine {number} has no role")
}

/// The host of a machine.
pub(crate) fn host(scenario: &Scenario, number: u32) -> u32 {
    match place(scenario, number) {
        Ok(vm) => vm.server,
        Err(client) => scenario.topology.servers() as u32 + client,
    }
}

/// The server and slot of a machine, or the number of a client: clients come behind the last
/// server's machines.
fn place(scenario: &Scenario, number: u32) -> Result<Vm, u32> {
    let slots = scenario.virtual_network.vms_per_server() as u32;
    let machines = slots * scenario.topology.servers() as u32;
    if number < machines {
        Ok(Vm { server: number / slots, slot: number % slots })
    } else {
        Err(number - machines)
    }
}
