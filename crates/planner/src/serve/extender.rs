//! The messages of Kubernetes' scheduler extenders (`k8s.io/kube-scheduler/extender/v1`).
//!
//! Its types have no tags: names are Go's, with capitals, when they are written, and read whatever
//! their case. What is inside a pod and a node has tags, so it is written in one way only.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::bounded::{self, MOST_NAMES, Names};
use super::quantity::Quantity;
use super::refusals::Refusals;
use super::scheduler::{Machine, Scheduler};
use super::word::Word;

/// More containers than this are no pod's.
const MOST_CONTAINERS: usize = 1000;

/// What the scheduler asks: a pod, and the nodes that it may go to.
#[derive(Debug, Default)]
pub struct Args {
    pod: Pod,
    nodes: Option<NodeList>,
    node_names: Option<Names>,
}

/// `k8s.io/api/core/v1.NodeList`; each node is given back as it came.
#[derive(Debug)]
struct NodeList {
    names: Vec<String>,
    items: Vec<Box<RawValue>>,
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Args;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with `Pod`, and `NodeNames` or `Nodes`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
                let mut pod: Option<Pod> = None;
                let mut args = Args::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.to_ascii_lowercase().as_str() {
                        "pod" => pod = map.next_value()?,
                        "nodes" => args.nodes = map.next_value()?,
                        "nodenames" => args.node_names = map.next_value()?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                args.pod = pod.ok_or_else(|| de::Error::missing_field("Pod"))?;
                if args.nodes.is_none() && args.node_names.is_none() {
                    return Err(de::Error::custom("one of `NodeNames` and `Nodes` is needed"));
                }
                Ok(args)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for NodeList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        struct List {
            #[serde(default)]
            items: Option<Items>,
        }
        struct Items(NodeList);
        impl<'de> Deserialize<'de> for Items {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut list = NodeList { names: Vec::new(), items: Vec::new() };
                bounded::each(deserializer, "nodes", MOST_NAMES, |item: Box<RawValue>| {
                    let node: Node = serde_json::from_str(item.get())?;
                    list.names.push(node.metadata.name.0);
                    list.items.push(item);
                    Ok::<_, serde_json::Error>(())
                })?;
                Ok(Self(list))
            }
        }
        #[derive(serde::Deserialize)]
        struct Node {
            metadata: Named,
        }
        #[derive(serde::Deserialize)]
        struct Named {
            name: Word,
        }
        let none = || Items(Self { names: Vec::new(), items: Vec::new() });
        Ok(List::deserialize(deserializer)?.items.unwrap_or_else(none).0)
    }
}

/// What is looked at of `k8s.io/api/core/v1.Pod`.
#[derive(serde::Deserialize, Debug, Default)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
}

#[derive(serde::Deserialize, Debug, Default)]
struct Metadata {
    #[serde(default)]
    name: Word,
    #[serde(default)]
    namespace: Word,
    #[serde(default)]
    uid: Word,
    #[serde(default)]
    annotations: Option<Annotations>,
}

/// What a pod says of its model. Its other annotations are passed over.
#[derive(serde::Deserialize, Debug, Default)]
struct Annotations {
    #[serde(default, rename = "zovn/model")]
    model: Option<String>,
}

#[derive(serde::Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Option<Running>,
    init_containers: Option<Starting>,
    overhead: Option<Requests>,
    /// Of the whole pod (KEP-2837): in place of its containers'.
    resources: Option<Resources>,
}

#[derive(serde::Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    resources: Resources,
    /// `Always` for one that is started first and stays (KEP-753).
    restart_policy: Option<String>,
}

#[derive(serde::Deserialize, Debug, Default)]
#[serde(default)]
struct Resources {
    requests: Option<Requests>,
}

impl Resources {
    fn needs(&self) -> Needs {
        self.requests.as_ref().map_or_else(Needs::default, Requests::needs)
    }
}

#[derive(serde::Deserialize, Clone, Copy, Debug, Default)]
#[serde(default)]
struct Requests {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
}

impl Requests {
    fn needs(&self) -> Needs {
        Needs {
            milli_cores: self.cpu.map_or(0, Quantity::milli),
            memory: self.memory.map_or(0, Quantity::ones),
        }
    }
}

/// Thousandths of cores, and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    milli_cores: u64,
    memory: u64,
}

impl Needs {
    /// Of each its own.
    fn by(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            milli_cores: of(self.milli_cores, other.milli_cores),
            memory: of(self.memory, other.memory),
        }
    }

    fn and(self, other: Self) -> Self {
        self.by(other, u64::saturating_add)
    }

    fn or(self, other: Self) -> Self {
        self.by(other, u64::max)
    }
}

/// What containers need that run together: their sum, as they are read.
#[derive(Debug, Default)]
struct Running(Needs);

/// What containers need that run before others.
#[derive(Debug, Default)]
struct Starting {
    /// Those that stay.
    stay: Needs,
    /// The most at any time.
    most: Needs,
}

impl<'de> Deserialize<'de> for Running {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut all = Self::default();
        bounded::each(deserializer, "containers", MOST_CONTAINERS, |it: Container| {
            all.0 = all.0.and(it.resources.needs());
            Ok::<_, Infallible>(())
        })?;
        Ok(all)
    }
}

