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
mod tests {
    use super::*;

    fn told(texts: &[(&str, &str)]) -> Vec<String> {
        let texts: Vec<_> =
            texts.iter().map(|(name, text)| (Path::new(*name), (*text).to_owned())).collect();
        plan(&texts).unwrap_err().iter().map(ToString::to_string).collect()
    }

    const RIGHT: &str = "\
goal: {epsilon: 0.001}
types:
  r: {cores: 8, memory: 32gib, nic: 10gbit, switch: [{carries: 2gbit}, {cores: 2, carries: 4gbit}]}
hosts:
  h: {type: r, count: 2, switch_cores: 2}
models:
  web: {on: 100mbit, on_for: 1s, off_for: 9s, frame: 1000b, sends: 0.25}
vms:
  web: {count: 3, model: web, cores: 2, memory: 4gib}
";

    #[test]
    fn names_become_places_and_words_amounts() {
        let plan = plan(&[(Path::new("p.yaml"), RIGHT.into())]).unwrap();
        let problem = plan.problem();
        assert_eq!(plan.hosts().collect::<Vec<_>>(), ["h-1", "h-2"]);
        // Of the type's two switches only the one that hosts have is a type of the problem.
        assert_eq!((problem.types.len(), problem.types[0].cores), (1, 6));
        let peaks: Vec<u64> = problem.classes[0].loads[0].iter().map(|it| it.peak()).collect();
        // A frame of 1000 bytes takes 24 more on the wire; a quarter is sent.
        assert_eq!(peaks, [100_000_000, 25_600_000, 76_800_000]);
        assert!((problem.classes[0].loads[0][0].mean() - 1e7).abs() < 1.0);
        assert_eq!(plan.market().unwrap_err(), "type r has no price: add one");
    }

    #[test]
    fn every_fault_is_told_at_once_with_its_place() {
        let text = "\
goal: {epsilon: 2}
types:
  r: {cores: 8, memory: 32gib, nic: 10, switch: [{cores: 9, carries: 2gbit}, {cores: 1}]}
  s: {cores: 8, memory: 1gib}
hosts:
  h: {type: t}
  i: {type: s, count: 0}
models:
  web: {on: 100mbit, on_for: 1s}
  db: {rates: [1mbit, 0], hold: [1s, 1s], jump: [[0, 1], [1, 1]]}
  far: {trace: none.csv}
vms:
  web: {count: 3, model: wbe, cores: 2, memory: 4gib, cluster: shop}
  db: {model: db, cores: 1, memory: 1gib, apart: room}
placement:
  h: {web: 4, db: 1, cache: 1}
";
        let told = told(&[("p.yaml", text)]);
        let expected = [
            "p.yaml:1:17: /goal/epsilon: a share of time lies between 0 and 1",
            "p.yaml:3:37: /types/r/nic: `10` is not a rate",
            "p.yaml:3:58: /types/r/switch/0/cores: the host has 8 cores",
            "p.yaml:3:78: /types/r/switch/1: say what this switch carries",
            "p.yaml:4:6: /types/s: nothing limits this host's network",
            "p.yaml:6:13: /hosts/h/type: no type has this name: `t` is not known here",
            "p.yaml:7:23: /hosts/i/count: write a number from 1",
            "p.yaml:9:8: /models/web: a model is one of",
            "p.yaml:10:7: /models/db: state 1 jumps to itself",
            "p.yaml:13:26: /vms/web/model: no model has this name",
            "p.yaml:13:64: /vms/web/cluster: there is no cluster `shop`, nor any other",
            "p.yaml:14:50: /vms/db/apart: `room` is not known here",
            "p.yaml:16:6: /placement/h: no host has this name",
            "p.yaml:16:12: /placement/h/web: there are 3 of `web`, and more are placed",
            "p.yaml:16:29: /placement/h/cache: no machine has this name",
        ];
        for (told, expected) in told.iter().zip(expected) {
            assert!(told.starts_with(expected), "{told}\nis not\n{expected}");
        }
        assert_eq!(told.len(), expected.len(), "{told:#?}");
    }

