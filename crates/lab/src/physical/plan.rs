//! What a declared physical network comes to: its switches, each with its ports and ways, and the cables between them.

use std::collections::{BTreeMap, VecDeque};

use ::fabric::{Config, Place, PortConfig, Route};

use super::FabricSpec;
use crate::LabError;

/// Switches by number, and what leads from one to the other.
#[derive(Debug)]
pub(super) struct Plan {
    /// By switch.
    pub configs: Vec<Config>,
    /// By host, in the order of the ports that are declared.
    pub hosts: Vec<Place>,
    pub cables: Vec<[Place; 2]>,
    /// Every port's name, the hosts' first.
    pub names: Vec<(String, Place)>,
    /// By switch.
    switches: Vec<String>,
}

impl Plan {
    /// Numbers switches and ports, and finds the ways. `rules` is what all switches have in common.
    pub fn new(spec: &FabricSpec, rules: &Config) -> Result<Self, LabError> {
        let mut plan = Self {
            configs: Vec::new(),
            hosts: Vec::new(),
            cables: Vec::new(),
            names: Vec::new(),
            switches: Vec::new(),
        };
        let mut numbers = BTreeMap::<&str, usize>::new();
        let mut number = |plan: &mut Self, name| {
            *numbers.entry(name).or_insert_with(|| {
                let switch = plan.configs.len();
                // What one switch loses is no other's.
                let seed = rules.seed.wrapping_add(switch as u64);
                plan.configs.push(Config { seed, ..rules.clone() });
                plan.switches.push(name.to_owned());
                switch
            })
        };
        for port in &spec.ports {
            let switch = number(&mut plan, &port.switch);
            let place = plan.attach(switch, port.config());
            plan.hosts.push(place);
            plan.names.push((port.name.clone(), place));
        }
        let longest = spec.ports.iter().map(|port| port.longest()).max().unwrap_or(0);
        for trunk in &spec.trunks {
            let ends = trunk.between.each_ref().map(|name| {
                let switch = number(&mut plan, name);
                plan.attach(switch, trunk.config(longest))
            });
            let [one, other] = &trunk.between;
            plan.names.push((format!("{one}-{other}"), ends[0]));
            plan.names.push((format!("{other}-{one}"), ends[1]));
            plan.cables.push(ends);
        }
        // One switch alone learns where its hosts are.
        if plan.configs.len() > 1 {
            plan.find_ways(spec)?;
        }
        Ok(plan)
    }

    /// What a port is called.
    pub fn name(&self, place: Place) -> &str {
        self.names.iter().find(|(_, it)| *it == place).map_or("", |(name, _)| name)
    }

    fn attach(&mut self, switch: usize, port: PortConfig) -> Place {
        let ports = &mut self.configs[switch].ports;
        ports.push(port);
        Place { switch, port: ports.len() - 1 }
    }

    /// Tells each switch by which ports each host is reached: those of all shortest ways, through switches without hosts.
    fn find_ways(&mut self, spec: &FabricSpec) -> Result<(), LabError> {
        for (host, place) in spec.ports.iter().zip(&self.hosts) {
            let distances = self.distances(place.switch);
            for (switch, distance) in distances.iter().enumerate() {
                let ports: Vec<_> = match distance {
                    Some(0) => vec![place.port],
                    Some(distance) => {
                        let next = self.trunks(switch).filter(|(_, far)| {
                            distances[far.switch] == Some(distance - 1)
                                && (far.switch == place.switch || !self.has_hosts(far.switch))
                        });
                        next.map(|(near, _)| near.port).collect()
                    }
                    None => {
                        return Err(LabError::Fabric(format!(
                            "no way leads from switch `{}` to port `{}`: add a [[trunk]], and lead no way through a switch \
                             that has hosts",
                            self.switches[switch], host.name
                        )));
                    }
                };
                self.configs[switch].routes.push(Route { mac: host.mac, ports });
            }
        }
        Ok(())
    }

    /// How many cables are between each switch and this one.
    fn distances(&self, from: usize) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.configs.len()];
        distances[from] = Some(0);
        let mut next = VecDeque::from([(from, 0)]);
        while let Some((switch, distance)) = next.pop_front() {
            if switch != from && self.has_hosts(switch) {
                continue;
            }
            for (_, far) in self.trunks(switch) {
                if distances[far.switch].is_none() {
                    distances[far.switch] = Some(distance + 1);
                    next.push_back((far.switch, distance + 1));
                }
            }
        }
        distances
    }

    /// A switch's ends of cables, each with the other end.
    fn trunks(&self, switch: usize) -> impl Iterator<Item = (Place, Place)> {
        let both = self.cables.iter().flat_map(|[one, other]| [(*one, *other), (*other, *one)]);
        both.filter(move |(near, _)| near.switch == switch)
    }

    fn has_hosts(&self, switch: usize) -> bool {
        self.hosts.iter().any(|place| place.switch == switch)
    }
}
