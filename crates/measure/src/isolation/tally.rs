//! What one run's frames tell: what was lost and late, burst by burst. Pure.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use units::Span;

use crate::endpoint::{TimedReceived, TimedSent, Timetable};
use crate::stats::median;

/// The length of a part by which breaches are counted, in nanoseconds.
const PART: u64 = 10_000_000;

/// The length of a [`Moment`], in parts.
const MOMENT: usize = 10;

/// The share of β₁ below which isolation is breached.
const ENOUGH: f64 = 0.98;

/// How many frames' time on the wire a frame may be later than usual.
const FRAMES_LATE: u64 = 5;

/// How long after the first frame delays count: tables and caches are filled by then.
const WARM: u64 = 100_000_000;

/// How long a guarantee may take to hold, in nanoseconds.
pub const WINDOW: u64 = 50_000_000;

/// One burst of the second network, and what became of both networks meanwhile.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spell {
    /// Frames that each network sent during the burst.
    pub sent: [u64; 2],
    /// How many of them were lost.
    pub lost: [u64; 2],
    /// Frames of each network that came during the burst, whenever they were sent.
    pub came: [u64; 2],
    /// How long frames of the first network were lost, until the next burst, in milliseconds.
    pub loss_ms: u64,
    /// How long too few of them came, in milliseconds.
    pub rate_ms: u64,
    /// How long some were too late, in milliseconds.
    pub delay_ms: u64,
}

/// A tenth of a second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// When it begins, in seconds after the first frame.
    pub at_s: f64,
    /// Frames of the first network that were due then and came, a second.
    pub first_fps: f64,
    /// Frames of the second.
    pub second_fps: f64,
    /// The share of the first network's frames that were lost.
    pub p1: f64,
    /// The longest that one of its frames took, in microseconds.
    pub delay_us: f64,
}

/// What a run gave.
pub struct Run {
    pub spells: Vec<Spell>,
    /// What the first network's frames took before the first burst and behind the last.
    pub alone_ns: Vec<u64>,
    /// What they took in bursts.
    pub in_bursts_ns: Vec<u64>,
    /// Frames that the first network sent, and how many of them were lost.
    pub sent: u64,
    pub lost: u64,
    /// Parts that do not count, as a sender did not run when it should have.
    pub marked: u64,
    pub course: Vec<Moment>,
}

/// What became of a network's frames that were due in 10 ms.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    due: u64,
    sent: u64,
    came: u64,
    longest_ns: u64,
    marked: bool,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    /// It came, after so many nanoseconds.
    Came(u32),
    Lost,
    /// Its sender waited for room.
    Held,
    /// Its sender did not run.
    Late,
}

/// Reads one run of two networks: their timetables, what they sent, and what came. `wire` is one
/// frame's time on the wire.
pub fn tally(
    timetables: &[Timetable; 2],
    sent: &[TimedSent],
    received: &TimedReceived,
    wire: Span,
) -> Run {
    let origin = sent.first().map_or(0, |first| first.begin_ns);
    let networks: Vec<Network> = timetables
        .iter()
        .zip(sent)
        .zip(&received.delays_ns)
        .map(|((timetable, sent), delays)| {
            let fates = fates(timetable.frames(), sent, delays);
            Network { timetable, begin: sent.begin_ns.saturating_sub(origin), fates }
        })
        .collect();
    let [first, second] = &networks[..] else { unreachable!("there are two networks") };
    let parts = [first.parts(), second.parts()];
    let bursts: Vec<Range<u64>> = second.bursts().collect();
    let before = bursts.first().map_or(WARM, |burst| burst.start);
    let last = bursts.last().map_or(before, |burst| burst.end);
    let end = first.begin + first.timetable.burst.as_nanos();
    let after = last + end.saturating_sub(last) / 2;
    let usual = median(first.delays(WARM..before, &parts[0]).map(|ns| ns as f64)).unwrap_or(0.0);
    let late = usual as u64 + FRAMES_LATE * wire.as_nanos();

    let spells = bursts.iter().enumerate().map(|(number, burst)| {
        let until = bursts.get(number + 1).map_or(end, |next| next.start);
        let came = |network: &Network| network.came_in(burst.clone());
        let mut spell = Spell { came: [came(first), came(second)], ..Spell::default() };
        for (network, parts) in parts.iter().enumerate() {
            for part in within(parts, burst) {
                spell.sent[network] += part.sent;
                spell.lost[network] += part.sent - part.came;
            }
        }
        for part in within(&parts[0], &(burst.start..until)).filter(|part| !part.marked) {
            let breached = |is: bool| u64::from(is) * PART / 1_000_000;
            spell.loss_ms += breached(part.came < part.sent);
            spell.rate_ms += breached((part.came as f64) < ENOUGH * part.due as f64);
            spell.delay_ms += breached(part.longest_ns > late);
        }
        spell
    });
    let alone = [WARM..before, after..end];
    Run {
        spells: spells.collect(),
        alone_ns: alone.into_iter().flat_map(|time| first.delays(time, &parts[0])).collect(),
        in_bursts_ns: bursts
            .iter()
            .flat_map(|burst| first.delays(burst.clone(), &parts[0]))
            .collect(),
        sent: parts[0].iter().map(|part| part.sent).sum(),
        lost: parts[0].iter().map(|part| part.sent - part.came).sum(),
        marked: parts.iter().flatten().filter(|part| part.marked).count() as u64,
        course: course(&parts),
    }
}

