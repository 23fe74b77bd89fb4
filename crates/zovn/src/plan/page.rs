//! Pages of plans: what a command found as charts, in one file that anybody can open.

use std::path::PathBuf;

use figures::{Unit, si};
use measure::page::{Axis, Bars, Chart, Lines, Page, Table};
use planner::Share;
use planner::placed::Placed;
use planner::purchase::{Offer, unknown_watts};
use planner::risks::GroupRisk;
use planner::told::ToldFits;
use planner::{Capacity, Least, Plan};

use super::words::{hosts, machines, watts};
use crate::ending::{PageFile, command_line};

/// Where a page goes, if one is asked for.
#[derive(clap::Args)]
pub struct Html {
    /// Write a self-contained HTML page with charts here, too.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Html {
    /// The file, made before anything is computed: what cannot be written is known then.
    ///
    /// # Errors
    ///
    /// A sentence why it cannot be written.
    pub fn open(&self) -> Result<Option<PageFile>, String> {
        self.html.clone().map(PageFile::open).transpose()
    }
}

/// Writes a page into a file, if there is one, with the command that made it at its end.
///
/// # Errors
///
/// A sentence why it cannot be written.
pub fn put(file: Option<PageFile>, page: impl FnOnce() -> Page) -> Result<(), String> {
    let Some(file) = file else { return Ok(()) };
    let page = page().section("Again", "This command makes the page again:");
    file.put(&page.command(command_line()).render())
}

/// The most hosts of a chart.
const MOST: usize = 40;

/// Shares of time of the riskiest hosts beside the goal.
fn overloads<'a>(
    plan: &Plan,
    groups: impl IntoIterator<Item = (&'a [String], Share)>,
) -> (Chart, usize) {
    let mut groups: Vec<(String, f64)> =
        groups.into_iter().map(|(names, it)| (hosts(names), it.high)).collect();
    groups.sort_by(|one, other| other.1.total_cmp(&one.1));
    let left_out = groups.len().saturating_sub(MOST);
    groups.truncate(MOST);
    groups.insert(0, ("the goal".to_owned(), plan.epsilon));
    let axis = Axis::log10("share of time in which more is asked for than is carried", Unit::SHARE);
    let names: Vec<&str> = groups.iter().map(|(name, _)| name.as_str()).collect();
    let chart = Bars::new("Overload of hosts", axis)
        .groups("hosts", names)
        .series("overload", groups.iter().map(|(_, share)| *share))
        .horizontal();
    (chart.into(), left_out)
}

/// The page with this chart, and how many hosts it leaves out.
fn with_most(page: Page, (chart, left_out): (Chart, usize)) -> Page {
    let page = page.chart(chart);
    match left_out {
        0 => page,
        more => page.note(format!("{more} more groups of hosts have less.")),
    }
}

/// What a placement risks.
pub fn of_risks(plan: &Plan, groups: &[GroupRisk]) -> Page {
    let page = Page::new("What hosts risk").lead(
        "How much of the time each host of the placement is asked for more than it carries, against \
         the goal. Hosts that are alike stand together.",
    );
    let overloads = overloads(plan, groups.iter().map(|it| (&it.hosts[..], it.overload)));
    let heads = ["hosts", "machines", "limit", "carries", "mean", "overload", "traffic"];
    let mut table = Table::new(heads);
    for group in groups {
        let kind = plan.kinds.iter().find(|it| it.name == group.kind);
        let limits = kind.map(|it| it.limits.as_slice()).unwrap_or_default();
        for (it, Capacity { carried, .. }) in group.limits.iter().zip(limits) {
            table = table.row([
                hosts(&group.hosts),
                machines(&group.machines),
                it.limit.clone(),
                carried.amount(it.capacity as f64),
                carried.amount(it.mean),
                it.time.to_string(),
                it.traffic.to_string(),
            ]);
        }
    }
    with_most(page, overloads).table(table)
}

/// A placement.
pub fn of_placed(plan: &Plan, placed: &Placed) -> Page {
    let page = Page::new("Machines on hosts").lead(
        "What the placement costs beside what no placement within the goal can cost less than, and \
         what its hosts risk.",
    );
    let (label, unit) = match plan.least {
        Least::Hosts => ("hosts", Unit::NONE),
        Least::Price => ("price", Unit::NONE),
    };
    let bound = Bars::new(format!("What it costs: {label}"), Axis::linear(label, unit))
        .bar("placed", placed.cost as f64)
        .bar("at least", placed.least_cost as f64);
    let overloads = overloads(plan, placed.groups.iter().map(|it| (&it.hosts[..], it.overload)));
    let mut table = Table::new(["hosts", "type", "machines", "overload"]);
    for it in &placed.groups {
        table = table.row([
            hosts(&it.hosts),
            it.kind.clone(),
            machines(&it.machines),
            it.overload.to_string(),
        ]);
    }
    let page = with_most(page.chart(bound), overloads).table(table);
    if placed.unplaced.is_empty() {
        return page;
    }
    page.text(format!("No host takes {}.", machines(&placed.unplaced)))
}

