//! What was asked, and which answers were wrong: when, and at which host.

use std::collections::BTreeMap;

use comfy_table::Table;
use serde::Serialize;

use super::question::Service;
use crate::table::{headed, text};

/// A wrong answer, as often as it came.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Wrong {
    /// Who sends the packet.
    pub from: String,
    /// Whom it is for.
    pub to: String,
    /// What it asks for.
    pub asks: Service,
    /// Its destination.
    pub address: std::net::IpAddr,
    /// Who is to get it, by each network that may be in force.
    pub intended: Vec<Vec<String>>,
    /// Who gets it.
    pub seen: Vec<String>,
    /// The host that is wrong.
    pub host: String,
    /// How that is known.
    pub why: String,
}

/// When something came, since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// First, in seconds.
    pub first_s: f64,
    /// Last, in seconds.
    pub last_s: f64,
    /// How often.
    pub times: u64,
}

/// The command that ran meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ran {
    /// When it began, in seconds since the beginning.
    pub began_s: f64,
    /// When it ended.
    pub ended_s: f64,
    /// When it was first seen that all is as intended after it. `None`: it never was.
    pub settled_s: Option<f64>,
    /// Its exit code. `None`: a signal ended it.
    pub code: Option<i32>,
}

/// An entry of the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The wrong answer.
    #[serde(flatten)]
    pub wrong: Wrong,
    /// When it came.
    #[serde(flatten)]
    pub times: Times,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The lab.
    pub lab: String,
    /// How many machines there are.
    pub machines: usize,
    /// How many pairs of them were asked.
    pub pairs: usize,
    /// By what.
    pub services: Vec<Service>,
    /// How often each was asked.
    pub rounds: u32,
    /// How many packets were sent.
    pub packets: u64,
    /// How many of them arrived when they were not waited for any longer.
    pub late: u64,
    /// How many of those arrived where they must not, by no network that was in force.
    pub strange: u64,
    /// How many answers were wrong.
    pub pings_wrong: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The command that ran meanwhile, if one did.
    pub command: Option<Ran>,
    /// The wrong answers.
    pub wrong: Vec<Entry>,
    /// What became of the packet that was watched, if one was; whoever watches one tells it.
    #[serde(skip)]
    pub watched: Fate,
}

/// What became of the packets of one question.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Fate {
    /// How many were sent.
    pub packets: u64,
    /// How many of them arrived while they were waited for, at whatever machine.
    pub arrived: u64,
}

/// Wrong answers while they come: each one once.
#[derive(Debug, Default)]
pub struct Book(Vec<Entry>, BTreeMap<Key, usize>);

/// What makes two wrong answers the same: question, and who got it.
type Key = (usize, usize, Service, bool, Vec<usize>);

impl Book {
    /// Books a wrong answer that came at a time; `who` tells the rest if it is new.
    pub fn add(&mut self, key: Key, at_s: f64, who: impl FnOnce() -> Wrong) {
        let Self(entries, places) = self;
        let place = *places.entry(key).or_insert_with(|| {
            let times = Times { first_s: at_s, last_s: at_s, times: 0 };
            entries.push(Entry { wrong: who(), times });
            entries.len() - 1
        });
        let times = &mut entries[place].times;
        times.first_s = times.first_s.min(at_s);
        times.last_s = times.last_s.max(at_s);
        times.times += 1;
    }

    /// All, in the order in which they came.
    pub fn entries(self) -> Vec<Entry> {
        self.0
    }
}

impl Report {
    /// Whether all was as intended, and the command did what it was to.
    pub fn is_right(&self) -> bool {
        self.pings_wrong + self.strange == 0 && self.command.is_none_or(|it| it.code == Some(0))
    }

