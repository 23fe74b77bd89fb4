//! From files to a plan: names are looked up, and all faults told at once.

mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use demand::{FitSettings, Model, State};
use placement::{Domain, Pattern, Placement};
use serde::Deserialize;
use tree::{Node, NotYaml, Position, Value};

use crate::fault::{Fault, PlanError};
use crate::file::{self, Apart, Counts, Entries, File, Goal, HostType, Least, Rates, Speed};
use crate::fitted::{Fitted, fit_trace, taken};
use crate::misfits;
use crate::plan::{Capacity, Carried, Kind, Load, Machines, Named, Plan, WHOLE_TIME};
use crate::profile::{AROUND_FRAMES, Costs};

/// The cores of a switch that is profiled.
const PROFILED_CORES: u32 = 1;

/// Hours of a week.
const WEEK: u32 = 168;

/// More hosts than this of one entry are a mistake.
const MOST_HOSTS: u32 = 1_000_000;

/// A file that was read.
struct Read {
    name: String,
    node: Node,
    file: File,
}

impl Plan {
    /// Reads files as one plan, and the traces that they name.
    ///
    /// # Errors
    ///
    /// The file that cannot be read, or all that is wrong with what they say.
    pub fn load(paths: &[PathBuf]) -> Result<Self, PlanError> {
        let mut texts = Vec::new();
        for path in paths {
            let text = fs::read_to_string(path)
                .map_err(|source| PlanError::Read { path: path.clone(), source })?;
            texts.push((path.as_path(), text));
        }
        plan(&texts).map_err(PlanError::Faults)
    }

    /// Reads a text as a plan; traces are found beside the file of this name.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn of_text(name: &Path, text: &str) -> Result<Self, PlanError> {
        plan(&[(name, text.to_owned())]).map_err(PlanError::Faults)
    }
}

/// Reads texts as one plan.
fn plan(texts: &[(&Path, String)]) -> Result<Plan, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut files = Vec::new();
    for (path, text) in texts {
        let file = read(&path.display().to_string(), text, &mut faults);
        files.extend(file.map(|it| (*path, it)));
    }
    if files.len() < texts.len() {
        // What a file that is no YAML would have said is not missing.
        return Err(faults);
    }
    let mut resolver = Resolver { files: &files, faults };
    let plan = resolver.plan();
    let mut faults = resolver.faults;
    if faults.is_empty() {
        return Ok(plan);
    }
    let place = |file: &str| files.iter().position(|(_, it)| it.name == file);
    faults.sort_by_key(|it| (place(&it.file), it.line, it.column));
    Err(faults)
}

/// Reads a file, or tells why it is no YAML.
fn read(name: &str, text: &str, faults: &mut Vec<Fault>) -> Option<Read> {
    let documents = match tree::documents(text) {
        Ok(documents) => documents,
        Err(NotYaml { at, message }) => {
            faults.push(Fault::new(name, at, "", message));
            return None;
        }
    };
    if let Some(second) = documents.get(1) {
        let message = "a plan is one document: leave out what is behind `---`";
        faults.push(Fault::new(name, second.at, "", message.into()));
    }
    let begin = Position { line: 1, column: 1 };
    let empty = Node { at: begin, value: Value::Map(Vec::new()) };
    let node = documents.into_iter().next().unwrap_or(empty);
    let (file, misfits) = misfits::read(&node, |node| File::deserialize(node));
    for misfit in misfits {
        let message = model::mistake::plain(&misfit.message);
        faults.push(Fault::new(name, misfit.at.unwrap_or(node.at), &misfit.path(), message));
    }
    Some(Read { name: name.to_owned(), node, file: file.unwrap_or_default() })
}

struct Resolver<'a> {
    files: &'a [(&'a Path, Read)],
    faults: Vec<Fault>,
}

/// An entry of a section: its file, its path in it, its name, and what it is.
struct Entry<'a, T> {
    file: usize,
    path: String,
    name: &'a str,
    it: &'a T,
}

/// Names of a section and their places. A name whose entry is wrong itself has none.
struct Places<'a> {
    what: &'static str,
    places: BTreeMap<&'a str, usize>,
    written: BTreeSet<&'a str>,
}

impl<'a> Resolver<'a> {
    fn complain(&mut self, file: usize, path: &str, message: impl Into<String>) {
        let (_, read) = &self.files[file];
        self.faults.push(Fault::new(&read.name, read.node.locate(path), path, message.into()));
    }

