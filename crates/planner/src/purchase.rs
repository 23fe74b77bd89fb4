//! What each type of host would cost for all machines.

use placement::{Binding, buy};
use serde::Serialize;

use crate::plan::Plan;
use crate::share::Share;

/// All machines on hosts of one type.
#[derive(Clone, Debug, Serialize)]
pub struct Offer {
    /// The type, and the cores of its switch.
    pub kind: String,
    /// How many hosts.
    pub hosts: usize,
    /// What they cost.
    pub price: u64,
    /// What they cost for each machine that they have.
    pub price_per_machine: f64,
    /// What they draw, in watts; none if the type does not say it.
    pub watts: Option<u64>,
    /// How many machines a host has on average.
    pub machines_per_host: f64,
    /// How many machines fit no host of this type: the rest is all it is an offer for.
    pub unplaced: u64,
    /// The mean share of a host's cores that is left.
    pub cores_free: f64,
    /// What hosts run out of first.
    pub binds: String,
    /// Whether no other offer is as good in price, watts and free cores, and better in one. Watts
    /// do not count unless all types say theirs.
    pub is_efficient: bool,
    /// By how much one host of the cheapest offer may become dearer until this one is as cheap.
    pub break_even: f64,
    /// How many hosts there would be if the network were ignored.
    pub blind_hosts: usize,
    /// What these would cost.
    pub blind_price: u64,
    /// The share of time in which the worst of them is asked for too much.
    pub blind_overload: Share,
}

/// What each type would cost, the cheapest first; offers that leave machines out are last.
///
/// # Errors
///
/// A type has no price.
pub fn offers(plan: &Plan) -> Result<Vec<Offer>, String> {
    let problem = plan.market()?;
    let watts: Option<Vec<u64>> = plan.kinds.iter().map(|it| it.watts).collect();
    // A type that does not say its watts is not one that draws none.
    let mut quotes = buy(&problem, &watts.unwrap_or_else(|| vec![0; plan.kinds.len()]));
    quotes.sort_by_key(|it| (it.unplaced, it.price, it.kind));
    let cheapest = quotes.first().copied();
    let offers = quotes.into_iter().map(|it| {
        let kind = &plan.kinds[it.kind];
        let placed = plan.machines() - it.unplaced;
        Offer {
            kind: kind.name.clone(),
            hosts: it.hosts,
            price: it.price,
            price_per_machine: it.price as f64 / placed.max(1) as f64,
            watts: kind.watts.map(|watts| watts * it.hosts as u64),
            machines_per_host: placed as f64 / it.hosts.max(1) as f64,
            unplaced: it.unplaced,
            cores_free: it.cores_free,
            binds: match it.binds {
                Binding::Cores => "cores".into(),
                Binding::Memory => "memory".into(),
                Binding::Limit(limit) => kind.limits[limit].name.clone(),
            },
            is_efficient: it.is_efficient,
            break_even: cheapest.map_or(0.0, |cheapest| it.break_even(&cheapest)),
            blind_hosts: it.ignored.hosts,
            blind_price: it.ignored.price,
            blind_overload: Share { low: it.ignored.overload, high: it.ignored.overload },
        }
    });
    Ok(offers.collect())
}

/// Which offers' watts are not known, so that watts are not compared; none if all are.
pub fn unknown_watts(offers: &[Offer]) -> Option<String> {
    let silent = offers.iter().filter(|it| it.watts.is_none());
    let silent: Vec<&str> = silent.map(|it| it.kind.as_str()).collect();
    (!silent.is_empty()).then(|| {
        let silent = silent.join(", ");
        format!("watts are not compared, as `watts` is missing in the types of: {silent}")
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Offers of two types that differ in price and watts alone.
    fn of(dear_watts: &str) -> Vec<Offer> {
        let host = "cores: 8, memory: 64gib, switch: [{carries: 1gbit}]";
        let text = format!(
            "goal: {{epsilon: 0.01}}\n\
             types:\n  r: {{{host}, price: 10, watts: 100}}\n  s: {{{host}, price: 11{dear_watts}}}\n\
             models:\n  web: {{rate: 10mbit}}\n\
             vms:\n  web: {{count: 20, model: web, cores: 1, memory: 1gib}}\n"
        );
        offers(&Plan::of_text(Path::new("p.yaml"), &text).unwrap()).unwrap()
    }

    #[test]
    fn a_type_that_does_not_say_its_watts_is_not_one_that_draws_none() {
        let watts = |offers: &[Offer]| offers.iter().map(|it| it.watts).collect::<Vec<_>>();
        let efficient =
            |offers: &[Offer]| offers.iter().map(|it| it.is_efficient).collect::<Vec<_>>();
        let said = of(", watts: 90");
        assert_eq!((watts(&said), efficient(&said)), (vec![Some(300), Some(270)], vec![true; 2]));
        assert_eq!(unknown_watts(&said), None);
        let unsaid = of("");
        assert_eq!(
            (watts(&unsaid), efficient(&unsaid)),
            (vec![Some(300), None], vec![true, false])
        );
        assert!(unknown_watts(&unsaid).unwrap().ends_with("missing in the types of: s"));
    }

    #[test]
    fn a_price_is_told_for_each_machine() {
        let [cheap, dear] = &of("")[..] else { panic!("two types") };
        assert_eq!((cheap.hosts, cheap.price), (3, 30));
        assert_eq!((cheap.price_per_machine, dear.price_per_machine), (1.5, 1.65));
    }
}