    /// As people read it.
    pub fn text(&self) -> String {
        let mut said = String::new();
        if !self.wrong.is_empty() {
            said = format!("{}\n\n", text(self.table()));
        }
        let Self { machines, pairs, rounds, packets, strange, seconds, .. } = self;
        let services: Vec<_> = self.services.iter().map(ToString::to_string).collect();
        said += &format!(
            "{machines} machines, {pairs} pairs, {}: {packets} packets in {rounds} {} and {seconds:.1} s, {}",
            services.join(", "),
            if *rounds == 1 { "round" } else { "rounds" },
            match self.pings_wrong + strange {
                0 => "all as intended".to_owned(),
                wrong => format!("{wrong} not as intended"),
            }
        );
        if *strange > 0 {
            said += &format!(
                "\n{strange} came where none must, when they were not waited for any longer"
            );
        }
        if let Some(Ran { began_s, ended_s, settled_s, code }) = self.command {
            let ended = match code {
                Some(0) => "ended".to_owned(),
                Some(code) => format!("failed with exit code {code}"),
                None => "was ended by a signal".to_owned(),
            };
            let settled = settled_s.map_or_else(
                || "what is intended then was never so".to_owned(),
                |at| format!("what is intended then was so {:.3} s later", (at - ended_s).max(0.0)),
            );
            said += &format!(
                "\nthe command began at {began_s:.3} s and {ended} at {ended_s:.3} s; {settled}"
            );
        }
        said
    }

    fn table(&self) -> Table {
        let heads = ["when", "host", "from", "to", "asks", "intended", "seen", "why"];
        let mut table = headed(heads);
        for Entry { wrong, times } in &self.wrong {
            let Times { first_s, last_s, times } = times;
            let when = match times {
                1 => format!("{first_s:.3} s"),
                _ => format!("{first_s:.3}-{last_s:.3} s, {times} times"),
            };
            let who = |all: &Vec<String>| match all.is_empty() {
                true => "nobody".to_owned(),
                false => all.join(" and "),
            };
            let intended: Vec<_> = wrong.intended.iter().map(who).collect();
            table.add_row([
                &when,
                &wrong.host,
                &wrong.from,
                &wrong.to,
                &wrong.asks.to_string(),
                &intended.join(", or "),
                &who(&wrong.seen),
                &wrong.why,
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_again_and_again_is_one_line() {
        let wrong = || Wrong {
            from: "shop/web-1".into(),
            to: "shop/db-1".into(),
            asks: Service::Tcp(5432),
            address: "10.0.2.1".parse().unwrap(),
            intended: vec![vec!["shop/db-1".into()]],
            seen: Vec::new(),
            host: "host2".into(),
            why: "it left for host2".into(),
        };
        let key = || (0, 2, Service::Tcp(5432), true, Vec::new());
        let mut book = Book::default();
        book.add(key(), 1.0, wrong);
        book.add(key(), 1.5, || unreachable!("it is known"));
        let mut report = Report {
            lab: "shop".into(),
            machines: 3,
            pairs: 6,
            services: vec![Service::Echo, Service::Tcp(5432)],
            rounds: 2,
            packets: 24,
            late: 0,
            strange: 0,
            pings_wrong: 2,
            seconds: 2.0,
            command: Some(Ran { began_s: 0.5, ended_s: 1.6, settled_s: Some(1.7), code: Some(0) }),
            wrong: book.entries(),
            watched: Fate::default(),
        };
        let text = report.text();
        let mut lines = text.lines().skip(1);
        let line = lines.next().unwrap();
        assert!(
            line.starts_with("1.000-1.500 s, 2 times  host2  shop/web-1  shop/db-1  tcp 5432"),
            "{text}"
        );
        assert!(line.contains("  shop/db-1  nobody  it left"), "{text}");
        assert!(text.contains("24 packets in 2 rounds and 2.0 s, 2 not as intended\n"), "{text}");
        assert!(
            text.ends_with("ended at 1.600 s; what is intended then was so 0.100 s later"),
            "{text}"
        );
        assert!(!report.is_right());

        (report.pings_wrong, report.wrong) = (0, Vec::new());
        assert!(report.is_right());
        (report.late, report.strange) = (2, 1);
        assert!(!report.is_right(), "what comes late where it must not is wrong, too");
        let text = report.text();
        assert!(text.contains("1 not as intended\n1 came where none must, when"), "{text}");
    }
}
