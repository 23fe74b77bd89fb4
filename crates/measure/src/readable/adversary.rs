//! What adversaries do to a network that keeps to its guarantee, told.

use model::ClassKind;

use crate::isolation::adversary::{Adversary, Changes, Report, Sends, Victim};
use crate::isolation::{BUSY, Meeting, Peer, Spent};
use crate::page::{Axis, Bars, Cell, Chart, Lines, Matrix, Unit, count, percent, si};
use crate::{Environment, SwitchKind};

use super::isolation::name;
use super::{Readable, Rows, many, unbalanced, us};

/// A victim of which less comes in time was not given its minimum, however busy the machine is that
/// plays all of them.
const KEPT: f64 = 0.9;

/// So many times as long as alone is as bad as can be told.
const WORST: f64 = 1000.0;

impl Readable for Report {
    fn title(&self) -> String {
        "Isolation: adversaries beside a victim".into()
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        format!(
            "All networks meet at an uplink of {}, at the link to a host of that rate, or at a switch alone (`port`). The \
             victim has a minimum of a fifth of it where there are terms, and sends {}. {} send for {}, each to its \
             own receiver; `flows`, `incast`, `streams`, `parked`, `broadcast` and `addresses` are one network each. {}.",
            si(config.rate.bits_per_sec() as f64, Unit::BITS_PER_SEC),
            match config.victim {
                Sends::Cbr => "0.95 of that",
                Sends::Request => "500 requests of 1 kB a second, each answered before the next",
                Sends::Tcp => "a TCP stream",
            },
            many(config.tenants.into(), "other network"),
            config.lasts,
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "adversary",
            "at",
            "switch",
            "lost",
            "goodput",
            "least in 50 ms",
            "alone p50",
            "alone p99",
            "alone p99.9",
            "beside p50",
            "beside p99",
            "beside p99.9",
            "others came",
            "thread",
            "others' thread",
        ]);
        for one in &self.results {
            let part = |of: fn(&Spent) -> f64| {
                one.thread.as_ref().map_or("–".into(), |spent| percent(of(spent)))
            };
            rows.row([
                one.adversary.to_string(),
                one.at.to_string(),
                name(one.peer, one.promise),
                count(one.lost),
                percent(one.goodput),
                percent(one.least_goodput),
                us(one.alone.p50),
                us(one.alone.p99),
                us(one.alone.p999),
                us(one.beside.p50),
                us(one.beside.p99),
                us(one.beside.p999),
                si(one.others, Unit::BITS_PER_SEC),
                part(|spent| spent.victim),
                part(|spent| spent.others),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = vec![
            "Goodput is the share of the victim's frames that came within 50 ms of when they were due, beside the others; \
             `least` is that of the worst 50 ms. What came of the others is frames of UDP, and the payload of TCP; of \
             `parked` and `broadcast`, what their interfaces took."
                .into(),
        ];
        remarks[0].push_str(match self.config.victim {
            Sends::Cbr => "",
            Sends::Request => {
                " A request that was due before the last answer came is left out, and came to nothing; times are from a \
                 request to its answer."
            }
            Sends::Tcp => " Goodput is what the stream had of its guarantee.",
        });
        for one in &self.results {
            if self.config.victim == Sends::Tcp {
                let regained = one.regained_ms.map_or("never".into(), |ms| us(ms * 1e3));
                remarks.push(format!(
                    "Beside {} on {}, from when the others began until the stream had 0.95 of its guarantee for good: {regained}.",
                    one.adversary,
                    name(one.peer, one.promise),
                ));
            }
            if let Some(Changes { made, refused, longest_ms, .. }) = &one.changes {
                remarks.push(format!(
                    "Beside {} on {}, {} were made and {refused} refused; one took {} at most.",
                    one.adversary,
                    name(one.peer, one.promise),
                    many(*made, "change"),
                    us(longest_ms * 1e3),
                ));
            }
        }
        remarks
    }

    fn charts(&self) -> Vec<Chart> {
        let delay = Axis::log10("99 of 100 took at most", Unit::SECONDS);
        let least = Axis::linear("came", Unit::SHARE);
        let mut charts = vec![
            self.matrix().into(),
            self.bars("Victim's delay beside adversaries", delay, |one| one.beside.p99 / 1e6),
            self.bars("Victim's goodput in the worst 50 ms", least, |one| one.least_goodput),
        ];
        let (rows, columns) = self.rows_and_columns();
        charts.extend(rows.into_iter().map(|row| self.course(row, &columns)));
        charts
    }

    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for one in &self.results {
            let Victim { adversary, at, .. } = one;
            let peer = name(one.peer, one.promise);
            let case = format!("{adversary} on {peer} at the {at}");
            if one.generator_busy > BUSY {
                broken.push(format!(
                    "the victim took {} of a processor beside {case}: the switch is not what was measured.",
                    percent(one.generator_busy)
                ));
            }
            if one.peer.switch() == SwitchKind::Zovn && (one.lost > 0 || one.duplicates > 0) {
                broken.push(format!(
                    "beside {case} {} of the victim were lost, and {} came twice.",
                    many(one.lost, "frame"),
                    one.duplicates
                ));
            }
            // What a closed loop leaves out was not sent.
            if one.has_minimum() && one.victim != Sends::Request && one.goodput < KEPT {
                broken.push(format!(
                    "beside {case} {} of what the victim sends within its minimum came in time.",
                    percent(one.goodput)
                ));
            }
            if let Some(Changes { refused: refused @ 1.., why, .. }) = &one.changes {
                broken.push(format!(
                    "beside {case} {} refused that can be: {}",
                    if *refused == 1 {
                        "a change was".into()
                    } else {
                        format!("{refused} changes were")
                    },
                    why.as_deref().unwrap_or("nobody said why")
                ));
            }
            broken.extend(unbalanced(&peer, one.balanced));
        }
        broken
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

/// An adversary and where it was.
type Row = (Adversary, Meeting);

/// A switch and its fabric.
type Column = (Peer, Option<ClassKind>);

impl Report {
    /// A row for each adversary, a column for each switch.
    fn matrix(&self) -> Matrix {
        let (rows, columns) = self.rows_and_columns();
        let names = columns.iter().map(|(peer, promise)| name(*peer, *promise));
        let told = "p99.9 over that alone; goodput";
        let matrix = Matrix::new("Victim beside each adversary", told, names);
        rows.into_iter().fold(matrix, |matrix, row| {
            let cells = columns.iter().map(|column| self.find(row, *column).map(Victim::cell));
            matrix.row(row_name(row), cells)
        })
    }

    /// A line for each switch: the first round beside one adversary.
    fn course(&self, row: Row, columns: &[Column]) -> Chart {
        let title = format!("Victim's goodput in every 50 ms beside {}", row_name(row));
        let time = Axis::linear("time", Unit::SECONDS);
        let lines = Lines::new(title, time, Axis::linear("came", Unit::SHARE).reach(1.0));
        let of = |lines: Lines, column: &Column| match self.find(row, *column) {
            None => lines,
            Some(one) => {
                let points = (0..).zip(&one.course).filter_map(|(number, share)| {
                    Some((f64::from(number) * Victim::WINDOW_S, (*share)?))
                });
                lines.series(name(column.0, column.1), points)
            }
        };
        columns.iter().fold(lines, of).into()
    }

    /// A group for each adversary, and a bar for each switch.
    fn bars(&self, title: &str, axis: Axis, value: impl Fn(&Victim) -> f64) -> Chart {
        let (rows, columns) = self.rows_and_columns();
        let bars = Bars::new(title, axis).groups("adversary", rows.iter().copied().map(row_name));
        let of = |bars: Bars, column: &Column| {
            let value = |row: &Row| self.find(*row, *column).map_or(f64::NAN, &value);
            bars.series(name(column.0, column.1), rows.iter().map(value))
        };
        columns.iter().fold(bars, of).into()
    }

    /// What was measured, each once, in the order in which it was. Where there is no fabric it is
    /// the switch's own column.
    fn rows_and_columns(&self) -> (Vec<Row>, Vec<Column>) {
        let (mut rows, mut columns) = (Vec::new(), Vec::new());
        for one in &self.results {
            let (row, column) = ((one.adversary, one.at), one.column());
            if !rows.contains(&row) {
                rows.push(row);
            }
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        (rows, columns)
    }

    fn find(&self, row: Row, column: Column) -> Option<&Victim> {
        self.results.iter().find(|one| ((one.adversary, one.at), one.column()) == (row, column))
    }
}

impl Victim {
    /// Its column: one for all fabrics that suit the switch, or none.
    fn column(&self) -> Column {
        let suits = name(self.peer, self.promise) == self.peer.to_string();
        (self.peer, self.promise.filter(|_| !suits))
    }

    fn cell(&self) -> Cell {
        let times = self.beside.p999 / self.alone.p999;
        let text = if times.is_finite() { format!("× {times:.1}; ") } else { String::new() };
        let late = if times.is_finite() { times.max(1.0).ln() / WORST.ln() } else { 0.0 };
        let shade = late.max(1.0 - self.goodput);
        Cell { text: format!("{text}{}", percent(self.goodput)), shade }
    }
}

/// An adversary, and where it was if that is not where it usually is.
fn row_name((adversary, at): Row) -> String {
    if at == adversary.usual() { adversary.to_string() } else { format!("{adversary}, {at}") }
}

#[cfg(test)]
mod tests {
    use traffic::TimesUs;

    use super::*;

    fn victim(peer: Peer, adversary: Adversary) -> Victim {
        let times = |p999| TimesUs { p999, ..TimesUs::default() };
        Victim {
            peer,
            victim: Sends::Cbr,
            adversary,
            at: adversary.usual(),
            promise: None,
            sent: 100,
            lost: 0,
            least_goodput: 1.0,
            goodput: 1.0,
            regained_ms: None,
            course: Vec::new(),
            alone: times(100.0),
            beside: times(150.0),
            others: 0.0,
            changes: None,
            thread: None,
            generator_busy: 0.1,
            marked: 0,
            duplicates: 0,
            balanced: Some(true),
        }
    }

    fn broken(change: impl FnOnce(&mut Victim), peer: Peer, adversary: Adversary) -> Vec<String> {
        let mut one = victim(peer, adversary);
        change(&mut one);
        report(vec![one]).broken()
    }

    fn report(results: Vec<Victim>) -> Report {
        let config = crate::isolation::adversary::Config {
            peers: Vec::new(),
            adversaries: Vec::new(),
            victim: Sends::Cbr,
            at: Vec::new(),
            promises: Vec::new(),
            tenants: 8,
            rate: units::Rate::from_gbit(1),
            lead: units::Span::ZERO,
            lasts: units::Span::ZERO,
            rest: units::Span::ZERO,
            rounds: 1,
        };
        crate::Measurement::new("adversary", Environment::look(), config, results)
    }

    #[test]
    fn only_a_promise_can_be_broken() {
        let starved = |one: &mut Victim| one.goodput = 0.5;
        let said = |peer, adversary| broken(starved, peer, adversary);
        assert_eq!(said(Peer::ZovnUnshared, Adversary::Bytes), [""; 0]);
        assert_eq!(said(Peer::Bridge, Adversary::Bytes), [""; 0]);
        // Nothing is promised of a link that no host sends by alone, nor of a switch.
        assert_eq!(said(Peer::Zovn, Adversary::Incast), [""; 0]);
        assert_eq!(said(Peer::Zovn, Adversary::Parked), [""; 0]);
        let [sentence] = &said(Peer::ZovnLossy, Adversary::Bytes)[..] else { panic!() };
        assert!(sentence.contains("came in time"), "{sentence}");
        let lost = |one: &mut Victim| one.lost = 1;
        assert_eq!(broken(lost, Peer::ZovnLossy, Adversary::Bytes), [""; 0]);
        assert_eq!(broken(lost, Peer::Zovn, Adversary::Bytes).len(), 1);
    }

    #[test]
    fn what_is_refused_that_can_be_is_broken() {
        let refused = |one: &mut Victim| {
            let why = Some("no".to_owned());
            one.changes = Some(Changes { made: 9, refused: 1, why, longest_ms: 2.0 });
        };
        let said = broken(refused, Peer::ZovnUnshared, Adversary::Churn);
        assert_eq!(
            said,
            ["beside churn on zovn-unshared at the uplink a change was refused that can be: no"]
        );
    }

    #[test]
    fn each_adversary_is_a_row_and_each_switch_a_column() {
        let mut far = victim(Peer::Zovn, Adversary::Bytes);
        (far.at, far.promise) = (Meeting::Downlink, Some(ClassKind::Lossy));
        let report = report(vec![
            victim(Peer::Bridge, Adversary::Parked),
            victim(Peer::Zovn, Adversary::Parked),
            far,
        ]);
        let (rows, columns) = report.rows_and_columns();
        let rows: Vec<_> = rows.into_iter().map(row_name).collect();
        assert_eq!(rows, ["parked", "bytes, downlink"]);
        let columns: Vec<_> =
            columns.into_iter().map(|(peer, promise)| name(peer, promise)).collect();
        assert_eq!(columns, ["bridge", "zovn", "zovn, lossy fabric"]);
        let cell = victim(Peer::Zovn, Adversary::Parked).cell();
        assert_eq!(cell.text, "× 1.5; 100 %");
        assert!((0.05..0.07).contains(&cell.shade), "{cell:?}");
    }
}
