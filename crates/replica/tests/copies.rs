//! What agents execute is always one generation of their store, whole; and the newest, once nothing
//! goes wrong any more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use model::Generation;
use proptest::prelude::*;
use replica::{
    Chunk, Delta, Feed, Fence, Follower, Histories, History, Known, Limits, Map, Name, Received,
    Rejected, Reply, Store, ToAgent,
};
use units::Rng;

const DOMAINS: usize = 4;
const LIMITS: Limits = Limits { domains: 8, update_bytes: 1 << 20 };
/// So few that agents outlive what a history remembers.
const REMEMBERED: usize = 600;

fn name(domain: usize) -> Name {
    format!("d{domain}").into()
}

/// A controller, and every generation that there has been.
struct Controller {
    store: Store,
    fence: Fence,
    revision: Generation,
    domains: Histories,
    /// By store, domain and generation: what all rows come to.
    past: BTreeMap<(u128, Name, Generation), Map>,
}

impl Controller {
    fn new() -> Self {
        let (store, fence, revision) = (Store(1), Fence(1), Generation(1));
        let mut new =
            Self { store, fence, revision, domains: Histories::new(), past: BTreeMap::new() };
        for domain in 0..DOMAINS {
            new.domains.insert(name(domain), History::new(revision, Map::default(), REMEMBERED));
            new.note(&name(domain));
        }
        new
    }

    fn note(&mut self, domain: &Name) {
        let history = &self.domains[domain];
        let key = (self.store.0, domain.clone(), history.generation());
        self.past.insert(key, history.rows().clone());
    }

    /// Some rows of some domains change, in one revision. The domains.
    fn edit(&mut self, rng: &mut Rng) -> BTreeSet<Name> {
        self.revision.0 += 1 + rng.below(3);
        let mut changed = BTreeSet::new();
        for domain in (0..DOMAINS).map(name) {
            if rng.below(2) == 0 {
                continue;
            }
            let mut delta = Delta::default();
            for _ in 0..1 + rng.below(4) {
                let long = if rng.below(20) == 0 { 100_000 } else { 30 };
                let row = (rng.below(3) > 0).then(|| {
                    let byte = rng.below(3) as u8;
                    vec![byte; rng.below(long) as usize].into()
                });
                delta.put(Arc::from([rng.below(12) as u8]), row);
            }
            if self.domains.get_mut(&domain).unwrap().advance(self.revision, delta) {
                self.note(&domain);
                changed.insert(domain);
            }
        }
        changed
    }

    /// Another process goes on: it has the rows and generations, and no steps.
    fn restart(&mut self) {
        self.fence.0 += 1;
        for history in self.domains.values_mut() {
            *history = History::new(history.generation(), history.rows().clone(), REMEMBERED);
        }
    }

    /// The store is one that was restored from an older copy: its revisions have gone back.
    fn restore(&mut self) {
        self.store.0 += 1;
        self.revision.0 = 1 + self.revision.0 / 2;
        for domain in (0..DOMAINS).map(name) {
            let rows = self.domains[&domain].rows().clone();
            self.domains.insert(domain.clone(), History::new(self.revision, rows, REMEMBERED));
            self.note(&domain);
        }
    }
}

/// An agent, and its session: what is on the way to it, and from it.
struct Agent {
    follower: Follower,
    follows: BTreeSet<Name>,
    session: Option<Session>,
    refused: u64,
}

struct Session {
    feed: Feed,
    down: VecDeque<ToAgent>,
    up: VecDeque<Reply>,
}

impl Agent {
    fn connect(&mut self, controller: &Controller) {
        let is_same = self.follower.store() == Some(controller.store);
        let known =
            |(domain, known): (&Name, Option<Known>)| (domain.clone(), known.filter(|_| is_same));
        let cached = self.follower.known().map(known).collect();
        self.follower.begin(controller.store, controller.fence).unwrap();
        let mut feed = Feed::new(5_000, cached);
        self.follows.iter().for_each(|domain| feed.follow(domain.clone()));
        feed.follow_no_other();
        let (down, up) = Default::default();
        self.session = Some(Session { feed, down, up });
    }