/// What became of a network's frames while others did their worst.
pub struct Siege {
    /// What its frames took before the others began and behind them.
    pub alone_ns: Vec<u64>,
    /// What they took beside the others.
    pub beside_ns: Vec<u64>,
    /// Frames that it sent in all, and how many of them were lost.
    pub sent: u64,
    pub lost: u64,
    /// Frames that were due beside the others, and how many of them came within a [`WINDOW`].
    pub due: u64,
    pub in_time: u64,
    /// The share of them in each window; none where the sender did not run.
    pub windows: Vec<Option<f64>>,
    /// Parts that do not count, as the sender did not run when it should have.
    pub marked: u64,
}

/// Reads one run of a network beside which others sent in `time`, in nanoseconds after it began.
pub fn besieged(
    timetable: &Timetable,
    sent: &TimedSent,
    received: &TimedReceived,
    time: Range<u64>,
) -> Siege {
    let delays = received.delays_ns.first().map_or(&[][..], |delays| delays);
    let fates = fates(timetable.frames(), sent, delays);
    let network = Network { timetable, begin: 0, fates };
    let parts = network.parts();
    let mut siege = Siege {
        alone_ns: Vec::new(),
        beside_ns: network.delays(time.clone(), &parts).collect(),
        sent: parts.iter().map(|part| part.sent).sum(),
        lost: parts.iter().map(|part| part.sent - part.came).sum(),
        due: 0,
        in_time: 0,
        windows: Vec::new(),
        marked: parts.iter().filter(|part| part.marked).count() as u64,
    };
    // What the others left in queues is theirs.
    let behind = time.end + timetable.burst.as_nanos().saturating_sub(time.end) / 2;
    for alone in [WARM..time.start, behind..timetable.burst.as_nanos()] {
        siege.alone_ns.extend(network.delays(alone, &parts));
    }
    let windows = (time.end.saturating_sub(time.start)) / WINDOW;
    for window in 0..windows {
        let from = time.start + window * WINDOW;
        let (due, in_time) = network.in_time(from..from + WINDOW, &parts);
        (siege.due, siege.in_time) = (siege.due + due, siege.in_time + in_time);
        siege.windows.push((due > 0).then(|| in_time as f64 / due as f64));
    }
    siege
}

/// One network's frames.
struct Network<'a> {
    timetable: &'a Timetable,
    /// When it began, in nanoseconds after the first network.
    begin: u64,
    fates: Vec<Fate>,
}

