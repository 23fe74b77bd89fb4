//! Which hosts take a machine that a scheduler asks about, and what is assumed of its answer.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use placement::{Pattern, Placement, Problem, Tables, Vacancies};

use super::refusals::Refused;
use crate::plan::Plan;
use crate::settings::{Prefer, UnknownHosts};

/// A machine that a scheduler is about to place.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// What it is known by when it is asked about again.
    pub key: String,
    /// What it asks of the network, by place among the plan's models; nothing is known if `None`.
    pub model: Option<usize>,
    /// Thousandths of a core.
    pub milli_cores: u64,
    /// Bytes.
    pub memory: u64,
}

/// The hosts of a plan, what they have, and what they are assumed to have.
pub struct Scheduler<'a> {
    plan: &'a Plan,
    /// What is on each host but for what is assumed, by place among the plan's machines.
    placed: Vec<Pattern>,
    vacancies: Vacancies<'a>,
    places: HashMap<&'a str, usize>,
    rooms: Vec<Room>,
    assumed: HashMap<String, Assumed>,
    /// When what is assumed ends, the earliest first.
    ends: BTreeSet<(Duration, String)>,
    /// The same by host and model.
    ends_by: HashMap<(usize, usize), BTreeSet<(Duration, String)>>,
    /// Who says what is on each host.
    tellers: Vec<Teller>,
}

/// Who says which machines a host has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Teller {
    /// The plan's files.
    Files,
    /// Nobody: its agent does, and has not yet.
    Nobody,
    /// Its agent, which was read.
    Agent,
}

/// Cores and memory of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    milli_cores: u64,
    milli_cores_used: u64,
    memory: u64,
    memory_used: u64,
}

/// A machine on the host that it was told to go to.
#[derive(Clone, Debug)]
struct Assumed {
    host: usize,
    model: Option<usize>,
    milli_cores: u64,
    memory: u64,
    until: Duration,
}

/// What is assumed, in names, the earliest first: for the scheduler of the next plan.
pub struct Assumptions(Vec<Named>);

/// What is assumed of a machine, in names.
struct Named {
    key: String,
    host: String,
    /// Its model, and the number of machines of it that the plan has on that host.
    model: Option<(String, u32)>,
    it: Assumed,
}

/// More machines than this are not assumed at once: the oldest are forgotten.
const MOST_ASSUMED: usize = 100_000;

/// A plan as a scheduler asks about it: machines of one model are a class, whatever their cores and
/// memory.
pub fn by_model(plan: &Plan) -> (Problem, Placement) {
    let problem = plan.problem_by_model();
    let mut placement = Placement::empty(&problem);
    for (on_host, pattern) in placement.hosts.iter_mut().zip(&plan.placement.hosts) {
        for (vm, count) in pattern.iter() {
            on_host.add(plan.vms[vm].it.model, count);
        }
    }
    (problem, placement)
}

impl<'a> Scheduler<'a> {
    /// The scheduler of a plan, by the tables and the placement of [`by_model`].
    pub fn new(plan: &'a Plan, tables: &'a Tables<'a>, placement: &'a Placement) -> Self {
        let room = |host: usize| {
            let kind = plan.kind_of(host);
            let mut room = Room {
                milli_cores: 1000 * u64::from(kind.cores - kind.switch_cores),
                memory: kind.memory,
                ..Room::default()
            };
            for (vm, count) in plan.placement.hosts[host].iter() {
                let (vm, count) = (&plan.vms[vm].it, u64::from(count));
                let milli_cores = (1000 * u64::from(vm.cores)).saturating_mul(count);
                room.milli_cores_used = room.milli_cores_used.saturating_add(milli_cores);
                room.memory_used = room.memory_used.saturating_add(vm.memory.saturating_mul(count));
            }
            room
        };
        let asked: Vec<usize> =
            plan.serve.models.iter().copied().chain(plan.serve.default).collect();
        let mut tellers = vec![Teller::Files; plan.hosts().len()];
        let agents = plan.serve.agents.iter().filter(|_| !plan.serve.ports.is_empty());
        for (host, _) in agents.filter(|it| plan.placement.hosts[it.0].is_empty()) {
            tellers[*host] = Teller::Nobody;
        }
        Self {
            plan,
            placed: plan.placement.hosts.clone(),
            vacancies: Vacancies::new(tables, placement, &asked),
            places: plan.hosts().enumerate().map(|(place, name)| (name, place)).collect(),
            rooms: (0..plan.hosts().len()).map(room).collect(),
            assumed: HashMap::new(),
            ends: BTreeSet::new(),
            ends_by: HashMap::new(),
            tellers,
        }
    }

