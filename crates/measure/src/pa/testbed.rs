//! Partition-Aggregate between hosts: whose machine asks, whose answer, and who sends beside them.
//!
//! ```text
//!   host 1      host 2      host 3      host 4
//!   asks        worker 1    worker 2    worker 3      dealt round robin, one to each host in turn
//!   worker 4    worker 5    worker 6    worker 7
//!   …                                                 those that are left send background flows
//! ```

use lab::{Endpoint, EndpointSpec, LabSpec};
use serde::{Deserialize, Serialize};

use super::cast::Cast;
use super::flow_control::FlowControl;
use crate::MeasureError;
use crate::site::quiet_endpoint;

/// Several hosts, and what is compared on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Testbed {
    /// The hosts, the network between them and the machines on them. What flow control says of it
    /// is said anew for each.
    pub lab: LabSpec,
    /// Where flow control is on.
    pub flow_controls: Vec<FlowControl>,
    /// What the others are compared with.
    pub baseline: FlowControl,
}

impl Testbed {
    /// Its machines.
    pub(super) fn machines(&self) -> Result<Vec<Endpoint>, MeasureError> {
        Ok(self.lab.resolve("testbed")?)
    }

    /// What is wrong with it, if anything.
    pub(super) fn check(&self, asking: u32, answering: u32) -> Result<(), MeasureError> {
        let wrong = |what: String| Err(MeasureError::Config(what));
        let name = &self.lab.name;
        if self.lab.hosts.is_none() {
            return wrong(format!(
                "lab `{name}` is one host: give it [hosts], or measure without --lab"
            ));
        }
        let them = &self.flow_controls;
        if let Some(twice) = them.iter().enumerate().find(|(place, it)| them[..*place].contains(it))
        {
            return wrong(format!("`{}` is named twice: name each flow control once", twice.1));
        }
        if !them.contains(&self.baseline) {
            return wrong(format!(
                "the baseline `{}` is not measured: add it to --flow-control",
                self.baseline
            ));
        }
        let (wanted, machines) = (u64::from(asking) + u64::from(answering), self.machines()?.len());
        if wanted > machines as u64 {
            return wrong(format!(
                "lab `{name}` has {machines} machines, and {asking} that ask and {answering} that answer are {wanted}: lower \
                 --workers"
            ));
        }
        Ok(())
    }

    /// Who does what: machines take their parts in turns of their hosts.
    pub(super) fn cast(&self, asking: u32, answering: u32) -> Result<Cast, MeasureError> {
        let mut machines = self.machines()?;
        let mut before = vec![0; machines.len()];
        for place in 1..machines.len() {
            if machines[place].host == machines[place - 1].host {
                before[place] = before[place - 1] + 1;
            }
        }
        // Hosts have their machines in order, so it is known how many of a host's come before each.
        let mut turns: Vec<_> = before.into_iter().zip(machines.drain(..)).collect();
        turns.sort_by_key(|(turn, machine)| (*turn, machine.host));
        let mut names = turns.into_iter().map(|(_, machine)| machine.name);
        let aggregators: Vec<_> = names.by_ref().take(asking as usize).collect();
        let workers: Vec<_> = names.by_ref().take(answering as usize).collect();
        let rest: Vec<_> = names.collect();
        let everyone = || aggregators.iter().chain(&workers).cloned().collect();
        let background = if rest.len() > 1 { rest } else { everyone() };
        Ok(Cast { aggregators, workers, background })
    }

    /// The lab with one flow control, of machines that say nothing by themselves.
    pub(super) fn lab(&self, flow_control: FlowControl) -> Result<LabSpec, MeasureError> {
        let quiet = |(number, machine): (u32, Endpoint)| {
            let mut quiet = quiet_endpoint(machine.name, number)?;
            quiet.sysctls.extend(machine.sysctls);
            let Endpoint { mac, rate, buffer, initcwnd, .. } = machine;
            Ok(EndpointSpec { mac: Some(mac), rate, buffer, initcwnd, ..quiet })
        };
        let endpoints =
            (1..).zip(self.machines()?).map(quiet).collect::<Result<_, MeasureError>>()?;
        let mut spec = LabSpec { endpoints, ..self.lab.clone() };
        if let Some(hosts) = spec.hosts.take() {
            flow_control.apply(&mut spec, hosts);
        }
        Ok(spec)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn testbed(name: &str) -> Testbed {
        Testbed {
            lab: LabSpec::find(name).unwrap(),
            flow_controls: vec![FlowControl::NONE, "ZZ".parse().unwrap()],
            baseline: FlowControl::NONE,
        }
    }

    #[test]
    fn workers_are_on_all_other_hosts_in_turn() {
        let Cast { aggregators, workers, background } = testbed("testbed1").cast(1, 31).unwrap();
        assert_eq!(aggregators, ["vm1"]);
        assert_eq!(workers[..8], ["vm5", "vm9", "vm13", "vm17", "vm21", "vm25", "vm29", "vm2"]);
        assert_eq!((workers.len(), background.len()), (31, 32));
    }

    #[test]
    fn machines_that_are_left_send_beside_the_queries() {
        let Cast { workers, background, .. } = testbed("testbed2").cast(1, 31).unwrap();
        assert_eq!((workers.len(), background.len()), (31, 32));
        assert!(workers.iter().all(|worker| !background.contains(worker)));
        assert_eq!(background[..4], ["vm9", "vm25", "vm41", "vm57"]);
    }

    #[test]
    fn testbeds_can_be_with_every_flow_control() {
        for name in ["testbed1", "testbed2"] {
            let testbed = testbed(name);
            testbed.check(1, 31).unwrap();
            for word in ["LL", "LZ", "ZL", "ZZ", "ZL+retransmit"] {
                let lab = testbed.lab(word.parse().unwrap()).unwrap();
                let machines = lab.resolve("it").unwrap();
                assert_eq!(machines.len(), testbed.machines().unwrap().len());
                assert!(machines[0].ipv6().is_none() && machines[0].host == Some(0));
                assert_eq!(machines[0].sysctls["net.ipv6.conf.all.disable_ipv6"], "1");
            }
        }
    }

    #[test]
    fn what_cannot_be_on_a_testbed_is_refused() {
        let wrong = |change: fn(&mut Testbed)| {
            let mut testbed = testbed("testbed1");
            change(&mut testbed);
            testbed.check(1, 31).unwrap_err().to_string()
        };
        assert!(
            testbed("testbed1").check(2, 31).unwrap_err().to_string().contains("lower --workers")
        );
        assert!(wrong(|it| it.lab.hosts = None).contains("[hosts]"));
        assert!(wrong(|it| it.flow_controls.push(FlowControl::NONE)).contains("twice"));
        assert!(wrong(|it| it.flow_controls.truncate(0)).contains("not measured"));
    }
}
