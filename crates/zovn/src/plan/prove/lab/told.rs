//! What a lab said of a plan's host, or of mixes: tables and pages.

use figures::{Unit, percent, si};
use measure::page::{Axis, Bars, Lines, Page, Table};
use planner::Share;

use super::{HostSeen, MixSeen, MixesSeen, RESOLUTION};
use crate::plan::page::compared;
use crate::plan::words::{hosts, machines};
use crate::table::{headed, text};

/// A host for a terminal.
pub fn host_table(it: &HostSeen) -> String {
    let mut table = headed([
        "hosts",
        "machines",
        "computed",
        "asked",
        "held back",
        "predicted",
        "seen",
        "carried",
        "of expected",
        "agree",
    ]);
    table.add_row([
        hosts(&it.hosts),
        machines(&it.machines),
        it.computed.to_string(),
        between(it.asked),
        percent(it.observed.held),
        it.predicted.name().to_owned(),
        it.seen.name().to_owned(),
        si(it.observed.carried_fps, Unit::FRAMES_PER_SEC),
        percent(it.ratio()),
        if it.agrees { "yes" } else { "no" }.to_owned(),
    ]);
    format!(
        "{}\n\n{} s, with holding times {:.3} times shorter than the plan's; asked is the share of it in which \
         machines wanted more than 110 % and than 90 % of the switch's time{}",
        text(table),
        it.secs,
        it.faster,
        short(it.observed.late)
    )
}

/// What is told of a mix.
const HEADS: [&str; 10] = [
    "mix",
    "asks for",
    "way",
    "bytes",
    "asked",
    "carried",
    "of curve",
    "lost",
    "predicted",
    "seen",
];

/// Mixes for a terminal.
pub fn mixes_table(all: &MixesSeen) -> String {
    let mut table = headed(HEADS);
    for (number, it) in (1..).zip(&all.mixes) {
        table.add_row(cells(number, it));
    }
    format!("{}\n\n{}", text(table), verdict(all))
}

fn cells(number: usize, it: &MixSeen) -> [String; 10] {
    let sizes = it.mix.demands.iter().map(|it| it.frame);
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    [
        number.to_string(),
        percent(it.mix.load),
        if it.mix.is_far { "link" } else { "host" }.to_owned(),
        if least == most { least.to_string() } else { format!("{least} to {most}") },
        si(it.mix.frames_per_sec(), Unit::FRAMES_PER_SEC),
        si(it.observed.carried_fps, Unit::FRAMES_PER_SEC),
        percent(it.ratio()),
        it.observed.lost.to_string(),
        it.predicted.name().to_owned(),
        it.seen.name().to_owned(),
    ]
}

fn verdict(all: &MixesSeen) -> String {
    let MixesSeen { judged, right, near_curve, lost, mixes, .. } = all;
    let mut told = format!(
        "{right} of {judged} are predicted right, and {near_curve} carried as much as the profile's curve says, \
         within a tenth"
    );
    if *lost > 0 {
        told += &format!("\n{} frames were lost, where none is to be", figures::count(*lost));
    }
    let open = mixes.len() - judged;
    if open > 0 {
        told += &format!(
            "\n{open} of {} are open: machines fell short of them by themselves",
            mixes.len()
        );
    }
    told
}

fn between(Share { low, high }: Share) -> String {
    format!("{} – {}", percent(low), percent(high))
}

fn short(late: f64) -> String {
    if late < RESOLUTION {
        return String::new();
    }
    format!(
        "\nmachines fell short of {} of it by themselves, as they did not run when they should: ask for less, or on \
         a machine with more cores",
        percent(late)
    )
}

/// A host as a page.
pub fn host_page(it: &HostSeen) -> Page {
    let names = [hosts(&it.hosts)];
    let held = vec![(it.observed.held, [it.observed.held; 2])];
    let asked = (it.asked.low + it.asked.high) / 2.0;
    let carried = Bars::new("Frames a second", Axis::linear("carried", Unit::FRAMES_PER_SEC))
        .bar("expected", it.expected_fps)
        .bar("carried", it.observed.carried_fps)
        .bar("asked", it.observed.asked_fps);
    Page::new(format!("{} in a lab", names[0]))
        .lead(
            "Machines sent what was drawn of their models, at a real switch on this machine: how much of the \
             time they asked for more than it carries, and how much of it they were held back.",
        )
        .facts([
            ("machines", machines(&it.machines)),
            ("computed of the models", it.computed.to_string()),
            ("asked for in this run", between(it.asked)),
            ("predicted of it", it.predicted.name().to_owned()),
            ("seen", it.seen.name().to_owned()),
        ])
        .chart(compared("Share of time with too much", &names, &[asked], ("held back", held)))
        .chart(carried)
}

/// Mixes as a page.
pub fn mixes_page(all: &MixesSeen) -> Page {
    let part = |it: &MixSeen, fps: f64| (it.mix.load, it.mix.load * fps / it.mix.frames_per_sec());
    let axis = |label: &str| Axis::linear(label, Unit::SHARE);
    let way = |is_far: bool| if is_far { "by the link" } else { "within the host" };
    let mut page = Page::new("A profile against demands").lead(
        "Constant demands of what a profile says that the switch carries: what was carried of them, and what \
         the profile's curve says.",
    );
    page = page.text(format!("{}.", verdict(all).replace('\n', ". ")));
    for is_far in [false, true] {
        let there = || all.mixes.iter().filter(move |it| it.mix.is_far == is_far);
        if there().next().is_none() {
            continue;
        }
        let chart = Lines::new(
            format!("Carried of what is asked for, {}", way(is_far)),
            axis("asked for, of the switch's time"),
            axis("carried"),
        );
        let chart = chart
            .series("expected", there().map(|it| part(it, it.expected_fps)))
            .series("carried", there().map(|it| part(it, it.observed.carried_fps)));
        page = page.chart(chart);
    }
    let table = (1..)
        .zip(&all.mixes)
        .fold(Table::new(HEADS), |table, (number, it)| table.row(cells(number, it)));
    page.table(table)
}