impl<'de> Deserialize<'de> for Starting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut all = Self::default();
        bounded::each(deserializer, "containers", MOST_CONTAINERS, |it: Container| {
            let with_it = all.stay.and(it.resources.needs());
            if it.restart_policy.as_deref() == Some("Always") {
                all.stay = with_it;
            }
            all.most = all.most.or(with_it);
            Ok::<_, Infallible>(())
        })?;
        Ok(all)
    }
}

impl Spec {
    /// What the pod needs, as the scheduler counts it: the sum of its containers, or the most that
    /// starting it takes at any time, whichever is more.
    fn needs(&self) -> Needs {
        let running = self.containers.as_ref().map_or_else(Needs::default, |it| it.0);
        let of_containers = match &self.init_containers {
            Some(starting) => running.and(starting.stay).or(starting.most),
            None => running,
        };
        let of_pod = self.resources.as_ref().map_or_else(Needs::default, Resources::needs);
        let pod = of_pod.by(of_containers, |pod, sum| if pod > 0 { pod } else { sum });
        pod.and(self.overhead.as_ref().map_or_else(Needs::default, Requests::needs))
    }
}

impl Args {
    fn names(&self) -> &[String] {
        match (&self.node_names, &self.nodes) {
            (Some(names), _) => &names.0,
            (None, Some(nodes)) => &nodes.names,
            (None, None) => &[],
        }
    }

    /// The model that the pod says it has.
    pub fn model(&self) -> Option<&str> {
        self.pod.metadata.annotations.as_ref().and_then(|it| it.model.as_deref())
    }

    fn machine(&self, scheduler: &Scheduler<'_>) -> Machine {
        let Metadata { name, namespace, uid, .. } = &self.pod.metadata;
        let key = match uid.0.as_str() {
            "" => format!("pod {}/{}", namespace.0, name.0),
            uid => uid.to_owned(),
        };
        let Needs { milli_cores, memory } = self.pod.spec.needs();
        Machine { key, model: scheduler.model(self.model()), milli_cores, memory }
    }
}

/// `ExtenderFilterResult`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult {
    nodes: Option<Items>,
    node_names: Option<Vec<String>>,
    failed_nodes: BTreeMap<String, String>,
    failed_and_unresolvable_nodes: BTreeMap<String, String>,
    error: &'static str,
}

#[derive(Serialize)]
struct Items {
    metadata: BTreeMap<(), ()>,
    items: Vec<Box<RawValue>>,
}

/// `HostPriority`.
#[derive(Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostPriority {
    host: String,
    score: i64,
}

/// `MaxExtenderPriority`.
const MOST: f64 = 10.0;

/// Which nodes take the pod, and why others do not.
pub fn filter(
    args: Args,
    now: Duration,
    scheduler: &mut Scheduler<'_>,
    refusals: &mut Refusals,
) -> FilterResult {
    let machine = args.machine(scheduler);
    scheduler.ask(now, &machine.key);
    let (mut failed, mut unresolvable) = (BTreeMap::new(), BTreeMap::new());
    let mut passes = Vec::with_capacity(args.names().len());
    for name in args.names() {
        let judged = scheduler.judge(&machine, name);
        passes.push(judged.is_ok());
        let Err(refused) = judged else { continue };
        refusals.add(&refused);
        // Taking other pods away may help where an agent is read, which sees them go. Elsewhere
        // what runs is what the plan's files say.
        let may_help = scheduler.may_make_room(&machine, name);
        let refusing = if may_help { &mut failed } else { &mut unresolvable };
        refusing.insert(name.clone(), refused.to_string());
    }
    // If one node is left, the scheduler does not ask which is best.
    let mut left = args.names().iter().zip(&passes).filter(|(_, passes)| **passes);
    if let (Some((only, _)), None) = (left.next(), left.next()) {
        scheduler.assume(now, &machine, only);
    }
    fn kept<T>(all: Vec<T>, passes: &[bool]) -> Vec<T> {
        all.into_iter().zip(passes).filter_map(|(it, passes)| passes.then_some(it)).collect()
    }
    let (node_names, nodes) = match (args.node_names, args.nodes) {
        (Some(names), _) => (Some(kept(names.0, &passes)), None),
        (None, nodes) => (None, nodes.map(|it| kept(it.items, &passes))),
    };
    FilterResult {
        nodes: nodes.map(|items| Items { metadata: BTreeMap::new(), items }),
        node_names,
        failed_nodes: failed,
        failed_and_unresolvable_nodes: unresolvable,
        error: "",
    }
}

/// How much each node is preferred; the pod is assumed to go to the best one. That one alone has
/// the highest score, as the scheduler picks any of those that have it.
pub fn prioritize(args: Args, now: Duration, scheduler: &mut Scheduler<'_>) -> Vec<HostPriority> {
    let machine = args.machine(scheduler);
    scheduler.ask(now, &machine.key);
    let mut best: Option<(f64, usize)> = None;
    let mut priorities = Vec::with_capacity(args.names().len());
    for (place, name) in args.names().iter().enumerate() {
        let weight = scheduler.judge(&machine, name);
        if let Ok(weight) = weight
            && best.is_none_or(|(most, _)| weight > most)
        {
            best = Some((weight, place));
        }
        let score = weight.map_or(0, |weight| (weight * MOST).round() as i64);
        priorities.push(HostPriority { host: name.clone(), score });
    }
    if let Some((_, best)) = best {
        let most = priorities[best].score.max(1);
        for it in &mut priorities {
            it.score = it.score.min(most - 1);
        }
        priorities[best].score = most;
        scheduler.assume(now, &machine, &args.names()[best]);
    }
    priorities
}
