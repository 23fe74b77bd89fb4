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
    /// What they draw, in watts.
    pub watts: u64,
    /// How many machines a host has on average.
    pub machines_per_host: f64,
    /// How many machines fit no host of this type: the rest is all it is an offer for.
    pub unplaced: u64,
    /// The mean share of a host's cores that is left.
    pub cores_free: f64,
    /// What hosts run out of first.
    pub binds: &'static str,
    /// Whether no other offer is as good in price, watts and free cores, and better in one.
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
    let watts: Vec<u64> = plan.kinds.iter().map(|it| it.watts).collect();
    let mut quotes = buy(&problem, &watts);
    quotes.sort_by_key(|it| (it.unplaced, it.price, it.kind));
    let cheapest = quotes.first().copied();
    let offers = quotes.into_iter().map(|it| {
        let kind = &plan.kinds[it.kind];
        let placed = plan.machines() - it.unplaced;
        Offer {
            kind: kind.name.clone(),
            hosts: it.hosts,
            price: it.price,
            watts: it.watts,
            machines_per_host: placed as f64 / it.hosts.max(1) as f64,
            unplaced: it.unplaced,
            cores_free: it.cores_free,
            binds: match it.binds {
                Binding::Cores => "cores",
                Binding::Memory => "memory",
                Binding::Limit(limit) => kind.limits[limit].0.name(),
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