    /// Judges all hosts, so that the first question is answered as fast as later ones.
    pub fn judge_all(&mut self) {
        self.vacancies.judge_all();
    }

    /// The plan.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// Which model is meant, if it is one that is believed.
    pub fn model(&self, said: Option<&str>) -> Option<usize> {
        said.and_then(|it| self.listed(it)).or(self.plan.serve.default)
    }

    /// What a machine says it is, if it says something that is not believed: no name of a model, or
    /// one that the plan does not list.
    pub fn unlisted(&self, said: Option<&str>) -> Option<String> {
        said.filter(|it| !it.is_empty() && self.listed(it).is_none()).map(str::to_owned)
    }

    fn listed(&self, name: &str) -> Option<usize> {
        let mut models = self.plan.serve.models.iter().copied();
        models.find(|it| self.plan.models[*it].name == name)
    }

    /// Gets ready for a question about a machine: what was assumed too long ago is forgotten, and
    /// what was assumed of this machine, as it is not there yet.
    pub fn ask(&mut self, now: Duration, key: &str) {
        self.forget(key);
        self.expire(now);
        if self.ends.len() >= MOST_ASSUMED {
            self.forget_first();
        }
    }

    /// Forgets what was assumed too long ago.
    pub fn expire(&mut self, now: Duration) {
        while self.ends.first().is_some_and(|(end, _)| *end <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, key)) = self.ends.first().cloned() {
            self.forget(&key);
        }
    }

    /// How much the host is preferred for the machine, from 0 to 1.
    ///
    /// # Errors
    ///
    /// Why the host does not take it.
    pub fn judge(&mut self, machine: &Machine, host: &str) -> Result<f64, Refused> {
        let Some(&host) = self.places.get(host) else {
            return match self.plan.serve.unknown_hosts {
                UnknownHosts::Refuse => Err(Refused::Unknown),
                UnknownHosts::Pass => Ok(0.0),
            };
        };
        let left = self.left_with(machine, host)?;
        Ok(match self.plan.serve.prefer {
            Prefer::Spread => left,
            Prefer::Pack => 1.0 - left,
        })
    }

    /// Whether a host may take the machine once others have left it: its agent says that they have,
    /// and it has enough cores and memory in all.
    pub fn may_make_room(&self, machine: &Machine, host: &str) -> bool {
        self.places.get(host).is_some_and(|host| {
            let Room { milli_cores, memory, .. } = self.rooms[*host];
            let is_enough = machine.milli_cores <= milli_cores && machine.memory <= memory;
            self.tellers[*host] == Teller::Agent && is_enough
        })
    }

    /// What part of a host would be left beside the machine: of its cores, its memory, or what its
    /// switch carries, whichever is least.
    fn left_with(&mut self, machine: &Machine, host: usize) -> Result<f64, Refused> {
        if self.tellers[host] == Teller::Nobody {
            return Err(Refused::Unread);
        }
        let room = &self.rooms[host];
        let left = |have: u64, used: u64, needs: u64| {
            let left = have.saturating_sub(used);
            let part = |left: u64| if have > 0 { left as f64 / have as f64 } else { 0.0 };
            left.checked_sub(needs).map(part).ok_or((needs, left))
        };
        let cores = left(room.milli_cores, room.milli_cores_used, machine.milli_cores)
            .map_err(|(needs, left)| Refused::Cores { needs, left })?;
        let memory = left(room.memory, room.memory_used, machine.memory)
            .map_err(|(needs, left)| Refused::Memory { needs, left })?;
        let Some(model) = machine.model else { return Ok(cores.min(memory)) };
        let vacancy = self.vacancies.vacancy(host, model);
        if !vacancy.fits {
            let goal = self.plan.epsilon;
            return Err(Refused::Overload { share: vacancy.overload.high, goal });
        }
        Ok(vacancy.left.min(cores).min(memory))
    }

    /// Has the host at this place of the plan's have these machines from now on, as its agent says.
    /// Those that have come are the ones that were assumed of it first.
    ///
    /// # Panics
    ///
    /// If the plan has no such host.
    pub fn place(&mut self, host: usize, machines: Pattern) {
        self.tellers[host] = Teller::Agent;
        if self.placed[host] == machines {
            return;
        }
        let before = std::mem::replace(&mut self.placed[host], machines.clone());
        let changed: BTreeSet<usize> =
            before.iter().chain(machines.iter()).map(|it| it.0).collect();
        for vm in changed {
            let [had, has] = [&before, &machines].map(|it| it.count(vm));
            let plan = self.plan;
            let vm = &plan.vms[vm].it;
            for _ in had..has {
                if let Some(key) = self.first_assumed(host, vm.model) {
                    self.forget(&key);
                }
                self.vacancies.put(host, vm.model);
            }
            for _ in has..had {
                self.vacancies.remove(host, vm.model);
            }
            let room = &mut self.rooms[host];
            let change = |used: u64, each: u64| {
                let [had, has] = [had, has].map(|it| each.saturating_mul(it.into()));
                used.saturating_sub(had).saturating_add(has)
            };
            room.milli_cores_used = change(room.milli_cores_used, 1000 * u64::from(vm.cores));
            room.memory_used = change(room.memory_used, vm.memory);
        }
    }

    /// The machine of a model that was assumed of a host first.
    fn first_assumed(&self, host: usize, model: usize) -> Option<String> {
        self.ends_by.get(&(host, model))?.first().map(|(_, key)| key.clone())
    }

    /// How many machines of a model a host has but for those that are assumed.
    fn placed(&self, host: usize, model: usize) -> u32 {
        let machines = self.placed[host].iter();
        machines.filter(|(vm, _)| self.plan.vms[*vm].it.model == model).map(|it| it.1).sum()
    }

    /// Assumes from now on that the machine is on this host. One that the plan does not know has
    /// nothing to assume of.
    pub fn assume(&mut self, now: Duration, machine: &Machine, host: &str) {
        let Some(&host) = self.places.get(host) else { return };
        self.forget(&machine.key);
        let Machine { key, model, milli_cores, memory } = machine.clone();
        let until = now + Duration::from(self.plan.serve.assume);
        self.put(key, Assumed { host, model, milli_cores, memory, until });
    }

    fn put(&mut self, key: String, it: Assumed) {
        let room = &mut self.rooms[it.host];
        room.milli_cores_used = room.milli_cores_used.saturating_add(it.milli_cores);
        room.memory_used = room.memory_used.saturating_add(it.memory);
        if let Some(model) = it.model {
            self.vacancies.put(it.host, model);
            let ends = self.ends_by.entry((it.host, model)).or_default();
            ends.insert((it.until, key.clone()));
        }
        self.ends.insert((it.until, key.clone()));
        self.assumed.insert(key, it);
    }

    fn forget(&mut self, key: &str) {
        let Some((key, it)) = self.assumed.remove_entry(key) else { return };
        let end = (it.until, key);
        self.ends.remove(&end);
        let room = &mut self.rooms[it.host];
        room.milli_cores_used = room.milli_cores_used.saturating_sub(it.milli_cores);
        room.memory_used = room.memory_used.saturating_sub(it.memory);
        if let Some(model) = it.model {
            self.vacancies.remove(it.host, model);
            if let Entry::Occupied(mut ends) = self.ends_by.entry((it.host, model)) {
                ends.get_mut().remove(&end);
                if ends.get().is_empty() {
                    ends.remove();
                }
            }
        }
    }

    /// How many machines are assumed.
    pub fn assumed(&self) -> usize {
        self.assumed.len()
    }

    /// The upper end of the share of time in which each host is asked for too much, as it is.
    pub fn overloads(&mut self) -> BTreeMap<&'a str, f64> {
        let plan = self.plan;
        let overload = |(place, name)| (name, self.vacancies.overload(place).high);
        plan.hosts().enumerate().map(overload).collect()
    }

    /// What is assumed, for the scheduler of the next plan.
    pub fn assumptions(&self) -> Assumptions {
        let all = self.ends.iter().map(|(_, key)| {
            let it = &self.assumed[key];
            let model = it
                .model
                .map(|model| (self.plan.models[model].name.clone(), self.placed(it.host, model)));
            let host = self.plan.names(&[it.host]).remove(0);
            Named { key: key.clone(), host, model, it: it.clone() }
        });
        Assumptions(all.collect())
    }

    /// Assumes what another has assumed, as far as this plan has the hosts and models, and does not
    /// have the machines: where a host has more machines of a model than before, they are those
    /// that were assumed first.
    pub fn adopt(&mut self, Assumptions(all): Assumptions, now: Duration) {
        let mut arrived: HashMap<(usize, usize), u32> = HashMap::new();
        for Named { key, host, model, it } in all {
            let Some(&host) = self.places.get(host.as_str()) else { continue };
            let model = model.and_then(|(name, before)| {
                let model = self.plan.models.iter().position(|it| it.name == name)?;
                Some((model, before))
            });
            if let Some((model, before)) = model {
                let more = || self.placed(host, model).saturating_sub(before);
                let arrived = arrived.entry((host, model)).or_insert_with(more);
                if *arrived > 0 {
                    *arrived -= 1;
                    continue;
                }
            }
            self.put(key, Assumed { host, model: model.map(|it| it.0), ..it });
        }
        self.expire(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const PLAN: &str = "\
goal: {epsilon: 0.001}
types:
  r: {cores: 65, memory: 256gib, switch: [{cores: 1, carries: 1gbit}]}
hosts:
  h: {type: r, count: 3}
models:
  web: {on: 100mbit, on_for: 1s, off_for: 9s}
  secret: {rate: 1gbit}
vms:
  web: {count: 38, model: web, cores: 1, memory: 4gib}
placement:
  h-1: {web: 38}
serve: {models: [web], assume: 60s}
";

    fn with<T>(text: &str, run: impl FnOnce(&mut Scheduler<'_>) -> T) -> T {
        let plan = Plan::of_text(Path::new("p.yaml"), text).unwrap_or_else(|it| panic!("{it:?}"));
        let (problem, placement) = by_model(&plan);
        let tables = Tables::new(&problem);
        run(&mut Scheduler::new(&plan, &tables, &placement))
    }

    fn web(key: &str) -> Machine {
        Machine { key: key.into(), model: Some(0), milli_cores: 500, memory: 1 << 30 }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_full_host_says_how_likely_too_much_would_be() {
        with(PLAN, |scheduler| {
            // P(Bin(39, 0.1) > 10) is 1.15e-3, and at most the upper end of its bracket.
            let refused = scheduler.judge(&web("a"), "h-1").unwrap_err();
            assert_eq!(refused.to_string(), "zovn: P(overflow) 1.17e-3 > 1e-3");
            assert!(scheduler.judge(&web("a"), "h-2").unwrap() > 0.8);
            let large = |milli_cores, memory| Machine { milli_cores, memory, ..web("a") };
            let mut told = |machine, host| scheduler.judge(&machine, host).unwrap_err().to_string();
            assert_eq!(
                told(large(26_500, 0), "h-1"),
                "zovn: needs 26.5 cores, 26 are left beside the switch's"
            );
            assert!(told(large(0, 1 << 60), "h-2").starts_with("zovn: needs 1.15 EB of memory"));
            assert_eq!(told(web("a"), "h-4"), "zovn: the plan has no such host");
            // Of a machine whose model nobody knows, the network is not judged.
            let blind = Machine { model: None, ..web("a") };
            assert!(scheduler.judge(&blind, "h-1").is_ok());
        });
        let pass =
            PLAN.replace("assume: 60s", "unknown_hosts: pass, prefer: pack, default: secret");
        with(&pass, |scheduler| {
            assert_eq!(scheduler.judge(&web("a"), "h-4"), Ok(0.0));
            // A model that the operator does not list is not believed.
            let models = [Some("web"), Some("secret"), Some("none"), None];
            assert_eq!(models.map(|it| scheduler.model(it)), [Some(0), Some(1), Some(1), Some(1)]);
            let unlisted = models.map(|it| scheduler.unlisted(it));
            assert_eq!(unlisted, [None, Some("secret".into()), Some("none".into()), None]);
            assert_eq!(scheduler.unlisted(Some("")), None);
        });
    }

    #[test]
    fn what_was_answered_is_assumed_for_a_minute() {
        with(PLAN, |scheduler| {
            for number in 0..38 {
                let machine = web(&number.to_string());
                scheduler.ask(number * SECOND, &machine.key);
                assert!(scheduler.judge(&machine, "h-2").is_ok(), "{number}");
                scheduler.assume(number * SECOND, &machine, "h-2");
            }
            scheduler.ask(38 * SECOND, "late");
            assert!(scheduler.judge(&web("late"), "h-2").is_err());
            assert_eq!(scheduler.assumed(), 38);
            // The last one is asked about once more: it is not in its own way.
            scheduler.ask(39 * SECOND, "37");
            assert!(scheduler.judge(&web("37"), "h-2").is_ok());
            scheduler.assume(39 * SECOND, &web("37"), "h-3");
            assert!(scheduler.overloads()["h-3"] == 0.0 && scheduler.overloads()["h-2"] > 0.0);
            // The first has expired after a minute, all of them later.
            scheduler.ask(60 * SECOND, "late");
            assert_eq!(scheduler.assumed(), 37);
            scheduler.ask(99 * SECOND, "late");
            assert_eq!((scheduler.assumed(), scheduler.ends.len()), (0, 0));
            assert!(scheduler.ends_by.is_empty());
            assert_eq!(scheduler.rooms[1].milli_cores_used, 0);
            assert_eq!(scheduler.overloads()["h-2"], 0.0);
        });
    }

    #[test]
    fn the_next_plan_assumes_what_the_one_before_did() {
        let assumptions = with(PLAN, |scheduler| {
            scheduler.assume(SECOND, &web("a"), "h-2");
            scheduler.assume(2 * SECOND, &web("b"), "h-3");
            scheduler.assumptions()
        });
        let other =
            PLAN.replace("r, count: 3", "r, count: 2").replace("  secret: {rate: 1gbit}\n", "");
        with(&other, |scheduler| {
            scheduler.adopt(assumptions, 3 * SECOND);
            assert_eq!((scheduler.assumed(), scheduler.rooms[1].milli_cores_used), (1, 500));
            assert_eq!(scheduler.vacancies.pattern(1).count(0), 1);
            scheduler.expire(60 * SECOND);
            assert_eq!(scheduler.assumed(), 1);
            scheduler.expire(61 * SECOND);
            assert_eq!(scheduler.assumed(), 0);
        });
    }

    #[test]
    fn what_is_in_the_next_plan_is_not_assumed_any_more() {
        let assumptions = || {
            with(PLAN, |scheduler| {
                for (second, key) in [(1, "a"), (2, "b"), (3, "c")] {
                    scheduler.assume(second * SECOND, &web(key), "h-2");
                }
                scheduler.assume(SECOND, &web("d"), "h-1");
                scheduler.assume(SECOND, &Machine { model: None, ..web("e") }, "h-2");
                scheduler.assumptions()
            })
        };
        // Two of the three have arrived. The other host has one less, and nobody knows of `e`.
        let next = PLAN
            .replace("{count: 38,", "{count: 40,")
            .replace("  h-1: {web: 38}\n", "  h-1: {web: 37}\n  h-2: {web: 2}\n");
        with(&next, |scheduler| {
            scheduler.adopt(assumptions(), 4 * SECOND);
            let mut keys: Vec<_> = scheduler.assumed.keys().map(String::as_str).collect();
            keys.sort_unstable();
            assert_eq!(keys, ["c", "d", "e"]);
            assert_eq!([0, 1].map(|host| scheduler.vacancies.pattern(host).count(0)), [38, 3]);
        });
        // Late, nothing of it is assumed.
        with(PLAN, |scheduler| {
            scheduler.adopt(assumptions(), 63 * SECOND);
            assert_eq!(scheduler.assumed(), 0);
        });
    }

    #[test]
    fn memory_for_what_is_assumed_is_bounded() {
        with(PLAN, |scheduler| {
            let small = |key: u32| Machine {
                milli_cores: 0,
                memory: 0,
                model: None,
                ..web(&key.to_string())
            };
            for key in 0..MOST_ASSUMED as u32 + 10 {
                scheduler.ask(SECOND, "");
                scheduler.assume(SECOND, &small(key), "h-2");
            }
            assert!(scheduler.ends.len() <= MOST_ASSUMED && scheduler.assumed() <= MOST_ASSUMED);
        });
    }

    #[test]
    fn machines_that_have_come_are_those_that_were_assumed() {
        let of = |count| Pattern::new([(0, count)]);
        with(PLAN, |scheduler| {
            let shares = |scheduler: &mut Scheduler<'_>| {
                let overloads = scheduler.overloads();
                ["h-1", "h-2"].map(|host| overloads[host])
            };
            let [full, empty] = shares(scheduler);
            for (key, host) in [("a", "h-2"), ("b", "h-2"), ("c", "h-3")] {
                scheduler.assume(SECOND, &web(key), host);
            }
            // One of the two has come: the other is assumed still, and so is the third.
            scheduler.place(1, of(1));
            assert!(!scheduler.assumed.contains_key("a"));
            assert_eq!(scheduler.assumed(), 2);
            scheduler.place(1, of(1));
            assert_eq!(scheduler.assumed(), 2);
            // Where it was assumed for half a core, it has one, as the plan says.
            let all = |milli_cores| Machine { milli_cores, ..web("d") };
            assert!(scheduler.judge(&all(62_500), "h-2").is_ok());
            assert!(matches!(
                scheduler.judge(&all(62_501), "h-2"),
                Err(Refused::Cores { left: 62_500, .. })
            ));
            // Those that have gone make room.
            scheduler.place(0, Pattern::default());
            assert_eq!(shares(scheduler)[0], empty);
            scheduler.place(0, of(38));
            assert_eq!(shares(scheduler)[0], full);
            // The next plan has what this one has, so nobody has come since.
            let assumptions = scheduler.assumptions();
            let next = PLAN.replace("  h-1: {web: 38}\n", "  h-1: {web: 37}\n  h-2: {web: 1}\n");
            with(&next, |next| {
                next.adopt(assumptions, SECOND);
                assert_eq!(next.assumed(), 2);
            });
        });
    }

    #[test]
    fn a_host_of_which_nothing_is_known_takes_nothing_until_its_agent_is_read() {
        let serve = "serve: {agents: {h-1: \"a:1\", h-2: \"a:2\"}, models: [web],";
        let unread = PLAN.replace("serve: {models: [web],", serve);
        let followed = unread.replace("assume: 60s", "assume: 60s, ports: {\"web-*\": web}");
        let judged = |scheduler: &mut Scheduler<'_>| {
            let small = Machine { model: None, ..web("a") };
            ["h-1", "h-2", "h-3"].map(|host| scheduler.judge(&small, host).err())
        };
        // Where agents do not say what runs, the files do.
        with(&unread, |scheduler| assert_eq!(judged(scheduler), [None; 3]));
        with(&followed, |scheduler| {
            // The files say what `h-1` has, and `h-3` has no agent.
            assert_eq!(judged(scheduler), [None, Some(Refused::Unread), None]);
            let hosts = ["h-1", "h-2", "h-3", "h-4"];
            assert!(hosts.iter().all(|host| !scheduler.may_make_room(&web("a"), host)));
            assert!(Refused::Unread.to_string().contains("agent was not read"));
            // An agent without ports was read.
            scheduler.place(1, Pattern::default());
            assert_eq!(judged(scheduler), [None; 3]);
            assert_eq!(
                hosts.map(|it| scheduler.may_make_room(&web("a"), it)),
                [false, true, false, false]
            );
            for more in [
                Machine { milli_cores: 1 << 40, ..web("a") },
                Machine { memory: 1 << 60, ..web("a") },
            ] {
                assert!(!scheduler.may_make_room(&more, "h-2"));
            }
        });
    }
}
