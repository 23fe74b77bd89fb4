//! A sweep's page, after figure 12 of the paper: bars for each value of the first axis, grouped by
//! the second, a chart for each combination of the rest.

use figures::{Unit, count, si};
use measure::page::{Axis, Bars, Cdf, Page, Table};
use sim::store::Sweep;

use super::figures::{Figures, Line};
use super::heat;
use crate::ending::command_line;

/// Means that differ by more are told apart only by their logarithms.
const WIDE: f64 = 30.0;

/// More steps do not show in a curve.
const MOST_STEPS: usize = 100_000;

/// The page of a sweep.
pub fn page(sweep: &Sweep, figures: &Figures) -> String {
    let all = sweep.cells;
    let mut facts = vec![
        ("scenario", sweep.scenario.clone()),
        ("digest", sweep.digest.clone()),
        ("version", format!("zovn {}", sweep.zovn)),
        ("cells", format!("{} of {all}", figures.cells.len())),
    ];
    facts.extend(sweep.axes.iter().map(|(name, labels)| (name.as_str(), labels.join(", "))));
    if sweep.repeat > 1 {
        facts.push(("repetitions", sweep.repeat.to_string()));
    }
    let mut page =
        Page::new(&sweep.scenario).lead(&sweep.description).facts(facts).command(command_line());
    if !figures.missing.is_empty() {
        page =
            page.section("Missing", "These cells are not in the folder, and not in what follows.");
        page = figures.missing.iter().fold(page, |page, name| page.note(name));
    }
    let complaints: Vec<&String> = figures.lines.iter().flat_map(|line| &line.complaints).collect();
    if !complaints.is_empty() {
        page = page.section("Complaints", "What speaks against these runs.");
        page = complaints.into_iter().fold(page, |page, complaint| page.note(complaint));
    }
    let of = figures.plural();
    page = page.section(
        "Completion times",
        format!("Means of {of}, with whiskers from the 5th to the 95th percentile. All repetitions count together."),
    );
    let panels = panels(sweep);
    for panel in &panels {
        page = page.chart(bars(sweep, figures, panel));
    }
    page = page.table(times(sweep, figures));
    if !sweep.axes.is_empty() {
        let (name, labels) = &sweep.axes[0];
        page = page.note(format!(
            "The gain is how many times the mean is contained in that of {name}={}.",
            labels[0]
        ));
    }
    page = page.note(
        "Only what is complete has a time: where a run has ended by its time, the slowest of the last are not among these.",
    );
    page = page.section("Distributions", format!("Which share of {of} took at most so long."));
    for panel in &panels {
        page = page.chart(curves(sweep, figures, panel));
    }
    page = heat::maps(page, &figures.heat);
    page.section(
        "Cell by cell",
        "What was lost, sent again and paused in each run, over its whole time.",
    )
    .table(cells(figures))
    .render()
}

/// The lines of one chart, and what they have in common.
struct Panel {
    name: String,
    /// By the first axis' value, then by the second's: the line's place. One of each where there is
    /// no axis.
    lines: Vec<Vec<usize>>,
}

/// The charts: a panel for each combination of values of the third axis and those behind it.
fn panels(sweep: &Sweep) -> Vec<Panel> {
    let sizes: Vec<usize> = sweep.axes.iter().map(|(_, labels)| labels.len()).collect();
    let size = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
    let rest: usize = sizes.iter().skip(2).product();
    let lines = |panel: usize, first: usize| {
        (0..size(1)).map(|second| (first * size(1) + second) * rest + panel).collect::<Vec<_>>()
    };
    let panel = |panel: usize| {
        let labels = sweep.labels(panel as u64 * u64::from(sweep.repeat));
        let words = sweep
            .axes
            .iter()
            .zip(labels)
            .skip(2)
            .map(|((name, _), label)| format!("{name}={label}"));
        Panel {
            name: words.collect::<Vec<_>>().join(", "),
            lines: (0..size(0)).map(|first| lines(panel, first)).collect(),
        }
    };
    (0..rest).map(panel).collect()
}

