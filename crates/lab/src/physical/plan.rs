//! What a declared physical network comes to: its switches, each with its ports and ways, and the
//! cables between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use ::fabric::{Config, InvalidConfig, Place, PortConfig, Route, Tally};
use lossless::Classes;
use tap::TapConfig;
use units::ClassMap;

use super::{FabricSpec, Trunk};
use crate::{LabError, spec};

/// A small slot of a TAP port holds a frame that is no longer, with its virtio header.
const SMALL_FRAME: u32 = 2036;

/// For how many frames of one host there is memory: 2 KiB each, as far as it is used.
const MOST_FRAMES: u64 = 1 << 20;

/// How many frames may be handed over later than they should be.
const LATE: u32 = 1024;

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

    /// Tells each switch by which ports each host is reached: those of all shortest ways, through
    /// switches without hosts.
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

impl FabricSpec {
    /// Reads a physical switch from a TOML file.
    ///
    /// # Errors
    ///
    /// [`LabError::File`] if it cannot be read, [`LabError::Toml`] with the line that is wrong,
    /// [`LabError::Fabric`] if it reads well and cannot be.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let spec: Self = spec::read(path)?;
        spec.plan()?;
        Ok(spec)
    }

    /// The same, as the fabric is told.
    ///
    /// # Errors
    ///
    /// [`LabError::Fabric`]
    pub(super) fn plan(&self) -> Result<Plan, LabError> {
        let wrong = |what: String| Err(LabError::Fabric(what));
        let mut seen = BTreeSet::new();
        for port in &self.ports {
            let place = format!("{} in {}", port.interface, port.netns);
            for word in [port.name.clone(), port.mac.to_string(), place] {
                if !seen.insert(word.clone()) {
                    return wrong(format!("`{word}` is given to two ports: keep it for one"));
                }
            }
            // RFC 791 §3.2 and a TAP device's most.
            if !(68..=65_521).contains(&port.mtu) {
                return wrong(format!("port `{}`: `mtu` lies outside 68 to 65521", port.name));
            }
            if port.mac.is_multicast() {
                let what = "`mac` is a group address: clear the lowest bit of its first octet";
                return wrong(format!("port `{}`: {what}", port.name));
            }
        }
        for Trunk { between: [one, other], .. } in &self.trunks {
            if one == other {
                return wrong(format!("a trunk leads from `{one}` to itself: name another switch"));
            }
            for word in [format!("{one}-{other}"), format!("{other}-{one}")] {
                if !seen.insert(word.clone()) {
                    return wrong(format!("`{word}` is given to two ports: keep it for one"));
                }
            }
        }
        let rules = Config {
            ports: Vec::new(),
            routes: Vec::new(),
            classes: Classes(ClassMap(self.classes)),
            dscp: self.dscp.map(ClassMap),
            scheduling: self.scheduling,
            pfc: self.pfc,
            shared: self.shared,
            ecn: self.ecn,
            loss: self.loss,
            seed: self.seed,
            stall_after: self.stall_after,
        };
        rules.check().map_err(|error| LabError::Fabric(error.to_string()))?;
        let plan = Plan::new(self, &rules)?;
        for (switch, config) in plan.configs.iter().enumerate() {
            match config.check() {
                Ok(()) => {}
                Err(InvalidConfig::Port { port, fault }) => {
                    return wrong(format!("port `{}`: {fault}", plan.name(Place { switch, port })));
                }
                Err(error) => return wrong(error.to_string()),
            }
        }
        for (port, place) in self.ports.iter().zip(&plan.hosts) {
            let frames = plan.configs[place.switch].most_held(place.port).frames;
            if frames > MOST_FRAMES {
                return wrong(format!(
                    "port `{}`: {frames} frames could be underway, and there is memory for {MOST_FRAMES}: lower `delay` or \
                     `buffer`",
                    port.name
                ));
            }
        }
        Ok(plan)
    }

    /// A port's interface, with memory for all that may be underway.
    pub(super) fn tap(&self, port: usize, plan: &Plan) -> TapConfig {
        let it = &self.ports[port];
        let places = plan.cables.iter().flatten().chain([&plan.hosts[port]]);
        let mut most = Tally::default();
        places.for_each(|place| most += plan.configs[place.switch].most_held(place.port));
        let slots = |frames: u64| frames.min(MOST_FRAMES) as u32 + LATE;
        let has_large = it.longest() > SMALL_FRAME;
        TapConfig {
            addresses: it.addresses.clone(),
            mtu: it.mtu,
            offload: it.offload,
            small_slots: slots(most.frames),
            // A read needs one of each kind, whatever comes of it.
            large_slots: if has_large { slots(most.bytes / u64::from(SMALL_FRAME)) } else { 2 },
            ..TapConfig::new(&it.netns, &it.interface, it.mac)
        }
    }
}

