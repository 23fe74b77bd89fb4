//! Which machines to move away from hosts that are asked for too much.

use placement::{Advice, History, MoveSettings, advise, risks};
use serde::Serialize;
use units::{Instant, Rate, Span};

use crate::plan::{Carried, Plan};

/// What moves are weighed by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Terms {
    /// For how long a move has to pay.
    pub horizon: Span,
    /// The part of the goal that hosts are to have after a move, in percent.
    pub aim_percent: u8,
    /// The most moves.
    pub most: usize,
    /// What one migration is given.
    pub rate: Rate,
}

/// What to do, in this order, one at a time.
#[derive(Clone, Debug, Serialize)]
pub struct Moves {
    /// Hosts that are asked for too much by the lower end of what that may be.
    pub overloaded: Vec<String>,
    /// The moves; none, if none pays.
    pub steps: Vec<ToldMove>,
    /// Seconds of overload within the horizon if all stay.
    pub stay_secs: f64,
    /// The same after the moves, together with what these cost.
    pub go_secs: f64,
    /// Whether moves pay.
    pub pays: bool,
}

/// A move.
#[derive(Clone, Debug, Serialize)]
pub struct ToldMove {
    /// One of these machines.
    pub vm: String,
    /// Where it is.
    pub from: String,
    /// Where it goes.
    pub to: String,
    /// How long that takes.
    pub takes_secs: f64,
    /// How many seconds of overload it costs meanwhile.
    pub cost_secs: f64,
}

/// Advises which machines of the plan's placement to move.
///
/// Migrations go by hosts' cards in each direction, and not through their switches.
pub fn moves(plan: &Plan, terms: Terms) -> Moves {
    let problem = plan.problem();
    let risks = risks(&problem, &plan.placement);
    let overloaded: Vec<usize> =
        (0..risks.len()).filter(|host| risks[*host].overload.low > plan.epsilon).collect();
    let rate = terms.rate.bits_per_sec();
    let mut flow: Vec<Vec<u64>> = vec![Vec::new(); problem.types.len()];
    for (host, it) in problem.hosts.iter().enumerate() {
        let of_limit = |carried| match carried {
            Carried::Out | Carried::In => rate,
            Carried::Bits | Carried::Frames | Carried::Time => 0,
        };
        let limits = &plan.kind_of(host).limits;
        flow[it.kind] = limits.iter().map(|(carried, _)| of_limit(*carried)).collect();
    }
    let settings = MoveSettings {
        horizon: terms.horizon,
        cooldown: Span::ZERO,
        aim: f64::from(terms.aim_percent) / 100.0,
        most: terms.most,
        rate,
        dirty: plan.vms.iter().map(|it| it.it.dirty.map_or(0, Rate::bits_per_sec)).collect(),
        flow,
    };
    let history = History::default();
    let advice = advise(&problem, &plan.placement, &overloaded, &history, Instant::ZERO, &settings);
    let Advice { steps, stay_secs, go_secs } = advice;
    let name = |host: usize| plan.names(&[host]).remove(0);
    let steps: Vec<ToldMove> = steps
        .iter()
        .map(|step| ToldMove {
            vm: plan.vms[step.it.class].name.clone(),
            from: name(step.it.from),
            to: name(step.it.to),
            takes_secs: step.takes.as_secs_f64(),
            cost_secs: step.cost_secs,
        })
        .collect();
    Moves {
        overloaded: plan.names(&overloaded),
        pays: !steps.is_empty() && go_secs < stay_secs,
        steps,
        stay_secs,
        go_secs,
    }
}
