//! What a physical switch is asked to be.

use std::collections::BTreeSet;
use std::path::Path;

use ::fabric::{Buffer, Config, InvalidConfig, Link, Pfc, Place, PortConfig, Tally};
use lossless::Classes;
use model::{ClassKind, Scheduling};
use serde::{Deserialize, Serialize};
use tap::{self, TapConfig};
use units::{Bytes, Class, ClassMap, Dscp, Mac, Prefix, Rate, Span};

use super::plan::Plan;
use crate::{INTERFACE, LabError, spec};

/// `fabric.toml`: a physical switch, and the links to its hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FabricSpec {
    /// What each of the eight classes promises, class 0 first: those that are lossless pause their senders.
    pub classes: [ClassKind; 8],
    /// The code point of each class, class 0 first, by which packets without an 802.1Q tag have their class; their port's class alone if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<[Dscp; Class::COUNT]>,
    /// How an output chooses among its classes.
    pub scheduling: Scheduling,
    /// Mark what leaves while so much of its class waits behind it; never if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Bytes>,
    /// How many bytes the frames of lossy classes may take of all buffers together; as many as those have if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<Bytes>,
    /// How likely a frame is lost on its way to the switch, from 0 to 1.
    pub loss: f64,
    /// What is lost is drawn from it.
    pub seed: u64,
    /// How long a host may pause its frames before they are refused.
    pub stall_after: Span,
    /// When senders of lossless classes are paused.
    pub pfc: Pfc,
    /// The hosts, each with its link.
    #[serde(rename = "port")]
    pub ports: Vec<FabricPort>,
    /// The links between switches, where there are several.
    #[serde(rename = "trunk", skip_serializing_if = "Vec::is_empty")]
    pub trunks: Vec<Trunk>,
}

impl Default for FabricSpec {
    fn default() -> Self {
        Self {
            classes: [ClassKind::Lossy; 8],
            dscp: None,
            scheduling: Scheduling::Strict,
            ecn: None,
            shared: None,
            loss: 0.0,
            seed: 1,
            stall_after: Span::from_secs(10),
            pfc: Pfc::default(),
            ports: Vec::new(),
            trunks: Vec::new(),
        }
    }
}

/// A host's interface and the link that it is on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricPort {
    /// What the report calls it.
    pub name: String,
    /// The switch that it is at; of no name if absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub switch: String,
    /// The host's network namespace: a name under /run/netns, or a path.
    pub netns: String,
    /// What the interface is called there.
    #[serde(default = "interface")]
    pub interface: String,
    /// The interface's Ethernet address.
    pub mac: Mac,
    /// The interface's addresses.
    #[serde(default)]
    pub addresses: Vec<Prefix>,
    /// The largest packet in bytes.
    #[serde(default = "mtu")]
    pub mtu: u32,
    /// Let the host hand over large segments, of which each counts what it stands for. Without it every frame is one that a
    /// wire would carry.
    #[serde(default)]
    pub offload: bool,
    /// The link's rate, each way.
    pub rate: Rate,
    /// How long a bit takes from end to end.
    #[serde(default)]
    pub delay: Span,
    /// The switch's memory for what the host sends.
    #[serde(default)]
    pub buffer: Buffer,
    /// The class of frames of which neither an 802.1Q tag nor a code point tells it.
    #[serde(default)]
    pub class: Class,
}

/// A link between two switches. The classes of what it carries are those of 802.1Q tags or code points, or else class 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trunk {
    /// The two.
    pub between: [String; 2],
    /// The link's rate, each way.
    pub rate: Rate,
    /// How long a bit takes from end to end.
    #[serde(default)]
    pub delay: Span,
    /// Each switch's memory for what the other sends.
    #[serde(default)]
    pub buffer: Buffer,
}

/// A small slot of a TAP port holds a frame that is no longer, with its virtio header.
const SMALL_FRAME: u32 = 2036;

/// For how many frames of one host there is memory: 2 KiB each, as far as it is used.
const MOST_FRAMES: u64 = 1 << 20;

/// How many frames may be handed over later than they should be.
const LATE: u32 = 1024;

impl FabricSpec {
    /// Reads a physical switch from a TOML file.
    ///
    /// # Errors
    ///
    /// [`LabError::File`] if it cannot be read, [`LabError::Toml`] with the line that is wrong, [`LabError::Fabric`] if it
    /// reads well and cannot be.
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
            classes: Classes(ClassMap(self.classes.map(|kind| match kind {
                ClassKind::Lossless => lossless::ClassKind::Lossless,
                ClassKind::Lossy => lossless::ClassKind::Lossy,
            }))),
            dscp: self.dscp.map(ClassMap),
            scheduling: match self.scheduling {
                Scheduling::Strict => lossless::Scheduling::Strict,
                Scheduling::Weighted(weights) => lossless::Scheduling::Weighted(ClassMap(weights)),
            },
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

impl Trunk {
    pub(super) fn config(&self, longest: u32) -> PortConfig {
        PortConfig {
            link: Link { rate: self.rate, delay: self.delay, ..Link::default() },
            buffer: self.buffer,
            longest,
            class: Class::default(),
            trunk: true,
        }
    }
}

impl FabricPort {
    pub(super) fn config(&self) -> PortConfig {
        PortConfig {
            link: Link { rate: self.rate, delay: self.delay, ..Link::default() },
            buffer: self.buffer,
            longest: self.longest(),
            class: self.class,
            trunk: false,
        }
    }

    /// The longest frame in bytes: a packet behind an Ethernet header with a tag, or a large segment.
    pub(super) fn longest(&self) -> u32 {
        if self.offload { tap::MOST_BYTES.max(self.mtu + 18) } else { self.mtu + 18 }
    }
}

fn interface() -> String {
    INTERFACE.into()
}

fn mtu() -> u32 {
    1500
}

#[cfg(test)]
mod tests {
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
            (format!("{TWO}[[trunk]]\nbetween = [\"x\", \"x\"]\nrate = \"1gbit\""), "from `x` to itself"),
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
            (format!("{lossless}{}", TWO.replace("5us", "1ms")), "port `a`: a lossless class needs"),
            (TWO.replace("rate = \"1gbit\"", "rate = \"1gbit\"\nmtu = 9"), "outside 68"),
        ] {
            let error = parse(&text).plan().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
