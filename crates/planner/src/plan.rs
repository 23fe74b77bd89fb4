//! A plan whose names are places in lists, and the problems that it poses.

use std::collections::BTreeMap;

use demand::{Model, Source};
use placement::{
    Apart, Class, Cluster, Domain, Goal, Host, HostType, Limit, Pattern, Periods, Placement,
    Problem,
};
use units::Rate;

use crate::file::{Counts, Least};
use crate::fitted::Fitted;
use crate::profile::{Costs, Measured};
use crate::settings::Settings;

/// What is to be placed, where, and what has to hold.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The share of time in which a host may be asked for too much.
    pub epsilon: f64,
    /// What counts of several classes of hours.
    pub(crate) counts: Counts,
    /// Classes of hours, and how many hours of the week are of each; one of all hours if the plan
    /// does not divide them.
    pub periods: Vec<Named<u32>>,
    /// What there is to be as little of as possible.
    pub least: Least,
    /// Types of hosts, one for each number of cores that the switch may have.
    pub kinds: Vec<Kind>,
    /// Hosts: name, place among the kinds, rack.
    pub(crate) hosts: Vec<(String, usize, usize)>,
    /// Models of what machines ask for.
    pub models: Vec<Named<Load>>,
    /// Machines, those that are alike together.
    pub vms: Vec<Named<Machines>>,
    /// Clusters and their hoses, in bits a second.
    pub(crate) clusters: Vec<(String, u64)>,
    /// Where machines are, as the files say.
    pub placement: Placement,
    /// How schedulers are answered.
    pub serve: Settings,
}

/// Something with a name.
#[derive(Clone, Debug)]
pub struct Named<T> {
    /// The name.
    pub name: String,
    /// What it is.
    pub it: T,
}

/// A type of host with a number of cores for its switch.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The type's name, and the switch's cores if it has a choice: `r640 with 2 switch cores`.
    pub name: String,
    pub(crate) kind: String,
    pub(crate) switch_cores: u32,
    pub(crate) cores: u32,
    pub(crate) memory: u64,
    pub(crate) overhead: u64,
    pub(crate) price: Option<u64>,
    /// How many tunnels its switch has, if that is bounded.
    pub(crate) tunnels: Option<u32>,
    pub(crate) watts: Option<u64>,
    /// What is carried, in each class of hours.
    pub limits: Vec<Capacity>,
    /// What frames take of the switch's time, if that was measured.
    pub(crate) costs: Option<Costs>,
}

impl Kind {
    /// Reasons why its switch may carry more or less than the plan counts on.
    pub fn doubts(&self) -> &[String] {
        self.costs.as_ref().map_or(&[], |costs| &costs.doubts)
    }

    /// The profile that says what its switch carries, if one does.
    pub fn measured(&self) -> Option<&Measured> {
        self.costs.as_ref().map(|costs| &costs.measured)
    }

    /// The seconds that a frame of so many bytes takes the switch, of which this share leaves the
    /// host or comes to it.
    pub(crate) fn frame_secs(&self, size: f64, remote: f64) -> f64 {
        self.costs.as_ref().map_or(0.0, |costs| costs.careful.secs(size, remote))
    }
}

/// Something that a host carries, of which machines may ask for too much.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// What carries it; and when, if the plan divides hours: `switch, busy`.
    pub name: String,
    /// What is carried.
    pub carried: Carried,
    /// How much of it.
    pub amount: u64,
    /// The class of hours whose demand it is held against.
    pub(crate) period: usize,
}

/// What a limit of a host counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carried {
    /// Bits through the switch, a second.
    Bits,
    /// Frames through the switch, a second.
    Frames,
    /// The switch's time for frames, a second, in billionths (`WHOLE_TIME` is all of it).
    Time,
    /// Bits that leave by the card, a second, as they are on the wire.
    Out,
    /// Bits that come by the card.
    In,
}

/// All of a switch's time.
pub(crate) const WHOLE_TIME: u64 = 1_000_000_000;

impl Carried {
    /// What carries it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bits => "switch",
            Self::Frames => "switch, frames",
            Self::Time => "switch, time",
            Self::Out => "card, out",
            Self::In => "card, in",
        }
    }

    /// An amount in its unit.
    pub fn amount(self, amount: f64) -> String {
        let unit = match self {
            Self::Time => return figures::percent(amount / WHOLE_TIME as f64),
            Self::Frames => figures::Unit::FRAMES_PER_SEC,
            Self::Bits | Self::Out | Self::In => figures::Unit::BITS_PER_SEC,
        };
        figures::si(amount, unit)
    }
}

/// What a machine asks for.
#[derive(Clone, Debug)]
pub struct Load {
    /// In bits a second, both directions together: a model for each class of hours.
    pub models: Vec<Model>,
    /// What the model was fitted to.
    pub fitted: Option<Fitted>,
    /// What was taken for what neither the plan nor a trace says.
    pub(crate) taken: Vec<String>,
    /// The mean size of a frame, in bytes.
    pub(crate) frame: u64,
    /// The share that it sends.
    pub(crate) sends: f64,
    /// The share that leaves the host.
    pub(crate) remote: f64,
    /// The group that moves together.
    pub(crate) together: Option<usize>,
}