fn bars(sweep: &Sweep, figures: &Figures, panel: &Panel) -> Bars {
    let lines = || panel.lines.iter().flatten().map(|line| &figures.lines[*line]);
    let means = || lines().filter_map(|line| line.completion.fct_us).map(|times| times.mean);
    let (least, most) = (means().fold(f64::MAX, f64::min), means().fold(0.0, f64::max));
    let axis = if most > WIDE * least { Axis::log10 } else { Axis::linear };
    let title = titled("Mean completion time", panel);
    let mut bars = Bars::new(title, axis("mean completion time", Unit::SECONDS));
    if let Some((name, labels)) = sweep.axes.get(1) {
        bars = bars.groups(name, labels);
    }
    for (place, mine) in panel.lines.iter().enumerate() {
        bars =
            bars.ranged(series(sweep, place), mine.iter().map(|line| range(&figures.lines[*line])));
    }
    bars
}

/// A line's mean, and its 5th and 95th percentiles, in seconds.
fn range(line: &Line) -> (f64, [f64; 2]) {
    let second = |us: Option<f64>| us.map_or(f64::NAN, |us| us / 1e6);
    let times = line.completion.fct_us;
    (
        second(times.map(|it| it.mean)),
        [second(line.completion.fct_p5_us), second(times.map(|it| it.p95))],
    )
}

fn curves(sweep: &Sweep, figures: &Figures, panel: &Panel) -> Cdf {
    let mut cdf =
        Cdf::new(titled("Completion times", panel), Axis::log10("completion time", Unit::SECONDS));
    for (place, mine) in panel.lines.iter().enumerate() {
        for (second, line) in mine.iter().enumerate() {
            let group = sweep.axes.get(1).map(|(_, labels)| format!(" · {}", labels[second]));
            let name = series(sweep, place) + &group.unwrap_or_default();
            cdf = cdf.steps(name, steps(&figures.times[*line]));
        }
    }
    cdf
}

/// The distribution of rising times: all of the last ones, which are the tail, and of the others as
/// many as can be seen.
fn steps(times: &[u64]) -> impl Iterator<Item = (f64, f64)> {
    let (all, stride) = (times.len(), times.len() / MOST_STEPS + 1);
    let kept = move |place: &usize| place.is_multiple_of(stride) || all - place <= MOST_STEPS;
    (0..all)
        .filter(kept)
        .map(move |place| (times[place] as f64 / 1e9, (place + 1) as f64 / all as f64))
}

/// What the bars of the first axis' n-th value are called.
fn series(sweep: &Sweep, place: usize) -> String {
    sweep.axes.first().map_or_else(|| sweep.scenario.clone(), |(_, labels)| labels[place].clone())
}

fn titled(what: &str, panel: &Panel) -> String {
    if panel.name.is_empty() { what.to_owned() } else { format!("{what}, {}", panel.name) }
}

fn times(sweep: &Sweep, figures: &Figures) -> Table {
    let axes = sweep.axes.iter().map(|(name, _)| name.as_str());
    let heads =
        [figures.plural(), "mean", "±", "p5", "p50", "p95", "p99", "max", "gain", "unfinished"];
    figures.lines.iter().fold(Table::new(axes.chain(heads)), |table, line| {
        let told = |us: Option<f64>| si(us.map_or(f64::NAN, |us| us / 1e6), Unit::SECONDS);
        let of = line.completion.fct_us;
        let labels = sweep.axes.iter().map(|(name, _)| line.values[name].clone());
        table.row(labels.chain([
            count(line.samples),
            told(of.map(|it| it.mean)),
            told(line.completion.fct_mean_error_us),
            told(line.completion.fct_p5_us),
            told(of.map(|it| it.p50)),
            told(of.map(|it| it.p95)),
            told(of.map(|it| it.p99)),
            told(of.map(|it| it.max)),
            si(line.gain.unwrap_or(f64::NAN), Unit::TIMES),
            count(line.unfinished),
        ]))
    })
}

fn cells(figures: &Figures) -> Table {
    let heads = [
        "cell",
        "name",
        "queries",
        "flows",
        "unfinished",
        "segments",
        "sent again",
        "timeouts",
        "lost, virtual",
        "lost, physical",
        "paused",
    ];
    figures.cells.iter().fold(Table::new(heads), |table, it| {
        let sum = |of: fn(&sim::ClassResult) -> u64| count(it.classes.values().map(of).sum());
        table.row([
            it.cell.to_string(),
            it.name.clone(),
            count(it.queries),
            count(it.flows),
            count(it.unfinished),
            count(it.segments),
            count(it.retransmits),
            count(it.timeouts),
            sum(|class| class.lost_virtual),
            sum(|class| class.lost_physical),
            si(it.classes.values().map(|class| class.paused_s).sum(), Unit::SECONDS),
        ])
    })
}
