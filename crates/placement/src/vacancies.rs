//! Which hosts take one more machine, asked again and again while machines come and go.
//!
//! Hosts of one type with the same machines have the same answers, so these are kept by what is on
//! a host. A machine that comes changes one host, and the next question judges only that one anew:
//! what thousands of others say is looked up.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use demand::{Bracket, Verdict};

use crate::judge::Judge;
use crate::pattern::{Pattern, Placement};
use crate::room::Room;
use crate::tables::Tables;

/// Hosts, their machines, and what they say of one more.
///
/// Only overload is judged. Cores, memory and what is to be apart are the caller's.
pub struct Vacancies<'a> {
    judge: Judge<'a>,
    /// What is on each host, by place in `contents`.
    hosts: Vec<usize>,
    contents: Vec<Content>,
    /// Places in `contents` that no host has.
    unused: Vec<usize>,
    places: BTreeMap<(usize, Pattern), usize>,
    /// The classes that are judged ahead.
    asked: Vec<usize>,
}

/// What hosts have that are of one type with the same machines.
struct Content {
    kind: usize,
    pattern: Pattern,
    hosts: usize,
    answers: Option<Answers>,
}

/// What such a host says.
struct Answers {
    overload: Bracket,
    /// By class, if it was asked about.
    vacancies: BTreeMap<usize, Vacancy>,
}

/// What a host says of one more machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vacancy {
    /// Whether it stays within the goal.
    pub fits: bool,
    /// The share of time in which it would be asked for too much.
    pub overload: Bracket,
    /// What would be left of the limit that has least left, as a share of it: what is carried
    /// beyond the demand that is exceeded for no longer than the goal. From 0, nothing, to 1, all.
    pub left: f64,
}

impl<'a> Vacancies<'a> {
    /// Hosts with these machines. When a host is judged, it is for all of the classes in `asked` at
    /// once; others are judged when they are asked about.
    ///
    /// # Panics
    ///
    /// If the placement is not of the tables' problem.
    pub fn new(tables: &'a Tables<'a>, placement: &Placement, asked: &[usize]) -> Self {
        assert_eq!(placement.hosts.len(), tables.problem.hosts.len(), "a pattern for each host");
        let mut vacancies = Self {
            judge: Judge::new(tables),
            hosts: Vec::with_capacity(placement.hosts.len()),
            contents: Vec::new(),
            unused: Vec::new(),
            places: BTreeMap::new(),
            asked: asked.to_vec(),
        };
        vacancies.asked.sort_unstable();
        vacancies.asked.dedup();
        for (host, pattern) in tables.problem.hosts.iter().zip(&placement.hosts) {
            let content = vacancies.content(host.kind, pattern.clone());
            vacancies.hosts.push(content);
        }
        vacancies
    }

    /// The machines of a host.
    pub fn pattern(&self, host: usize) -> &Pattern {
        &self.contents[self.hosts[host]].pattern
    }

    /// How many hosts differ by type or machines.
    pub fn contents(&self) -> usize {
        self.places.len()
    }

    /// Puts a machine on a host, whether it fits or not.
    pub fn put(&mut self, host: usize, class: usize) {
        let pattern = self.pattern(host).with(class);
        self.change(host, pattern);
    }

    /// Takes a machine away.
    ///
    /// # Panics
    ///
    /// If there is none of this class.
    pub fn remove(&mut self, host: usize, class: usize) {
        let pattern = self.pattern(host).without(class);
        self.change(host, pattern);
    }

    /// The share of time in which a host is asked for too much, as it is.
    pub fn overload(&mut self, host: usize) -> Bracket {
        self.answers(self.hosts[host]).overload
    }

    /// What a host says of one more machine of this class.
    pub fn vacancy(&mut self, host: usize, class: usize) -> Vacancy {
        let place = self.hosts[host];
        if let Some(vacancy) = self.answers(place).vacancies.get(&class) {
            return *vacancy;
        }
        let Self { judge, contents, .. } = self;
        let Content { kind, pattern, answers, .. } = &mut contents[place];
        let vacancy = vacancy_of(judge, &mut Room::with(judge.tables, *kind, pattern), class);
        if let Some(answers) = answers {
            answers.vacancies.insert(class, vacancy);
        }
        vacancy
    }

    /// Judges all hosts, so that the first questions are answered as fast as later ones.
    pub fn judge_all(&mut self) {
        for host in 0..self.hosts.len() {
            self.answers(self.hosts[host]);
        }
    }

    fn change(&mut self, host: usize, pattern: Pattern) {
        let before = self.hosts[host];
        self.hosts[host] = self.content(self.contents[before].kind, pattern);
        self.contents[before].hosts -= 1;
        if self.contents[before].hosts == 0 {
            let Content { kind, pattern, .. } = &mut self.contents[before];
            self.places.remove(&(*kind, core::mem::take(pattern)));
            self.contents[before].answers = None;
            self.unused.push(before);
        }
    }

    /// The place of what one more host has.
    fn content(&mut self, kind: usize, pattern: Pattern) -> usize {
        if let Some(place) = self.places.get(&(kind, pattern.clone())) {
            self.contents[*place].hosts += 1;
            return *place;
        }
        let content = Content { kind, pattern: pattern.clone(), hosts: 1, answers: None };
        let place = match self.unused.pop() {
            Some(place) => {
                self.contents[place] = content;
                place
            }
            None => {
                self.contents.push(content);
                self.contents.len() - 1
            }
        };
        self.places.insert((kind, pattern), place);
        place
    }

    fn answers(&mut self, place: usize) -> &Answers {
        let Self { judge, contents, asked, .. } = self;
        let Content { kind, pattern, answers, .. } = &mut contents[place];
        answers.get_or_insert_with(|| {
            let mut room = Room::with(judge.tables, *kind, pattern);
            let vacancies =
                asked.iter().map(|class| (*class, vacancy_of(judge, &mut room, *class)));
            Answers { vacancies: vacancies.collect(), overload: room.overload(0.0) }
        })
    }
}

fn vacancy_of<'a>(judge: &mut Judge<'a>, room: &mut Room<'a>, class: usize) -> Vacancy {
    let (verdict, overload) = judge.judged_with(room, class);
    Vacancy { fits: verdict == Verdict::Within, overload, left: room.left_with(class) }
}