impl Load {
    /// Reasons not to trust it.
    pub fn doubts(&self) -> Vec<String> {
        let fitted = self.fitted.iter().flat_map(Fitted::doubts);
        fitted.chain(self.taken.iter().cloned()).collect()
    }

    /// What a machine asks for at a random time of each class of hours.
    fn sources(&self) -> Vec<Source> {
        self.models.iter().map(Model::source).collect()
    }

    /// What a rate in bits a second is to a limit of a host. Rounded up.
    pub(crate) fn on(&self, kind: &Kind, carried: Carried, rate: u64) -> u64 {
        let on_wire = (self.frame + kind.overhead) as f64 / self.frame as f64;
        let frames = 1.0 / (8.0 * self.frame as f64);
        let of_rate = match carried {
            Carried::Bits => return rate,
            Carried::Frames => frames,
            Carried::Time => {
                frames * kind.frame_secs(self.frame as f64, self.remote) * WHOLE_TIME as f64
            }
            Carried::Out => self.sends * self.remote * on_wire,
            Carried::In => (1.0 - self.sends) * self.remote * on_wire,
        };
        (rate as f64 * of_rate).ceil() as u64
    }
}

/// Machines that are alike.
#[derive(Clone, Debug)]
pub struct Machines {
    /// How many there are.
    pub count: u32,
    pub(crate) cores: u32,
    pub(crate) memory: u64,
    pub(crate) model: usize,
    pub(crate) apart: Option<Domain>,
    pub(crate) cluster: Option<usize>,
    pub(crate) dirty: Option<Rate>,
}

impl Plan {
    /// The names of hosts.
    pub fn hosts(&self) -> impl ExactSizeIterator<Item = &str> {
        self.hosts.iter().map(|(name, ..)| name.as_str())
    }

    /// The place of a host.
    ///
    /// # Errors
    ///
    /// What may have been meant, if there is none of this name.
    pub fn host(&self, name: &str) -> Result<usize, String> {
        let known: Vec<&str> = self.hosts().collect();
        find("host", name, &known)
    }

    /// Whether machines keep apart by racks.
    pub fn is_apart_by_rack(&self) -> bool {
        self.vms.iter().any(|it| it.it.apart == Some(Domain::Rack))
    }

    /// The place of machines that are alike.
    ///
    /// # Errors
    ///
    /// What may have been meant, if there are none of this name.
    pub fn vm(&self, name: &str) -> Result<usize, String> {
        let known: Vec<&str> = self.vms.iter().map(|it| it.name.as_str()).collect();
        find("machine", name, &known)
    }

    /// The kind of a host.
    pub fn kind_of(&self, host: usize) -> &Kind {
        &self.kinds[self.hosts[host].1]
    }

    /// How many machines there are.
    pub fn machines(&self) -> u64 {
        self.vms.iter().map(|it| u64::from(it.it.count)).sum()
    }

    /// Machines on the hosts there are. Only their kinds count: a bound by hosts that nobody has
    /// would say less.
    pub fn problem(&self) -> Problem {
        let kinds = self.kinds_of_hosts();
        let hosts = self.hosts.iter().map(|(_, kind, rack)| Host {
            kind: kinds.binary_search(kind).expect("each host's kind is listed"),
            rack: *rack,
        });
        let least = self.least;
        let cost = |kind: &Kind| match least {
            Least::Hosts => 1,
            Least::Price => kind.price.expect("where prices count, each type has one"),
        };
        self.posed(&kinds, hosts.collect(), cost)
    }

    /// The same with a class for each model, whose machines need no cores and no memory: those that
    /// schedulers ask about have their own.
    pub fn problem_by_model(&self) -> Problem {
        let kinds = self.kinds_of_hosts();
        let kinds: Vec<&Kind> = kinds.iter().map(|kind| &self.kinds[*kind]).collect();
        let class = |model: usize| Class {
            count: self.machines_of(model).clamp(1, u32::MAX.into()) as u32,
            cores: 0,
            memory: 0,
            loads: self.loads(model, &self.models[model].it.sources(), &kinds),
            together: self.models[model].it.together,
            apart: None,
            cluster: None,
        };
        let classes = (0..self.models.len()).map(class).collect();
        Problem { classes, clusters: Vec::new(), ..self.problem() }
    }

    /// The plan with the least that means of traces may be, and not with the most.
    pub(crate) fn sure(&self) -> Self {
        let mut plan = self.clone();
        for Named { it, .. } in &mut plan.models {
            if let Some(fitted) = &it.fitted {
                it.models.fill(fitted.fit.sure());
            }
        }
        plan
    }

    /// The place of a class of hours.
    ///
    /// # Errors
    ///
    /// What may have been meant, if there is none of this name.
    pub fn period(&self, name: &str) -> Result<usize, String> {
        let known: Vec<&str> = self.periods.iter().map(|it| it.name.as_str()).collect();
        find("class of hours", name, &known)
    }