#[cfg(test)]
mod tests {
    use ::fabric::Buffer;
    use units::Class;

    use super::*;

    const TWO: &str = "
        [[port]]
        name = \"a\"
        netns = \"host-a\"
        mac = \"02:00:00:00:00:01\"
        rate = \"10gbit\"
        delay = \"5us\"
        [[port]]
        name = \"b\"
        netns = \"host-b\"
        mac = \"02:00:00:00:00:02\"
        rate = \"1gbit\"
    ";

    fn parse(text: &str) -> FabricSpec {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_is_left_out_is_a_lossy_switch_for_frames_of_the_usual_size() {
        let spec = parse(TWO);
        let plan = spec.plan().unwrap();
        let config = &plan.configs[0];
        assert!(Class::all().all(|class| config.classes.lossy(class).is_some()));
        assert_eq!((config.ports[0].longest, config.ports[0].buffer), (1518, Buffer::default()));
        let tap = spec.tap(0, &plan);
        assert_eq!((tap.offload, tap.interface.as_str(), tap.large_slots), (false, "eth0", 2));
        assert!(tap.small_slots > 8 * 2333);
        assert_eq!(parse(&toml::to_string(&spec).unwrap()), spec);
    }

    #[test]
    fn the_example_of_the_page_says_every_key_and_can_be() {
        let page = include_str!("../../../../docs/lab.md");
        let example = page.split("```toml\n").find(|block| block.contains("[pfc]")).unwrap();
        let spec = parse(example.split("```").next().unwrap());
        spec.plan().unwrap();
        let keys = toml::to_string(&spec).unwrap();
        let keys = keys.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key);
        assert_eq!(keys.filter(|key| !example.contains(key)).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let lossless = "classes = [\"lossless\", \"lossy\", \"lossy\", \"lossy\", \"lossy\", \"lossy\", \"lossy\", \"lossy\"]\n";
        for (text, word) in [
            (TWO.replace("host-b", "host-a"), "`eth0 in host-a`"),
            (
                TWO.replace("name = \"b\"", "name = \"b\"\nswitch = \"far\""),
                "no way leads from switch `far` to port `a`",
            ),
            (
                format!("{TWO}[[trunk]]\nbetween = [\"x\", \"x\"]\nrate = \"1gbit\""),
                "from `x` to itself",
            ),
            (
                format!("{TWO}{0}{0}", "[[trunk]]\nbetween = [\"\", \"x\"]\nrate = \"1gbit\"\n"),
                "`-x` is given",
            ),
            (TWO.replace("\"b\"", "\"a\""), "`a` is given to two"),
            (TWO.replace("00:02", "00:01"), "`02:00:00:00:00:01`"),
            (TWO.replace("02:00:00:00:00:02", "01:00:00:00:00:02"), "group address"),
            (TWO.replace("5us", "10s"), "lower `delay`"),
            (format!("loss = 2.0\n{TWO}"), "make it a probability"),
            (format!("dscp = [0, 8, 16, 24, 32, 40, 48, 0]\n{TWO}"), "code point 0 to two classes"),
            ("loss = 2.0".into(), "make it a probability"),
            (
                format!("{lossless}{}", TWO.replace("5us", "1ms")),
                "port `a`: a lossless class needs",
            ),
            (TWO.replace("rate = \"1gbit\"", "rate = \"1gbit\"\nmtu = 9"), "outside 68"),
        ] {
            let error = parse(&text).plan().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