    const DIVIDED: &str = "\
goal: {epsilon: 0.001, periods: mean}
periods: {busy: 42, rest: 126}
types:
  r: {cores: 8, memory: 32gib, nic: 10gbit, switch: [{carries: 2gbit}]}
hosts:
  h: {type: r, count: 2}
models:
  web:
    periods:
      rest: {rate: 1mbit}
      busy: {on: 100mbit, on_for: 1s, off_for: 9s}
  db: {rate: 5mbit}
vms:
  web: {count: 3, model: web, cores: 2, memory: 4gib}
  db: {model: db, cores: 2, memory: 4gib}
";

    #[test]
    fn each_class_of_hours_has_limits_of_its_own() {
        let plan = plan(&[(Path::new("p.yaml"), DIVIDED.into())]).unwrap();
        let problem = plan.problem();
        assert_eq!(problem.goal.periods, placement::Periods::Mean(vec![0.25, 0.75]));
        let names: Vec<&str> = plan.kind_of(0).limits.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names[..4],
            ["switch, busy", "card, out, busy", "card, in, busy", "switch, rest"]
        );
        let periods: Vec<usize> = problem.types[0].limits.iter().map(|it| it.period).collect();
        assert_eq!(periods, [0, 0, 0, 1, 1, 1]);
        let peaks = |class: usize| {
            let loads = &problem.classes[class].loads[0];
            [loads[0].peak(), loads[3].peak()]
        };
        assert_eq!([peaks(0), peaks(1)], [[100_000_000, 1_000_000], [5_000_000; 2]]);
        let rest = plan.of_period(plan.period("rest").unwrap()).problem();
        assert_eq!(
            (rest.types[0].limits.len(), rest.classes[0].loads[0][0].peak()),
            (3, 1_000_000)
        );
        assert_eq!(rest.goal.periods, placement::Periods::Mean(vec![1.0]));
        assert!(plan.period("night").is_err());
    }

    #[test]
    fn classes_of_hours_that_do_not_fit_are_told() {
        for (one, other, expected) in [
            ("rest: 126", "rest: 100", "2:10: /periods: a week has 168 hours, and these are 142"),
            ("rest: 126", "rest: 126, never: 0", "/periods/never: a class of hours has an hour"),
            ("      rest: {rate: 1mbit}\n", "", "/models/web/periods: `rest` is missing: say what"),
            ("      rest: {", "      night: {", "no class of hours has this name: `night`"),
            ("periods: {busy: 42, rest: 126}\n", "", "there is no class of hours `rest`, nor any"),
            ("  web:\n", "  web:\n    rate: 1mbit\n", "classes of hours say the rates: take one"),
            ("  db: {", "  db: {periods: {busy: {}}, ", "classes of hours say the rates: take one"),
        ] {
            let told = told(&[("p.yaml", &DIVIDED.replacen(one, other, 1))]);
            assert!(told.iter().any(|it| it.contains(expected)), "{expected}: {told:#?}");
        }
        // What is wrong is not missing as well.
        let told = told(&[("p.yaml", &DIVIDED.replace("rest: {rate: 1mbit}", "rest: 1mbit"))]);
        assert!(told.len() == 1 && told[0].contains("/models/web/periods/rest: "), "{told:#?}");
    }

    #[test]
    fn hosts_say_their_rack_where_something_depends_on_it() {
        let apart = RIGHT.replace("memory: 4gib}", "memory: 4gib, apart: rack}");
        assert_eq!(
            told(&[("p.yaml", &apart)]),
            ["p.yaml:5:6: /hosts/h: `rack` is missing: `web` is to be apart by racks"]
        );
        let cluster = RIGHT.replace("memory: 4gib}", "memory: 4gib, cluster: shop}")
            + "clusters: {shop: {hose: 1gbit}}\n";
        let [fault] = &told(&[("p.yaml", &cluster)])[..] else { panic!("one fault") };
        assert!(fault.contains("`rack` is missing: what cluster `shop` may send"), "{fault}");
        for text in [apart, cluster] {
            let text = text.replace("count: 2, ", "count: 2, rack: a, ");
            plan(&[(Path::new("p.yaml"), text)]).unwrap();
        }
    }

    #[test]
    fn files_are_one_plan_and_a_name_is_in_one_of_them() {
        let more = "models:\n  web: {rate: 1mbit}\n  db: {rate: 1mbit}\n";
        let told = told(&[("p.yaml", RIGHT), ("m.yaml", more)]);
        assert_eq!(told, ["m.yaml:2:8: /models/web: p.yaml has `web`, too: keep one"]);
        assert_eq!(
            self::told(&[("p.yaml", "")]),
            ["p.yaml:1:1: `goal` is missing: add `goal: {epsilon: 0.001}`"]
        );
        assert_eq!(self::told(&[("p.yaml", "goal: [")]).len(), 1);
    }

    /// A profile of what 64 and 1514 bytes of zovn take within the host and by Geneve.
    fn profile(folder: &Path) {
        let entry = |way, tunnel, size, q1| {
            serde_json::json!({
                "switch": "zovn", "way": way, "tunnel": tunnel, "load": "frames", "offload": false,
                "size": size, "fps": {"q1": q1, "median": q1}, "bound_by": "switch", "at_least": false,
            })
        };
        let results = [
            entry("host", "none", 64, 200e3),
            entry("host", "none", 1514, 100e3),
            entry("link", "geneve", 64, 50e3),
            entry("link", "geneve", 1514, 25e3),
        ];
        let profile = serde_json::json!({"experiment": "profile", "results": results});
        fs::write(folder.join("host.json"), profile.to_string()).unwrap();
    }

    #[test]
    fn a_profile_is_a_limit_of_the_switchs_time() {
        let folder = tempfile::tempdir().unwrap();
        profile(folder.path());
        let file = folder.path().join("p.yaml");
        let switch = "{cores: 1, profile: {file: host.json, switch: zovn, tunnel: geneve}}";
        let text = RIGHT
            .replace("{carries: 2gbit}", switch)
            .replace("switch_cores: 2", "switch_cores: 1")
            .replace("frame: 1000b", "frame: 1514b, remote: 0.5");
        let plan = Plan::of_text(&file, &text).unwrap();
        let peaks = || -> Vec<u64> {
            plan.problem().classes[0].loads[0].iter().map(|it| it.peak()).collect()
        };
        // 100 Mb/s are 8257 frames of 1514 bytes; half take 10 µs, half 40 µs.
        let time = peaks()[0];
        assert_eq!(plan.problem().types[0].limits[0].capacity, WHOLE_TIME);
        assert!((time as f64 / (1e8 / 8.0 / 1514.0 * 25e-6 * 1e9) - 1.0).abs() < 1e-6, "{time}");
        let kind = plan.kind_of(0);
        assert_eq!((kind.limits[0].name.as_str(), kind.doubts().len()), ("switch, time", 0));
        assert_eq!(Carried::Time.amount(time as f64), "20.6 %");
    }

    #[test]
    fn frames_are_as_long_on_the_wire_as_the_profiles_tunnel_makes_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |switch: &str, tunnel: &str| {
            let entry = |way, tunnel: &str| {
                serde_json::json!({
                    "switch": switch, "way": way, "tunnel": tunnel, "load": "frames",
                    "offload": false, "size": 1000, "fps": {"q1": 1e6, "median": 1e6},
                    "bound_by": "switch", "at_least": false,
                })
            };
            let results = [entry("host", "none"), entry("link", tunnel)];
            let profile = serde_json::json!({"experiment": "profile", "results": results});
            fs::write(folder.path().join("host.json"), profile.to_string()).unwrap();
        };
        let plan = |switch: &str, tunnel: &str, overhead: &str| {
            write(switch, tunnel);
            let of_profile =
                format!("{{profile: {{file: host.json, switch: {switch}, tunnel: {tunnel}}}}}");
            let text = RIGHT
                .replace("{carries: 2gbit}, {cores: 2, carries: 4gbit}", &of_profile)
                .replace(", switch_cores: 2", "")
                .replace("nic: 10gbit", &format!("nic: 10gbit{overhead}"));
            Plan::of_text(&folder.path().join("p.yaml"), &text)
        };
        // 100 Mbit/s of frames of 1000 bytes, a quarter of which is sent.
        for (switch, tunnel, overhead, out) in [
            ("zovn", "geneve", "", 27_550_000),
            ("zovn-lossy", "geneve", "", 26_850_000),
            ("ovs", "vxlan", "", 26_850_000),
            ("ovs", "gre", "", 26_650_000),
            ("zovn", "none", "", 25_600_000),
            ("zovn", "geneve", ", overhead: 74b", 26_850_000),
            ("ovs", "stt", ", overhead: 98b", 27_450_000),
        ] {
            let problem = plan(switch, tunnel, overhead).unwrap().problem();
            let peaks: Vec<u64> = problem.classes[0].loads[0].iter().map(|it| it.peak()).collect();
            let [_, sent, received] = peaks[..] else { panic!("{peaks:?}") };
            let is_near = sent.abs_diff(out) <= 1 && received.abs_diff(3 * out) <= 1;
            assert!(is_near, "{switch} {tunnel}{overhead}: {peaks:?}");
        }
        let PlanError::Faults(faults) = plan("ovs", "stt", "").unwrap_err() else {
            panic!("the plan's file was read")
        };
        let [fault] = &faults[..] else { panic!("one fault: {faults:?}") };
        assert_eq!(fault.path, "/types/r/switch/0/profile/tunnel");
        assert!(fault.message.starts_with("what `stt` puts around frames is not known"), "{fault}");
    }

    #[test]
    fn a_profile_that_says_nothing_of_a_switch_has_its_place() {
        let folder = tempfile::tempdir().unwrap();
        profile(folder.path());
        let file = folder.path().join("p.yaml");
        let told = |switch: &str| {
            let text = RIGHT.replace("{carries: 2gbit}", switch);
            let PlanError::Faults(faults) = Plan::of_text(&file, &text).unwrap_err() else {
                panic!("the plan's file was read")
            };
            let [fault] = &faults[..] else { panic!("one fault: {faults:?}") };
            (fault.line, fault.path.clone(), fault.message.clone())
        };
        for (switch, field, word) in [
            ("{profile: {file: far.json, switch: zovn}}", "profile/file", "cannot read"),
            ("{profile: {file: host.json, switch: ovs}}", "profile/switch", "it has zovn"),
            ("{profile: {file: host.json, switch: zovn}}", "profile", "it has geneve"),
            (
                "{profile: {file: host.json, switch: zovn, tunnel: vxlan}}",
                "profile/tunnel",
                "it has geneve",
            ),
            (
                "{cores: 3, profile: {file: host.json, switch: zovn, tunnel: geneve}}",
                "cores",
                "one core",
            ),
        ] {
            let (line, path, message) = told(switch);
            assert_eq!((line, path), (3, format!("/types/r/switch/0/{field}")), "{message}");
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn a_trace_that_cannot_be_read_has_its_place() {
        let text = RIGHT.replace("on: 100mbit, on_for: 1s, off_for: 9s", "trace: none.csv");
        let told = told(&[("/nowhere/p.yaml", &text)]);
        let expected = "/nowhere/p.yaml:7:16: /models/web/trace: cannot read /nowhere/none.csv: ";
        assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
    }
}