/// What there is to buy.
pub fn of_offers(offers: &[Offer]) -> Page {
    let page = Page::new("Hosts to buy").lead(
        "What all machines cost on hosts of each type, by how many cores the switch has. An offer is \
         efficient if no other is as good in price, watts and free cores, and better in one.",
    );
    let price = || Axis::linear("price", Unit::NONE);
    let efficient = offers.iter().filter(|it| it.is_efficient);
    let name = |it: &Offer| {
        if it.is_efficient { it.kind.clone() } else { format!("{}, not efficient", it.kind) }
    };
    let against = |title: &str, x: Axis, of: &dyn Fn(&Offer) -> f64| {
        let point = |it: &Offer| [(of(it), it.price as f64)];
        let chart = Lines::new(title, x, price());
        offers.iter().fold(chart, |chart, it| chart.points(name(it), point(it)))
    };
    let cores = Axis::linear("cores free", Unit::SHARE);
    let cores = against("Price against free cores", cores, &|it| it.cores_free);
    let draws = Axis::linear("draws", Unit::symbol("W"));
    let power = against("Price against watts", draws, &|it| it.watts.unwrap_or(0) as f64);
    let kinds: Vec<&str> = offers.iter().map(|it| it.kind.as_str()).collect();
    let prices = Bars::new("Price, with the network and with it ignored", price())
        .groups("offer", kinds.clone())
        .series("within the goal", offers.iter().map(|it| it.price as f64))
        .series("network ignored", offers.iter().map(|it| it.blind_price as f64))
        .horizontal();
    let axis = Axis::log10("share of time in which the worst host has too much", Unit::SHARE);
    let blind = Bars::new("Overload if the network is ignored", axis)
        .groups("offer", kinds)
        .series("network ignored", offers.iter().map(|it| it.blind_overload.high))
        .horizontal();
    let mut table = Table::new([
        "type",
        "hosts",
        "price",
        "price a machine",
        "watts",
        "cores free",
        "runs out of",
        "unplaced",
    ]);
    for it in offers {
        table = table.row([
            it.kind.clone(),
            it.hosts.to_string(),
            figures::count(it.price),
            figures::si(it.price_per_machine, Unit::NONE),
            watts(it),
            figures::percent(it.cores_free),
            it.binds.clone(),
            it.unplaced.to_string(),
        ]);
    }
    let named: Vec<&str> = efficient.map(|it| it.kind.as_str()).collect();
    let page = page.text(format!("Efficient: {}.", named.join(", ")));
    let page = match unknown_watts(offers) {
        Some(unknown) => page.note(format!("{unknown}.")),
        None => page.chart(power),
    };
    page.chart(cores).chart(prices).chart(blind).table(table)
}

/// Models of traces.
pub fn of_fits(fits: &ToldFits) -> Page {
    let mut page = Page::new("Models of traces").lead(
        "The states that one plans with: for how much of the time a machine asks for at least so \
         much, by the model and in its trace, and the reasons not to trust them.",
    );
    page = fits.remarks().into_iter().fold(page, |page, it| page.note(format!("{it}.")));
    for it in &fits.traces {
        let mut above = 0.0;
        // From the highest rate downwards, the share of time adds up.
        let mut states: Vec<_> = it.states.iter().map(|it| (it.rate as f64, it.share)).collect();
        states.sort_by(|one, other| other.0.total_cmp(&one.0));
        let points = states.into_iter().map(|(rate, share)| {
            above += share;
            (rate, above)
        });
        let chart = Lines::new(
            format!("Time in which {} asks for at least so much", it.title()),
            Axis::linear("rate", Unit::BITS_PER_SEC),
            Axis::linear("share of time", Unit::SHARE).reach(1.0),
        );
        let traced = it.traced.iter().map(|it| (it.rate as f64, it.share));
        let chart = chart
            .series("model", points)
            .series("trace", traced)
            .mark("model", it.mean, "mean of the trace")
            .mark("model", it.mean_high, "mean that one plans with");
        let samples = format!(
            "{} samples, each of {}, worth {:.0} independent ones.",
            it.samples,
            si(it.step_secs, Unit::SECONDS),
            it.effective_samples
        );
        page = page.section(it.title(), samples).chart(chart);
        page = it.doubts.iter().fold(page, |page, doubt| page.note(format!("{doubt}.")));
    }
    page
}

/// A share of hosts in two ways.
#[derive(Clone, Debug)]
pub struct Twice {
    /// The hosts.
    pub names: String,
    /// As it is computed.
    pub computed: f64,
    /// In another way, and the two between which that may lie.
    pub other: (f64, [f64; 2]),
}

impl Twice {
    fn larger(&self) -> f64 {
        self.computed.max(self.other.0)
    }
}

/// The page with a chart of shares that were computed and found in another way, which is `what`:
/// of the hosts of which either is largest.
pub fn with_compared(page: Page, title: &str, what: &str, mut rows: Vec<Twice>) -> Page {
    rows.sort_by(|one, other| other.larger().total_cmp(&one.larger()));
    let left_out = rows.len().saturating_sub(MOST);
    rows.truncate(MOST);
    let chart = Bars::new(title, Axis::linear("share", Unit::SHARE))
        .groups("hosts", rows.iter().map(|it| it.names.as_str()))
        .series("computed", rows.iter().map(|it| it.computed))
        .ranged(what, rows.iter().map(|it| it.other))
        .horizontal();
    with_most(page, (chart.into(), left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_riskiest_hosts_are_compared_and_the_rest_are_counted() {
        let row = |number: usize| Twice {
            names: format!("h-{number}"),
            computed: if number == MOST { 0.5 } else { 0.25 },
            other: if number == MOST + 1 { (0.75, [0.7, 0.8]) } else { (0.125, [0.1, 0.2]) },
        };
        let told = |count| {
            let rows = (0..count).map(row).collect();
            with_compared(Page::new("All"), "Overload", "drawn", rows).render()
        };
        let page = told(MOST + 2);
        // Each is told in the chart's table; the last ones have most.
        for (number, is_told) in [(0, true), (MOST - 3, true), (MOST - 2, false), (MOST - 1, false)]
            .into_iter()
            .chain([(MOST, true), (MOST + 1, true)])
        {
            assert_eq!(page.contains(&format!("h-{number}<")), is_told, "h-{number}");
        }
        assert!(page.contains("2 more groups of hosts have less"));
        assert!(!told(MOST).contains("more groups"));
    }
}
