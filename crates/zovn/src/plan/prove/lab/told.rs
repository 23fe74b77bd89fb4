//! What a lab said of a plan's host, or of mixes: tables and pages.

use figures::{Unit, count, percent, si};
use measure::page::{Axis, Bars, Lines, Page, Table};
use measure::profile::trial::Observed;
use planner::Share;

use super::{HostSeen, MixSeen, MixesSeen, RESOLUTION};
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
         machines wanted more than 110 % and than 90 % of the switch's time{}{}",
        text(table),
        it.secs,
        it.faster,
        unsent(&it.observed),
        broken(it.observed.lost, it.observed.duplicates, it.observed.balanced == Some(false))
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
    let MixesSeen { judged, right, near_curve, lost, duplicates, unbalanced, mixes, .. } = all;
    let mut told = format!(
        "{right} of {judged} are predicted right, and {near_curve} carried as much as the profile's curve says, \
         within a tenth: 95 % are to do so of each"
    );
    told += &broken(*lost, *duplicates, *unbalanced > 0);
    let open = mixes.len() - judged;
    if open > 0 {
        told += &format!(
            "\n{open} of {} are open: machines fell short of them by themselves",
            mixes.len()
        );
    }
    if !all.is_enough {
        told += "\nthat proves nothing: less than half of those that fit, or of those that do not, were judged";
    }
    told
}

fn between(Share { low, high }: Share) -> String {
    format!("{} – {}", percent(low), percent(high))
}

/// What a switch that promises to lose nothing did not keep, a line for each.
fn broken(lost: u64, duplicates: u64, is_unbalanced: bool) -> String {
    let mut told = String::new();
    if lost > 0 {
        told += &format!("\n{} frames were lost, where none is to be", count(lost));
    }
    if duplicates > 0 {
        told += &format!("\n{} frames came again, where none is to", count(duplicates));
    }
    if is_unbalanced {
        told += "\nswitches' own accounts of frames did not hold";
    }
    told
}

/// What of a demand nobody sent, though nobody held it back, a line for each reason.
fn unsent(observed: &Observed) -> String {
    let mut told = String::new();
    if observed.late >= RESOLUTION {
        told += &format!(
            "\nmachines fell short of {} of it by themselves, as they did not run when they should: ask for less, or \
             on a machine with more cores",
            percent(observed.late)
        );
    }
    if observed.failed > 0.0 {
        told += &format!(
            "\nmachines' sockets did not take {} of it, by an error or within ten seconds",
            percent(observed.failed)
        );
    }
    told
}

/// A host as a page.
pub fn host_page(it: &HostSeen) -> Page {
    let names = [hosts(&it.hosts)];
    let Share { low, high } = it.asked;
    let times = Bars::new("Share of time with too much", Axis::linear("share", Unit::SHARE))
        .groups("hosts", &names)
        .ranged("asked for", [((low + high) / 2.0, [low, high])])
        .series("held back", [it.observed.held])
        .horizontal();
    let carried = Bars::new("Frames a second", Axis::linear("carried", Unit::FRAMES_PER_SEC))
        .bar("expected", it.expected_fps)
        .bar("carried", it.observed.carried_fps)
        .bar("asked", it.observed.asked_fps);
    Page::new(format!("{} in a lab", names[0]))
        .lead(
            "Machines sent what was drawn of their models, at a real switch on this machine: how much of the \
             time they asked for more than it carries, and how much of it they were held back. The whisker \
             has the time above 110 % of what it carries at one end, and the time above 90 % at the other.",
        )
        .facts([
            ("machines", machines(&it.machines)),
            ("computed of the models", it.computed.to_string()),
            ("asked for in this run", between(it.asked)),
            ("predicted of it", it.predicted.name().to_owned()),
            ("seen", it.seen.name().to_owned()),
        ])
        .chart(times)
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
            .points("expected", there().map(|it| part(it, it.expected_fps)))
            .points("carried", there().map(|it| part(it, it.observed.carried_fps)));
        page = page.chart(chart);
    }
    let table = (1..)
        .zip(&all.mixes)
        .fold(Table::new(HEADS), |table, (number, it)| table.row(cells(number, it)));
    page.table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_spoils_a_proof_is_told() {
        assert_eq!((broken(0, 0, false), unsent(&Observed::default())), Default::default());
        let told = broken(1, 2, true);
        for part in ["1 frames were lost", "2 frames came again", "accounts of frames did not"] {
            assert!(told.contains(part), "{told}");
        }
        let late = Observed { late: 0.5, ..Observed::default() };
        assert!(unsent(&late).contains("fell short of 50"), "{}", unsent(&late));
        let failed = Observed { failed: 0.5, ..Observed::default() };
        assert!(unsent(&failed).contains("did not take 50"), "{}", unsent(&failed));
        let few = MixesSeen {
            judged: 0,
            right: 0,
            near_curve: 0,
            lost: 0,
            duplicates: 0,
            unbalanced: 0,
            is_enough: false,
            is_met: false,
            mixes: Vec::new(),
        };
        assert!(verdict(&few).contains("proves nothing"), "{}", verdict(&few));
        let enough = MixesSeen { is_enough: true, ..few };
        assert!(!verdict(&enough).contains("proves nothing"), "{}", verdict(&enough));
        assert!(verdict(&enough).contains("95 % are to do so of each"), "{}", verdict(&enough));
    }
}