    /// One message goes one step. Whether there was one.
    fn step(&mut self, controller: &mut Controller, rng: &mut Rng, refuses: u64) -> bool {
        let Some(Session { feed, down, up }) = &mut self.session else { return false };
        match rng.below(3) {
            0 => {
                let Some(reply) = up.pop_front() else { return false };
                feed.answered(&reply).unwrap();
            }
            1 => {
                if refuses > 0 && rng.below(10) == 0 {
                    feed.compare();
                }
                let Some(message) = feed.next(&mut controller.domains, controller.revision) else {
                    return false;
                };
                down.push_back(message);
            }
            _ => match down.pop_front() {
                None => return false,
                Some(ToAgent::Drop(domain)) => drop(self.follower.drop(&domain)),
                Some(ToAgent::Mark(revision)) => self.follower.mark(revision),
                Some(ToAgent::Compare(domain, known)) => {
                    let is_damaged = rng.below(4) == 0;
                    let damaged = |_: &Map| {
                        is_damaged.then(|| Map::from_iter([(Arc::from([200]), Arc::from([1]))]))
                    };
                    let has = self.follower.known().find(|(name, _)| **name == domain);
                    let is_whole = has.is_some_and(|(_, known)| known.is_some());
                    let reply = self.follower.compare(&domain, known, damaged);
                    assert_eq!(reply.is_some(), is_damaged || !is_whole, "{domain}: {known:?}");
                    up.extend(reply);
                }
                Some(ToAgent::Part(part)) => match self.follower.receive(&Chunk::from(&part)) {
                    Err(rejected) => panic!("{rejected}"),
                    Ok(Received::Part) => {}
                    Ok(Received::Refused(reply)) => up.push_back(reply),
                    Ok(Received::Changed(changed)) => {
                        up.push_back(match rng.below(100) < refuses {
                            true => {
                                self.refused += 1;
                                changed.refused("no room".into())
                            }
                            false => changed.realized(),
                        });
                    }
                },
            },
        }
        true
    }

    /// What it executes is what the store had, all of it.
    fn check(&self, controller: &Controller) {
        let store = self.follower.store().map(|it| it.0);
        for (domain, known) in self.follower.known() {
            let Some(known) = known else { continue };
            let key = (store.unwrap(), domain.clone(), known.generation);
            assert_eq!(self.follower.rows(domain), controller.past.get(&key), "{domain}");
        }
    }
}