    /// The plan of one of its classes of hours alone.
    #[must_use]
    pub fn of_period(&self, period: usize) -> Self {
        let mut plan = self.clone();
        plan.periods = vec![self.periods[period].clone()];
        for kind in &mut plan.kinds {
            kind.limits.retain(|it| it.period == period);
            kind.limits.iter_mut().for_each(|it| it.period = 0);
        }
        for Named { it, .. } in &mut plan.models {
            it.models = vec![it.models.swap_remove(period)];
        }
        plan
    }

    /// The kinds that hosts are of, which are the types of [`problem`](Self::problem).
    pub(crate) fn kinds_of_hosts(&self) -> Vec<usize> {
        let mut kinds: Vec<usize> = self.hosts.iter().map(|(_, kind, _)| *kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// What a machine of a model is to each limit of each kind.
    fn loads(&self, model: usize, sources: &[Source], kinds: &[&Kind]) -> Vec<Vec<Source>> {
        let load = &self.models[model].it;
        let on = |kind: &Kind, limit: &Capacity| {
            sources[limit.period].map(|rate| load.on(kind, limit.carried, rate))
        };
        kinds.iter().map(|kind| kind.limits.iter().map(|it| on(kind, it)).collect()).collect()
    }

    /// What counts of the overload in each class of hours.
    fn counted(&self) -> Periods {
        let all: u32 = self.periods.iter().map(|it| it.it).sum();
        let share = |it: &Named<u32>| f64::from(it.it) / f64::from(all);
        match self.counts {
            Counts::Worst => Periods::Worst,
            Counts::Mean => Periods::Mean(self.periods.iter().map(share).collect()),
        }
    }

    /// Machines on hosts that could be bought: every kind, at its price.
    ///
    /// # Errors
    ///
    /// A type without a price.
    pub fn market(&self) -> Result<Problem, String> {
        if let Some(kind) = self.kinds.iter().find(|it| it.price.is_none()) {
            return Err(format!("type {} has no price: add one", kind.kind));
        }
        let kinds: Vec<usize> = (0..self.kinds.len()).collect();
        Ok(self.posed(&kinds, Vec::new(), |kind| kind.price.expect("each kind has a price")))
    }

    fn posed(&self, kinds: &[usize], hosts: Vec<Host>, cost: impl Fn(&Kind) -> u64) -> Problem {
        let kinds: Vec<&Kind> = kinds.iter().map(|kind| &self.kinds[*kind]).collect();
        let types = kinds.iter().map(|kind| HostType {
            cores: kind.cores - kind.switch_cores,
            memory: kind.memory,
            limits: kind
                .limits
                .iter()
                .map(|it| Limit { capacity: it.amount, period: it.period })
                .collect(),
            cost: cost(kind),
        });
        let sources: Vec<Vec<Source>> = self.models.iter().map(|it| it.it.sources()).collect();
        let classes = self.vms.iter().enumerate().map(|(group, Named { it, .. })| Class {
            count: it.count,
            cores: it.cores,
            memory: it.memory,
            loads: self.loads(it.model, &sources[it.model], &kinds),
            together: self.models[it.model].it.together,
            apart: it.apart.map(|domain| Apart { group, domain }),
            cluster: it.cluster,
        });
        Problem {
            goal: Goal { epsilon: self.epsilon, periods: self.counted() },
            types: types.collect(),
            hosts,
            classes: classes.collect(),
            clusters: self.clusters.iter().map(|(_, hose)| Cluster { hose: *hose }).collect(),
        }
    }

    /// How many machines have a model.
    pub fn machines_of(&self, model: usize) -> u64 {
        let of_it = self.vms.iter().filter(|it| it.it.model == model);
        of_it.map(|it| u64::from(it.it.count)).sum()
    }

    /// The machines of a host by their names.
    pub fn named(&self, pattern: &Pattern) -> BTreeMap<String, u32> {
        pattern.iter().map(|(class, count)| (self.vms[class].name.clone(), count)).collect()
    }

    /// Hosts that are alike and have the same machines, those in use, by their first host.
    pub fn alike(&self, placement: &Placement) -> Vec<Alike> {
        let mut places: BTreeMap<(usize, &Pattern), usize> = BTreeMap::new();
        let mut alike: Vec<Alike> = Vec::new();
        for (host, pattern) in placement.hosts.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            let place = *places.entry((self.hosts[host].1, pattern)).or_insert_with(|| {
                alike.push(Alike { hosts: Vec::new(), pattern: pattern.clone() });
                alike.len() - 1
            });
            alike[place].hosts.push(host);
        }
        alike
    }

    /// The names of hosts.
    pub fn names(&self, hosts: &[usize]) -> Vec<String> {
        hosts.iter().map(|host| self.hosts[*host].0.clone()).collect()
    }
}

/// Hosts that are alike.
#[derive(Clone, Debug)]
pub struct Alike {
    /// Their places.
    pub hosts: Vec<usize>,
    /// What each of them has.
    pub pattern: Pattern,
}

pub(crate) fn find(what: &str, name: &str, known: &[&str]) -> Result<usize, String> {
    known
        .iter()
        .position(|it| *it == name)
        .ok_or_else(|| format!("no {what} has this name: {}", model::mistake::unknown(name, known)))
}