    /// A section of all files, and its names.
    fn section<T>(
        &mut self,
        key: &'static str,
        what: &'static str,
        of: impl Fn(&'a File) -> &'a Entries<T>,
    ) -> (Vec<Entry<'a, T>>, Places<'a>) {
        let files = self.files;
        let mut entries: Vec<Entry<'a, T>> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut written = BTreeSet::new();
        for (file, (_, read)) in files.iter().enumerate() {
            if let Some(Value::Map(nodes)) = read.node.get(key).map(|it| &it.value) {
                written.extend(nodes.iter().map(|(key, _)| key.text.as_str()));
            }
            for (name, it) in &of(&read.file).0 {
                let path = format!("/{key}/{}", tree::escape(name));
                if let Some(first) = places.get(name.as_str()) {
                    let other = &files[entries[*first].file].1.name;
                    self.complain(file, &path, format!("{other} has `{name}`, too: keep one"));
                    continue;
                }
                places.insert(name.as_str(), entries.len());
                entries.push(Entry { file, path, name, it });
            }
        }
        (entries, Places { what, places, written })
    }

    /// The place of a name, which is told of if there is none.
    fn look_up(
        &mut self,
        places: &Places<'_>,
        name: &str,
        file: usize,
        path: &str,
    ) -> Option<usize> {
        let found = places.places.get(name).copied();
        if found.is_none() && !places.written.contains(name) {
            let known: Vec<&str> = places.written.iter().copied().collect();
            let what = places.what;
            let message = match known[..] {
                [] => format!("there is no {what} `{name}`, nor any other: declare it"),
                _ => format!("no {what} has this name: {}", model::mistake::unknown(name, &known)),
            };
            self.complain(file, path, message);
        }
        found
    }

    fn plan(&mut self) -> Plan {
        let Goal { epsilon, least, periods: counts } = self.goal();
        let (periods, period_places) = self.section("periods", "class of hours", |it| &it.periods);
        let (types, type_places) = self.section("types", "type", |it| &it.types);
        let (hosts, _) = self.section("hosts", "host", |it| &it.hosts);
        let (models, model_places) = self.section("models", "model", |it| &it.models);
        let (vms, vm_places) = self.section("vms", "machine", |it| &it.vms);
        let (clusters, cluster_places) = self.section("clusters", "cluster", |it| &it.clusters);

        self.racks(&hosts, &vms, &cluster_places);
        let periods = self.periods(&periods);
        let mut kinds = Vec::new();
        // Where each type's kinds begin.
        let mut first_kinds = Vec::new();
        for entry in &types {
            first_kinds.push(kinds.len());
            kinds.extend(self.kinds(entry, least, &periods));
        }
        first_kinds.push(kinds.len());
        let hosts = self.hosts(&hosts, &type_places, &first_kinds, &kinds);
        let mut groups = BTreeMap::new();
        let models: Vec<_> = models
            .iter()
            .map(|it| self.model(it, epsilon, &periods, &period_places, &mut groups))
            .collect();
        let vms: Vec<_> =
            vms.iter().map(|it| self.machines(it, &model_places, &cluster_places)).collect();
        let placement = self.placement(&hosts, &vms, &vm_places);
        let clusters =
            clusters.iter().map(|it| (it.name.to_owned(), it.it.hose.bits_per_sec())).collect();
        let serve = self.serve(&hosts, &model_places, &vm_places);
        Plan {
            epsilon,
            counts,
            periods,
            least,
            kinds,
            hosts,
            models,
            vms,
            clusters,
            placement,
            serve,
        }
    }

    fn goal(&mut self) -> Goal {
        let mut goals = self
            .files
            .iter()
            .enumerate()
            .filter_map(|(file, (_, read))| read.file.goal.clone().map(|goal| (file, goal)));
        let first = goals.next();
        let second = goals.next();
        if let Some((file, _)) = second {
            self.complain(file, "/goal", "a plan has one goal: take this out");
        }
        match first {
            Some((file, goal)) => {
                if !(goal.epsilon > 0.0 && goal.epsilon < 1.0) {
                    let message = "a share of time lies between 0 and 1: write one as 0.001";
                    self.complain(file, "/goal/epsilon", message);
                }
                goal
            }
            None => {
                if self.files.iter().all(|(_, it)| it.node.get("goal").is_none()) {
                    let message = "`goal` is missing: add `goal: {epsilon: 0.001}`";
                    self.complain(0, "", message);
                }
                Goal { epsilon: 0.001, least: Least::Hosts, periods: Counts::Worst }
            }
        }
    }

    /// Classes of hours; one of all hours if none is written.
    fn periods(&mut self, entries: &[Entry<'_, u32>]) -> Vec<Named<u32>> {
        let all: u64 = entries.iter().map(|it| u64::from(*it.it)).sum();
        match entries.last() {
            None => return vec![Named { name: "all hours".into(), it: WEEK }],
            Some(last) if all != u64::from(WEEK) => {
                let message = format!("a week has {WEEK} hours, and these are {all}");
                self.complain(last.file, "/periods", message);
            }
            Some(_) => {}
        }
        for Entry { file, path, .. } in entries.iter().filter(|it| *it.it == 0) {
            self.complain(*file, path, "a class of hours has an hour at least");
        }
        entries.iter().map(|it| Named { name: it.name.to_owned(), it: *it.it }).collect()
    }

    /// A type with each number of cores that its switch may have.
    fn kinds(
        &mut self,
        entry: &Entry<'_, HostType>,
        least: Least,
        periods: &[Named<u32>],
    ) -> Vec<Kind> {
        let Entry { file, path, name, it } = entry;
        match it.price {
            None if least == Least::Price => {
                self.complain(*file, path, "`price` is missing: the goal is the least price");
            }
            Some(0) => self.complain(*file, &format!("{path}/price"), "a price is above zero"),
            _ => {}
        }
        let mut kinds: Vec<Kind> = Vec::new();
        let card = it.nic.into_iter().flat_map(|nic| {
            [Carried::Out, Carried::In].map(|carried| (carried, nic.bits_per_sec()))
        });
        let kind = |name: String, switch_cores, overhead, tunnels, limits: Vec<_>, costs| Kind {
            name,
            kind: entry.name.to_owned(),
            switch_cores,
            cores: it.cores,
            memory: it.memory.0,
            overhead,
            price: it.price,
            watts: it.watts,
            tunnels,
            limits: in_each(periods, &limits),
            costs,
        };
        for (place, switch) in it.switch.iter().enumerate() {
            let path = format!("{path}/switch/{place}");
            let bits = switch.carries.map(|it| (Carried::Bits, it.bits_per_sec()));
            let frames = switch.frames.map(|it| (Carried::Frames, it));
            let time = switch.profile.as_ref().map(|_| (Carried::Time, WHOLE_TIME));
            let limits = bits.into_iter().chain(frames).chain(time).chain(card.clone()).collect();
            if bits.is_none() && frames.is_none() && time.is_none() {
                let message = "say what this switch carries: `carries: 10gbit`, `frames: 1000000` or \
                               `profile`";
                self.complain(*file, &path, message);
            }
            let costs = self.costs(*file, &path, switch);
            let overhead = self.overhead(*file, &path, it, costs.as_ref());
            if switch.cores > it.cores {
                let message = format!("the host has {} cores: write fewer", it.cores);
                self.complain(*file, &format!("{path}/cores"), message);
                continue;
            }
            if kinds.iter().any(|it| it.switch_cores == switch.cores) {
                let message = "a switch of as many cores is above: keep one";
                self.complain(*file, &path, message);
                continue;
            }
            let name = match it.switch.len() {
                1 => (*name).to_owned(),
                _ => format!("{name} with {} switch cores", switch.cores),
            };
            kinds.push(kind(name, switch.cores, overhead, switch.tunnels, limits, costs));
        }
        if it.switch.is_empty() {
            if it.nic.is_none() {
                let message = "nothing limits this host's network: add `switch` or `nic`";
                self.complain(*file, path, message);
            }
            let overhead = self.overhead(*file, path, it, None);
            kinds.push(kind((*name).to_owned(), 0, overhead, None, card.collect(), None));
        }
        kinds
    }

    /// What each frame takes on the wire beside itself: what is said, or what the tunnel of a
    /// profile puts around it.
    fn overhead(&mut self, file: usize, path: &str, it: &HostType, costs: Option<&Costs>) -> u64 {
        if let Some(overhead) = it.overhead {
            return overhead.0;
        }
        let outer = costs.map_or(Some(0), |it| it.measured.outer());
        if let (None, Some(_), Some(costs)) = (outer, it.nic, costs) {
            let tunnel = &costs.measured.tunnel;
            let message = format!(
                "what `{tunnel}` puts around frames is not known here: add `overhead` to the type, \
                 24b and the tunnel's headers"
            );
            self.complain(file, &format!("{path}/profile/tunnel"), message);
        }
        AROUND_FRAMES + outer.unwrap_or(0)
    }

    /// What frames take of a switch's time, if a profile says it.
    fn costs(&mut self, file: usize, path: &str, switch: &file::Switch) -> Option<Costs> {
        let profile = switch.profile.as_ref()?;
        if switch.cores > PROFILED_CORES {
            let message = "profiles are of switches with one core: say what more carry by `carries` and \
                           `frames`";
            self.complain(file, &format!("{path}/cores"), message);
            return None;
        }
        let beside = self.files[file].0.parent().unwrap_or(Path::new(""));
        let read =
            Costs::read(&beside.join(&profile.file), &profile.switch, profile.tunnel.as_deref());
        read.map_err(|error| {
            self.complain(file, &format!("{path}/profile{}", error.field()), error.to_string());
        })
        .ok()
    }

    fn hosts(
        &mut self,
        entries: &[Entry<'_, file::Hosts>],
        types: &Places<'_>,
        first_kinds: &[usize],
        kinds: &[Kind],
    ) -> Vec<(String, usize, usize)> {
        let mut hosts: Vec<(String, usize, usize)> = Vec::new();
        let mut racks: BTreeMap<&str, usize> = BTreeMap::new();
        for Entry { file, path, name, it } in entries {
            let Some(place) = self.look_up(types, &it.kind, *file, &format!("{path}/type")) else {
                continue;
            };
            let choices = first_kinds[place]..first_kinds[place + 1];
            let kind = match it.switch_cores {
                None => Some(choices.start),
                Some(cores) => choices.clone().find(|kind| kinds[*kind].switch_cores == cores),
            };
            let Some(kind) = kind.filter(|kind| choices.contains(kind)) else {
                if !choices.is_empty() {
                    let known: Vec<_> =
                        choices.map(|kind| kinds[kind].switch_cores.to_string()).collect();
                    let message = format!("the type's switch has {} cores", known.join(" or "));
                    self.complain(*file, &format!("{path}/switch_cores"), message);
                }
                continue;
            };
            if it.count.is_some_and(|count| !(1..=MOST_HOSTS).contains(&count)) {
                let message = format!("write a number from 1 to {MOST_HOSTS}");
                self.complain(*file, &format!("{path}/count"), message);
                continue;
            }
            let next = racks.len();
            let rack = *racks.entry(it.rack.as_deref().unwrap_or_default()).or_insert(next);
            match it.count {
                None => hosts.push(((*name).to_owned(), kind, rack)),
                Some(count) => {
                    hosts
                        .extend((1..=count).map(|number| (format!("{name}-{number}"), kind, rack)));
                }
            }
        }
        let mut seen = BTreeSet::new();
        if let Some((twice, ..)) = hosts.iter().find(|(name, ..)| !seen.insert(name.as_str())) {
            let entry = entries.last().expect("there are hosts");
            let message = format!("two hosts are called `{twice}`: change a name");
            self.complain(entry.file, "/hosts", message);
        }
        hosts
    }

    /// Hosts say their rack where something depends on it: all that do not would be in one. Nothing
    /// depends on it by a cluster that is not declared, which is a fault by itself.
    fn racks(
        &mut self,
        hosts: &[Entry<'_, file::Hosts>],
        vms: &[Entry<'_, file::Machines>],
        clusters: &Places<'_>,
    ) {
        let apart = vms.iter().find(|vm| matches!(vm.it.apart, Some(Apart::Rack)));
        let mut named = vms.iter().filter_map(|vm| vm.it.cluster.as_ref());
        let cluster = named.find(|it| clusters.written.contains(it.as_str()));
        let why = match (apart, cluster) {
            (Some(vm), _) => format!("`{}` is to be apart by racks", vm.name),
            (None, Some(cluster)) => {
                format!("what cluster `{cluster}` may send between racks depends on it")
            }
            (None, None) => return,
        };
        for Entry { file, path, .. } in hosts.iter().filter(|host| host.it.rack.is_none()) {
            self.complain(*file, path, format!("`rack` is missing: {why}"));
        }
    }

    fn model(
        &mut self,
        entry: &Entry<'_, file::Model>,
        epsilon: f64,
        periods: &[Named<u32>],
        places: &Places<'_>,
        groups: &mut BTreeMap<String, usize>,
    ) -> Named<Load> {
        let Entry { file, path, name, it } = entry;
        for (field, share) in [("sends", it.sends), ("remote", Some(it.remote))] {
            if share.is_some_and(|it| !(0.0..=1.0).contains(&it)) {
                self.complain(*file, &format!("{path}/{field}"), "a share lies from 0 to 1");
            }
        }
        if it.frame.is_some_and(|it| it.0 == 0) {
            self.complain(*file, &format!("{path}/frame"), "a frame is larger than that");
        }
        let fitted = match (&it.trace, self.faults.is_empty()) {
            // A plan with faults is not worth the time that fits take.
            (Some(trace), true) => self.fit(entry, trace, epsilon),
            _ => None,
        };
        let always = |model| vec![model; periods.len()];
        let nothing = Model::constant(0);
        let models = match (&fitted, &it.trace) {
            (Some(fitted), _) => always(fitted.fit.careful()),
            (None, Some(_)) => always(nothing),
            (None, None) if !it.periods.0.is_empty() => self.by_period(entry, periods, places),
            (None, None) => always(self.stated(*file, path, &it.always()).unwrap_or(nothing)),
        };
        let next = groups.len();
        let together = it.together.clone().map(|group| *groups.entry(group).or_insert(next));
        let frame = it.frame.map(|it| it.0).or(fitted.as_ref().and_then(|it| it.frame));
        let sends = it.sends.or(fitted.as_ref().and_then(|it| it.sends));
        let load = Load {
            models,
            fitted,
            taken: taken(frame, sends),
            frame: frame.unwrap_or(file::FULL_FRAME),
            sends: sends.unwrap_or(0.5),
            remote: it.remote,
            together,
        };
        Named { name: (*name).to_owned(), it: load }
    }

    fn fit(
        &mut self,
        entry: &Entry<'_, file::Model>,
        trace: &Path,
        epsilon: f64,
    ) -> Option<Fitted> {
        let Entry { file, path, it, .. } = entry;
        if !it.always().is_empty() || !it.periods.0.is_empty() {
            let message = "a trace says the rates: take one of both out";
            self.complain(*file, &format!("{path}/trace"), message);
            return None;
        }
        let beside = self.files[*file].0.parent().unwrap_or(Path::new(""));
        let settings = FitSettings { epsilon, ..FitSettings::default() };
        match fit_trace(&beside.join(trace), &it.columns, &settings) {
            Ok(fitted) => Some(fitted),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|it| format!(": {it}"));
                let message = format!("{error}{}", cause.unwrap_or_default());
                self.complain(*file, &format!("{path}/trace"), message);
                None
            }
        }
    }

    /// The models of an entry that has one for each class of hours.
    fn by_period(
        &mut self,
        entry: &Entry<'_, file::Model>,
        periods: &[Named<u32>],
        places: &Places<'_>,
    ) -> Vec<Model> {
        let Entry { file, path, name, it } = entry;
        let path = format!("{path}/periods");
        if !it.always().is_empty() {
            let message = "classes of hours say the rates: take one of both out";
            self.complain(*file, &path, message);
        }
        let mut models: Vec<Option<Model>> = vec![None; periods.len()];
        for (name, rates) in &it.periods.0 {
            let path = format!("{path}/{}", tree::escape(name));
            let stated = self.stated(*file, &path, rates);
            if let Some(place) = self.look_up(places, name, *file, &path) {
                models[place] = Some(stated.unwrap_or_else(|| Model::constant(0)));
            }
        }
        // What does not fit is told already.
        let node = &self.files[*file].1.node;
        let written = node.get("models").and_then(|it| it.get(name)?.get("periods"));
        let is_told = |period: &str| written.is_some_and(|it| it.get(period).is_some());
        let is_whole = places.written.len() == periods.len();
        let missing: Vec<_> = periods
            .iter()
            .zip(&models)
            .filter(|(period, it)| is_whole && it.is_none() && !is_told(&period.name))
            .collect();
        for (period, _) in missing {
            let message = format!("`{}` is missing: say what is asked for then", period.name);
            self.complain(*file, &path, message);
        }
        models.into_iter().map(|it| it.unwrap_or_else(|| Model::constant(0))).collect()
    }

    /// A model that is written out.
    fn stated(&mut self, file: usize, path: &str, it: &Rates) -> Option<Model> {
        let model = match it {
            Rates { rate: Some(Speed(rate)), on: None, rates: None, .. } => {
                return Some(Model::constant(*rate));
            }
            Rates {
                rate: None,
                on: Some(Speed(on)),
                on_for: Some(on_for),
                off_for: Some(off_for),
                rates: None,
                ..
            } => Model::on_off(*on, *on_for, *off_for),
            Rates {
                rate: None,
                on: None,
                rates: Some(rates),
                hold: Some(hold),
                jump: Some(jump),
                ..
            } => {
                if hold.len() != rates.len() {
                    let message = format!("{} rates need as many times", rates.len());
                    self.complain(file, &format!("{path}/hold"), message);
                    return None;
                }
                let states = rates.iter().zip(hold);
                let states = states.map(|(rate, hold)| State { rate: rate.0, hold: *hold });
                Model::new(states.collect(), jump)
            }
            _ => {
                let message = "a model is one of: `rate`; `on`, `on_for` and `off_for`; `rates`, \
                               `hold` and `jump`; `trace`; `periods` with one of the first three";
                self.complain(file, path, message);
                return None;
            }
        };
        model.map_err(|error| self.complain(file, path, error.to_string())).ok()
    }

    fn machines(
        &mut self,
        entry: &Entry<'_, file::Machines>,
        models: &Places<'_>,
        clusters: &Places<'_>,
    ) -> Named<Machines> {
        let Entry { file, path, name, it } = entry;
        let model = self.look_up(models, &it.model, *file, &format!("{path}/model"));
        let cluster = it
            .cluster
            .as_ref()
            .and_then(|cluster| self.look_up(clusters, cluster, *file, &format!("{path}/cluster")));
        let apart = it.apart.map(|apart| match apart {
            Apart::Host => Domain::Host,
            Apart::Rack => Domain::Rack,
        });
        let machines = Machines {
            count: it.count,
            cores: it.cores,
            memory: it.memory.0,
            model: model.unwrap_or(0),
            apart,
            cluster,
            dirty: it.dirty,
        };
        Named { name: (*name).to_owned(), it: machines }
    }

    fn placement(
        &mut self,
        hosts: &[(String, usize, usize)],
        vms: &[Named<Machines>],
        places: &Places<'_>,
    ) -> Placement {
        let mut placement = Placement { hosts: vec![Pattern::default(); hosts.len()] };
        let mut left: Vec<u32> = vms.iter().map(|it| it.it.count).collect();
        let known: Vec<&str> = hosts.iter().map(|(name, ..)| name.as_str()).collect();
        let by_name: BTreeMap<&str, usize> =
            known.iter().enumerate().map(|(place, name)| (*name, place)).collect();
        let (entries, _) = self.section("placement", "host", |it| &it.placement);
        for Entry { file, path, name, it } in entries {
            let host = by_name.get(name).copied();
            if host.is_none() {
                let message = model::mistake::unknown(name, &known);
                self.complain(file, &path, format!("no host has this name: {message}"));
            }
            for (vm, count) in &it.0 {
                let path = format!("{path}/{}", tree::escape(vm));
                let Some(class) = self.look_up(places, vm, file, &path) else { continue };
                match left[class].checked_sub(*count) {
                    Some(rest) => left[class] = rest,
                    None => {
                        let all = vms[class].it.count;
                        let message = format!("there are {all} of `{vm}`, and more are placed");
                        self.complain(file, &path, message);
                    }
                }
                if let Some(host) = host {
                    placement.hosts[host].add(class, *count);
                }
            }
        }
        placement
    }
}

/// What is carried, in each class of hours.
fn in_each(periods: &[Named<u32>], limits: &[(Carried, u64)]) -> Vec<Capacity> {
    let mut all = Vec::new();
    for (period, Named { name: hours, .. }) in periods.iter().enumerate() {
        all.extend(limits.iter().map(|(carried, amount)| {
            let name = match periods.len() {
                1 => carried.name().to_owned(),
                _ => format!("{}, {hours}", carried.name()),
            };
            Capacity { name, carried: *carried, amount: *amount, period }
        }));
    }
    all
}

#[cfg(test)]
mod tests;