/// Everything that can happen, in an order that a seed says.
fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut controller = Controller::new();
    let agent = |_| Agent {
        follower: Follower::new(LIMITS),
        follows: BTreeSet::new(),
        session: None,
        refused: 0,
    };
    let mut agents: Vec<_> = (0..3).map(agent).collect();
    for _ in 0..300 {
        let at = rng.below(3) as usize;
        match rng.below(40) {
            0..4 => {
                let changed = controller.edit(&mut rng);
                let sessions = agents.iter_mut().filter_map(|agent| agent.session.as_mut());
                sessions.for_each(|it| changed.iter().for_each(|name| it.feed.changed(name)));
            }
            4 => agents[at].session = None,
            5 => {
                controller.restart();
                agents.iter_mut().for_each(|agent| agent.session = None);
            }
            6 if rng.below(4) == 0 => {
                controller.restore();
                agents.iter_mut().for_each(|agent| agent.session = None);
            }
            7 => {
                // It ends, and has on its disk what it executed.
                let Agent { follower, session, .. } = &mut agents[at];
                *session = None;
                let copy = |(domain, known): (&Name, Option<Known>)| {
                    let generation = known.map_or(Generation(0), |known| known.generation);
                    (domain.clone(), generation, follower.rows(domain).unwrap().clone())
                };
                let copies: Vec<_> = follower.known().map(copy).collect();
                if let Some(store) = follower.store() {
                    *follower = Follower::restored(LIMITS, (store, controller.fence), copies);
                }
            }
            8..10 => {
                let domain = name(rng.below(DOMAINS as u64) as usize);
                let Agent { follows, session, .. } = &mut agents[at];
                let is_new = !follows.remove(&domain) && follows.insert(domain.clone());
                if let Some(session) = session {
                    match is_new {
                        true => session.feed.follow(domain),
                        false => session.feed.unfollow(&domain),
                    }
                }
            }
            10..12 if agents[at].session.is_none() => agents[at].connect(&controller),
            _ => drop(agents[at].step(&mut controller, &mut rng, 20)),
        }
        agents[at].check(&controller);
    }
    // From here on nothing goes wrong. What was refused is not sent again before it changes.
    for agent in &mut agents {
        agent.connect(&controller);
    }
    let mut idle = 0;
    while idle < 200 {
        for agent in &mut agents {
            idle = if agent.step(&mut controller, &mut rng, 0) { 0 } else { idle + 1 };
            agent.check(&controller);
        }
    }
    for agent in &agents {
        let has: BTreeMap<_, _> = agent.follower.known().collect();
        let follows: BTreeSet<_> = has.keys().copied().cloned().collect();
        assert_eq!(follows, agent.follows);
        for (domain, known) in has {
            let newest = controller.domains[domain].generation();
            assert_eq!(known.map(|known| known.generation), Some(newest));
            let feed = &agent.session.as_ref().unwrap().feed;
            assert_eq!(feed.known(domain), known);
        }
        assert_eq!(agent.follower.marked(), controller.revision);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn copies_are_whole_and_in_the_end_the_newest(seed in any::<u64>()) {
        run(seed);
    }
}

/// A controller with one domain of so many rows, and what a new agent is sent of it.
fn sent(rows: u32) -> (Histories, Feed, Vec<ToAgent>) {
    let row = |number: u32| (Arc::from(number.to_be_bytes()), Arc::from([7; 100]));
    let history = History::new(Generation(5), (0..rows).map(row).collect(), 1 << 20);
    let mut domains = Histories::from([(name(0), history)]);
    let mut feed = Feed::new(1 << 20, BTreeMap::new());
    feed.follow(name(0));
    let all = std::iter::from_fn(|| feed.next(&mut domains, Generation(5))).collect();
    (domains, feed, all)
}

#[test]
fn a_refused_generation_is_sent_again_only_when_there_is_a_newer_one() {
    let (mut domains, mut feed, sent) = sent(1);
    let [ToAgent::Part(part), ToAgent::Mark(_)] = &sent[..] else { panic!("{sent:?}") };
    let mut follower = Follower::new(LIMITS);
    let received = follower.receive(&Chunk::from(part)).unwrap();
    let Received::Changed(changed) = received else { panic!("{received:?}") };
    let reply = changed.refused("a quota is used up".into());
    feed.answered(&reply).unwrap();
    let refused = feed.refused("d0").map(|(generation, why)| (*generation, why.to_string()));
    assert_eq!(refused, Some((Generation(5), "a quota is used up".into())));
    assert_eq!(feed.known("d0"), None);
    assert_eq!(feed.next(&mut domains, Generation(5)), None);
    assert!(follower.rows("d0").is_none(), "nothing by half");
    let delta = [(Arc::from([1; 4]), Some(Arc::from([1])))].into_iter().collect();
    domains.get_mut("d0").unwrap().advance(Generation(6), delta);
    feed.changed(&name(0));
    assert!(matches!(feed.next(&mut domains, Generation(6)), Some(ToAgent::Part(_))));
}