impl Network<'_> {
    /// When frame `number` was due.
    fn due(&self, number: usize) -> u64 {
        self.begin + self.timetable.due(number as u64).as_nanos()
    }

    /// How many frames came in `time`.
    fn came_in(&self, time: Range<u64>) -> u64 {
        let came = |(number, fate): (usize, &Fate)| match fate {
            Fate::Came(ns) => time.contains(&(self.due(number) + u64::from(*ns))),
            _ => false,
        };
        self.fates.iter().enumerate().filter(|frame| came(*frame)).count() as u64
    }

    /// From when to when each burst lasted.
    fn bursts(&self) -> impl Iterator<Item = Range<u64>> {
        let begin = |number: u32| self.begin + self.timetable.begin(number.into()).as_nanos();
        let lasts = self.timetable.burst.as_nanos();
        (0..self.timetable.bursts).map(move |number| begin(number)..begin(number) + lasts)
    }

    /// How many frames were due in `time`, and how many of them came within a [`WINDOW`], where the
    /// sender ran as it should.
    fn in_time(&self, time: Range<u64>, parts: &[Part]) -> (u64, u64) {
        let (mut all, mut in_time) = (0, 0);
        for (number, fate) in self.fates.iter().enumerate() {
            let due = self.due(number);
            let marked = parts.get((due / PART) as usize).is_some_and(|part| part.marked);
            if time.contains(&due) && !marked {
                all += 1;
                in_time += u64::from(matches!(fate, Fate::Came(ns) if u64::from(*ns) <= WINDOW));
            }
        }
        (all, in_time)
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for (number, fate) in self.fates.iter().enumerate() {
            let place = (self.due(number) / PART) as usize;
            if parts.len() <= place {
                parts.resize(place + 1, Part::default());
            }
            let part = &mut parts[place];
            part.due += 1;
            part.sent += u64::from(matches!(fate, Fate::Came(_) | Fate::Lost));
            part.marked |= *fate == Fate::Late;
            if let Fate::Came(ns) = fate {
                part.came += 1;
                part.longest_ns = part.longest_ns.max(u64::from(*ns));
            }
        }
        parts
    }

    /// What frames took that were due in `time`, where senders ran as they should.
    fn delays(&self, time: Range<u64>, parts: &[Part]) -> impl Iterator<Item = u64> {
        self.fates.iter().enumerate().filter_map(move |(number, fate)| {
            let due = self.due(number);
            let marked = parts.get((due / PART) as usize).is_some_and(|part| part.marked);
            match fate {
                Fate::Came(ns) if time.contains(&due) && !marked => Some(u64::from(*ns)),
                _ => None,
            }
        })
    }
}

fn fates(frames: u64, sent: &TimedSent, delays: &[Option<u32>]) -> Vec<Fate> {
    let came = |number: u64| delays.get(number as usize).copied().flatten();
    let mut fates: Vec<Fate> =
        (0..frames).map(|number| came(number).map_or(Fate::Lost, Fate::Came)).collect();
    for skipped in &sent.skipped {
        let fate = if skipped.waited { Fate::Held } else { Fate::Late };
        let (from, count) = (skipped.first as usize, skipped.count as usize);
        fates.iter_mut().skip(from).take(count).for_each(|one| *one = fate);
    }
    fates
}

/// The parts whose middle lies in `time`.
fn within<'a>(parts: &'a [Part], time: &Range<u64>) -> impl Iterator<Item = &'a Part> {
    let place = |at: u64| (at.saturating_sub(PART / 2).div_ceil(PART) as usize).min(parts.len());
    parts[place(time.start)..place(time.end).max(place(time.start))].iter()
}

