//! What OpenStack Nova's filter and weigher ask, for all hosts at once.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bounded::Names;
use super::refusals::Refusals;
use super::scheduler::{Machine, Scheduler};
use super::word::Word;

/// How far all others weigh below the host that a server is assumed to go to, at least.
const LEAD: f64 = 0.01;

/// A server to be placed, and the hosts that it may go to.
#[derive(Deserialize, Debug)]
pub struct Asked {
    spec: Spec,
    hosts: Names,
    /// Whether the server is assumed to go to the host that weighs most; to the only one it is
    /// always.
    #[serde(default)]
    assume: bool,
}

impl Asked {
    /// The model that the server's flavor says.
    pub fn model(&self) -> Option<&str> {
        self.spec.flavor.extra_specs.as_ref().and_then(|it| it.model.as_deref())
    }
}

/// What is looked at of Nova's `RequestSpec`.
#[derive(Deserialize, Debug)]
struct Spec {
    #[serde(default)]
    instance_uuid: Option<Word>,
    flavor: Flavor,
}

#[derive(Deserialize, Debug)]
struct Flavor {
    vcpus: u64,
    memory_mb: u64,
    #[serde(default)]
    extra_specs: Option<ExtraSpecs>,
}

/// What a flavor says of its servers' model. The rest is passed over.
#[derive(Deserialize, Debug)]
struct ExtraSpecs {
    #[serde(default, rename = "zovn:model")]
    model: Option<String>,
}

/// Which hosts take the server.
#[derive(Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Those that do, in the order in which they were asked about.
    pub hosts: Vec<String>,
    /// How much each of them is preferred, from 0 to 1.
    pub weights: BTreeMap<String, f64>,
    /// Why others do not.
    pub reasons: BTreeMap<String, String>,
}

/// Judges hosts.
pub fn hosts(
    asked: Asked,
    now: Duration,
    scheduler: &mut Scheduler<'_>,
    refusals: &mut Refusals,
) -> Answer {
    let model = scheduler.model(asked.model());
    let Asked { spec: Spec { instance_uuid, flavor }, hosts, assume } = asked;
    let machine = Machine {
        model,
        milli_cores: flavor.vcpus.saturating_mul(1000),
        memory: flavor.memory_mb.saturating_mul(1 << 20),
        key: instance_uuid.unwrap_or_default().0,
    };
    scheduler.ask(now, &machine.key);
    let mut answer =
        Answer { hosts: Vec::new(), weights: BTreeMap::new(), reasons: BTreeMap::new() };
    let mut best: Option<(f64, usize)> = None;
    for host in hosts.0 {
        match scheduler.judge(&machine, &host) {
            Ok(weight) => {
                if best.is_none_or(|(most, _)| weight > most) {
                    best = Some((weight, answer.hosts.len()));
                }
                answer.weights.insert(host.clone(), weight);
                answer.hosts.push(host);
            }
            Err(refused) => {
                refusals.add(&refused);
                answer.reasons.insert(host, refused.to_string());
            }
        }
    }
    // If one host is left, Nova does not ask which is best.
    let is_known = !machine.key.is_empty() && (assume || answer.hosts.len() == 1);
    if let Some((_, best)) = best.filter(|_| is_known) {
        let best = &answer.hosts[best];
        scheduler.assume(now, &machine, best);
        // It alone weighs most, as Nova may pick any of those that do.
        let most = answer.weights[best].max(LEAD);
        for (host, weight) in &mut answer.weights {
            *weight = if host == best { most } else { weight.min(most - LEAD) };
        }
    }
    answer
}