#[test]
fn a_copy_that_has_changed_by_itself_is_sent_all_rows() {
    let (mut domains, mut feed, sent) = sent(3);
    let ToAgent::Part(part) = &sent[0] else { panic!() };
    let mut follower = Follower::new(LIMITS);
    let reply = match follower.receive(&Chunk::from(part)).unwrap() {
        Received::Changed(changed) => changed.realized(),
        other => panic!("{other:?}"),
    };
    feed.answered(&reply).unwrap();
    // A bit of its memory turns.
    let broken = Map::from_iter([(Arc::from([9]), Arc::from([9]))]);
    let copies = [(name(0), Generation(5), broken)];
    let mut follower = Follower::restored(LIMITS, (Store(1), Fence(1)), copies);
    let delta = [(Arc::from([1; 4]), Some(Arc::from([1])))].into_iter().collect();
    domains.get_mut("d0").unwrap().advance(Generation(6), delta);
    feed.changed(&name(0));
    let mut whole = None;
    while let Some(ToAgent::Part(part)) = feed.next(&mut domains, Generation(6)) {
        let reply = match follower.receive(&Chunk::from(&part)).unwrap() {
            Received::Refused(reply) => reply,
            Received::Changed(changed) => changed.realized(),
            Received::Part => continue,
        };
        whole = Some(part.update.from);
        feed.answered(&reply).unwrap();
    }
    assert_eq!(whole, Some(Generation(0)));
    assert_eq!(follower.rows("d0"), Some(domains["d0"].rows()));
}

#[test]
fn domains_are_compared_in_turn_and_one_that_is_executed_otherwise_is_sent_all_rows() {
    let (mut domains, others) = (sent(3).0, sent(3).0);
    domains.insert(name(1), others.into_values().next().unwrap());
    let mut feed = Feed::new(1 << 20, BTreeMap::new());
    (0..2).for_each(|it| feed.follow(name(it)));
    feed.compare();
    let mut follower = Follower::new(LIMITS);
    // Takes whatever is sent, and says which domains were compared and which were sent whole.
    let mut go_on = |feed: &mut Feed, executed: Option<Map>| {
        let (mut compared, mut whole) = (Vec::new(), Vec::new());
        while let Some(message) = feed.next(&mut domains, Generation(5)) {
            let reply = match message {
                ToAgent::Part(part) => match follower.receive(&Chunk::from(&part)).unwrap() {
                    Received::Changed(changed) => {
                        whole.push(changed.domain().to_string());
                        Some(changed.realized())
                    }
                    other => panic!("{other:?}"),
                },
                ToAgent::Compare(domain, known) => {
                    compared.push(domain.to_string());
                    follower.compare(&domain, known, |_| executed.clone())
                }
                _ => None,
            };
            reply.into_iter().for_each(|it| feed.answered(&it).unwrap());
        }
        let rows = |it| follower.rows(name(it).as_ref()) == Some(domains[&name(it)].rows());
        assert!((0..2).all(rows));
        (compared, whole)
    };
    let both = || vec!["d0".to_owned(), "d1".to_owned()];
    assert_eq!(go_on(&mut feed, None), (vec![], both()), "nothing to compare at first");
    for turn in ["d0", "d1", "d0"] {
        feed.compare();
        assert_eq!(go_on(&mut feed, None), (vec![turn.to_owned()], vec![]));
    }
    feed.compare();
    let damaged = Map::from_iter([(Arc::from([9]), Arc::from([9]))]);
    let d1 = || vec!["d1".to_owned()];
    assert_eq!(go_on(&mut feed, Some(damaged)), (d1(), d1()));
}