fn course(parts: &[Vec<Part>; 2]) -> Vec<Moment> {
    let seconds = MOMENT as f64 * PART as f64 / 1e9;
    let moment = |(number, first): (usize, &[Part])| {
        let sum = |parts: &[Part], of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>() as f64;
        let from = (number * MOMENT).min(parts[1].len());
        let second = &parts[1][from..(from + MOMENT).min(parts[1].len())];
        let sent = sum(first, |part| part.sent);
        Moment {
            at_s: number as f64 * seconds,
            first_fps: sum(first, |part| part.came) / seconds,
            second_fps: sum(second, |part| part.came) / seconds,
            p1: sum(first, |part| part.sent - part.came) / sent.max(1.0),
            delay_us: first.iter().map(|part| part.longest_ns).max().unwrap_or(0) as f64 / 1e3,
        }
    };
    parts[0].chunks(MOMENT).enumerate().map(moment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Skipped;

    fn ms(count: u64) -> Span {
        Span::from_millis(count)
    }

    /// 10 frames in 10 ms, for 800 ms; bursts of 100 ms at 300 and 600 ms.
    fn run(change: impl FnOnce(&mut [TimedSent; 2], &mut TimedReceived)) -> Run {
        let always = Timetable { rate: 1000.0, lead: ms(0), bursts: 1, burst: ms(800), gap: ms(0) };
        let bursts =
            Timetable { rate: 1000.0, lead: ms(300), bursts: 2, burst: ms(100), gap: ms(200) };
        let tables = [always, bursts];
        let mut sent = tables.map(|table| TimedSent {
            begin_ns: 5_000_000_000,
            sent: table.frames(),
            ..TimedSent::default()
        });
        let delays_ns = tables.map(|table| vec![Some(50_000); table.frames() as usize]).into();
        let mut received = TimedReceived { delays_ns, ..Default::default() };
        change(&mut sent, &mut received);
        tally(&tables, &sent, &received, Span::from_micros(10))
    }

    #[test]
    fn where_nothing_is_lost_nothing_is_breached() {
        let run = run(|_, _| {});
        let calm = Spell { sent: [100, 100], came: [100, 100], ..Spell::default() };
        assert_eq!((run.spells, run.sent, run.lost, run.marked), (vec![calm; 2], 800, 0, 0));
        assert_eq!((run.alone_ns.len(), run.in_bursts_ns.len()), (200 + 50, 200));
        let moment = run.course[3];
        assert_eq!((moment.first_fps, moment.second_fps, moment.p1), (1000.0, 1000.0, 0.0));
        assert_eq!(run.course[0].second_fps, 0.0);
    }

    #[test]
    fn a_breach_is_counted_by_loss_by_rate_and_by_delay() {
        let run = run(|_, received| {
            // One frame of ten is lost in two parts of the first burst, one behind it.
            for lost in [305, 315, 405] {
                received.delays_ns[0][lost] = None;
            }
            // More than five frames' time on the wire late, in the second.
            received.delays_ns[0][650] = Some(100_001);
            received.delays_ns[0][660] = Some(100_000);
            received.delays_ns[1][7] = None;
        });
        let [first, second] = run.spells[..] else { unreachable!() };
        assert_eq!((first.lost, second.lost), ([2, 1], [0, 0]));
        assert_eq!((first.loss_ms, first.rate_ms, first.delay_ms), (30, 30, 0));
        assert_eq!((second.loss_ms, second.rate_ms, second.delay_ms), (0, 0, 10));
        assert_eq!(run.lost, 3);
    }

    #[test]
    fn what_comes_late_has_not_come_in_the_burst() {
        let run = run(|_, received| {
            received.delays_ns[1][98..100].fill(Some(5_000_000));
            received.delays_ns[0][299] = Some(2_000_000);
        });
        assert_eq!((run.spells[0].came, run.spells[0].lost), ([101, 98], [0, 0]));
        assert_eq!(run.spells[1].came, [100, 100]);
    }

    #[test]
    fn a_victims_goodput_is_what_came_in_time() {
        let table = Timetable { rate: 1000.0, lead: ms(0), bursts: 1, burst: ms(800), gap: ms(0) };
        let skipped = vec![Skipped { first: 460, count: 2, waited: false }];
        let sent = TimedSent { sent: 798, skipped, ..TimedSent::default() };
        let mut delays = vec![Some(50_000); 800];
        // Beside the others: one is lost, one comes too late.
        (delays[310], delays[355]) = (None, Some(51_000_000));
        delays[460..462].fill(None);
        let received = TimedReceived { delays_ns: vec![delays], ..Default::default() };
        let siege = besieged(&table, &sent, &received, 300_000_000..500_000_000);
        assert_eq!((siege.sent, siege.lost, siege.marked), (798, 1, 1));
        assert_eq!((siege.due, siege.in_time), (190, 188));
        assert_eq!(siege.windows, [Some(0.98), Some(0.98), Some(1.0), Some(1.0)]);
        assert_eq!((siege.alone_ns.len(), siege.beside_ns.len()), (200 + 150, 189));
    }

    #[test]
    fn a_sender_that_waits_is_a_breach_and_one_that_does_not_run_is_none() {
        let run = run(|sent, received| {
            sent[0].skipped = vec![
                Skipped { first: 310, count: 2, waited: true },
                Skipped { first: 620, count: 2, waited: false },
            ];
            for skipped in [310, 311, 620, 621] {
                received.delays_ns[0][skipped] = None;
            }
        });
        let [first, second] = run.spells[..] else { unreachable!() };
        assert_eq!((first.sent[0], first.lost[0], first.loss_ms, first.rate_ms), (98, 0, 0, 10));
        assert_eq!((second.rate_ms, second.loss_ms, run.marked, run.lost), (0, 0, 1, 0));
    }

    #[test]
    fn a_network_that_began_later_has_its_bursts_later() {
        let run = run(|sent, received| {
            sent[1].begin_ns += 40_000_000;
            received.delays_ns[0][335] = None;
            received.delays_ns[0][435] = None;
        });
        assert_eq!(run.spells[0].lost[0], 1);
        assert_eq!(run.spells[0].loss_ms, 20 - 10);
    }
}