#[test]
fn an_update_that_breaks_off_or_is_too_large_leaves_the_copy_as_it_was() {
    let (.., sent) = sent(2000);
    let parts: Vec<_> = sent
        .iter()
        .filter_map(|it| match it {
            ToAgent::Part(part) => Some(part),
            _ => None,
        })
        .collect();
    assert_eq!(parts.len(), 4, "211,000 bytes");
    let mut follower = Follower::new(LIMITS);
    assert!(matches!(follower.receive(&Chunk::from(parts[0])), Ok(Received::Part)));
    let gap = follower.receive(&Chunk::from(parts[2])).err();
    assert_eq!(gap, Some(Rejected::OutOfOrder));
    let short = Limits { update_bytes: 200_000, ..LIMITS };
    let mut follower = Follower::new(short);
    let refused = follower.receive(&Chunk::from(parts[0])).unwrap();
    assert!(matches!(refused, Received::Refused(Reply::Nack(_, _, replica::Reason::TooLarge))));
    for part in &parts[1..] {
        assert!(matches!(follower.receive(&Chunk::from(*part)), Ok(Received::Part)));
    }
    assert!(follower.rows("d0").is_none());
}

#[test]
fn a_master_of_before_is_not_followed() {
    let mut follower = Follower::new(LIMITS);
    follower.begin(Store(1), Fence(4)).unwrap();
    assert_eq!(follower.begin(Store(1), Fence(3)), Err(Rejected::Fenced));
    follower.begin(Store(1), Fence(4)).unwrap();
    follower.begin(Store(2), Fence(1)).unwrap();
}

#[test]
fn who_answers_what_it_was_not_sent_is_cut_off() {
    let (_, mut feed, _) = sent(1);
    assert!(feed.answered(&Reply::Ack(name(0), Generation(4))).is_err());
    assert!(feed.answered(&Reply::Ack(name(1), Generation(5))).is_err());
    feed.answered(&Reply::Ack(name(0), Generation(5))).unwrap();
    assert!(feed.answered(&Reply::Ack(name(0), Generation(5))).is_err());
}

#[test]
fn hosts_of_one_domain_share_the_bytes_of_an_update() {
    let (mut domains, ..) = sent(10);
    let history = domains.get_mut("d0").unwrap();
    let (one, other) = (history.since(None).unwrap(), history.since(None).unwrap());
    assert!(Arc::ptr_eq(&one, &other));
    // What all of them have been told is not kept.
    let update = Arc::downgrade(&one);
    drop((one, other));
    assert!(update.upgrade().is_none());
}

#[test]
fn an_update_that_waits_for_room_is_encoded_once() {
    let (mut domains, others) = (sent(10).0, sent(10).0);
    domains.insert(name(1), others.into_values().next().unwrap());
    let mut feed = Feed::new(1, BTreeMap::new());
    (0..2).for_each(|it| feed.follow(name(it)));
    while feed.next(&mut domains, Generation(5)).is_some() {}
    // Somebody has what is not sent yet, and so it is found again.
    let update = Arc::downgrade(&domains.get_mut("d1").unwrap().since(None).unwrap());
    assert!(feed.next(&mut domains, Generation(5)).is_none());
    assert!(update.upgrade().is_some());
    feed.answered(&Reply::Ack(name(0), Generation(5))).unwrap();
    let Some(ToAgent::Part(part)) = feed.next(&mut domains, Generation(5)) else {
        panic!("there is room now")
    };
    assert!(Arc::ptr_eq(&part.update, &update.upgrade().unwrap()));
    // Nor is it kept for who is gone.
    drop(part);
    feed.abandon();
    assert!(update.upgrade().is_none());
}

#[test]
fn who_has_the_rows_of_a_controller_that_began_anew_is_sent_their_number_alone() {
    let rows = Map::from_iter([(Arc::from(*b"key"), Arc::from(*b"row"))]);
    let known = Known { generation: Generation(5), digest: rows.digest() };
    let mut history = History::new(Generation(9), rows, REMEMBERED);
    let update = history.since(Some(known)).unwrap();
    assert_eq!((update.from, update.to, update.body.len()), (Generation(5), Generation(9), 0));
    // Others are sent all.
    let other = Known { digest: Map::default().digest(), ..known };
    assert_eq!(history.since(Some(other)).unwrap().from, Generation(0));
}
