//! Rules of the physical and the virtual network.

use super::*;
use crate::fabric::MOST_QUEUES;
use crate::scenario::{
    Buffer, Congestion, Fabric, Layer, REPORTS, REPORTS_PRIORITY, RingRouting, Tier,
};
use units::{Bytes, Rate};

/// A virtual switch has so many ports; each class has one of them for its uplink.
const MOST_PORTS: u64 = 1024;
/// Networks that have terms.
const MOST_NETWORKS: usize = 1000;
/// So much of a link can be promised, in hundredths, as by an agent: the rest is for reports, and
/// for queues to drain.
const PROMISED: u128 = 94;
/// Ways are kept from each switch to each other.
const MOST_SWITCHES: u64 = 10_000;

impl Check<'_> {
    pub(super) fn classes(&mut self) {
        let classes = &self.scenario.classes;
        self.ensure(
            (1..=8).contains(&classes.len()),
            "class",
            "there are 1 to 8 classes: 802.1p has no more priorities",
        );
        for (place, (name, class)) in classes.iter().enumerate() {
            let path = |field| format!("class.{name}.{field}");
            if let Some((other, _)) =
                classes.iter().take(place).find(|(_, other)| other.priority == class.priority)
            {
                let what = format!(
                    "class `{other}` has priority {} already: give each class its own",
                    class.priority
                );
                self.complain(&path("priority"), what);
            }
            self.ensure(
                (1..=1000).contains(&class.weight),
                &path("weight"),
                "a weight lies in 1 to 1000",
            );
            self.ensure(
                class.ecn != Some(Bytes(0)),
                &path("ecn"),
                "every frame would be marked: raise it, or leave it out",
            );
            if self.scenario.virtual_network.has_reports() {
                self.ensure(
                    class.priority != REPORTS_PRIORITY,
                    &path("priority"),
                    "congestion control sends its reports with priority 7: give it another one",
                );
                self.ensure(
                    name != REPORTS,
                    &format!("class.{name}"),
                    "congestion control's own class is called so: give this one another name",
                );
            }
        }
    }

    pub(super) fn topology(&mut self) {
        let topology = self.scenario.topology;
        let counts: &[(&str, u32)] = match &topology {
            Topology::FatTree(it) => &[
                ("racks", it.racks),
                ("chassis", it.chassis),
                ("servers", it.servers),
                ("tors", it.tors),
                ("cores", it.cores),
            ],
            Topology::LeafSpine(it) => {
                &[("leaves", it.leaves), ("spines", it.spines), ("servers", it.servers)]
            }
            Topology::KAry(it) => &[("k", it.k)],
            Topology::Dumbbell(it) => &[("left", it.left), ("right", it.right)],
            Topology::Star(it) => &[("servers", it.servers)],
            Topology::Ring(it) => &[("switches", it.switches), ("servers", it.servers)],
        };
        for (field, count) in counts {
            self.ensure(
                *count > 0,
                &format!("topology.{field}"),
                "there is at least one: raise it above 0",
            );
        }
        match topology {
            Topology::FatTree(it) => self.ensure(
                it.tors == 0 || it.cores % it.tors == 0,
                "topology.cores",
                format!(
                    "core switches are shared out among the {} `tors` of a rack: write a multiple of that",
                    it.tors
                ),
            ),
            Topology::KAry(it) => self.ensure(
                it.k % 2 == 0,
                "topology.k",
                "half of a switch's ports lead up: write an even number",
            ),
            Topology::Ring(it) => {
                self.ensure(it.switches >= 3, "topology.switches", "a ring has at least 3 switches")
            }
            Topology::LeafSpine(_) | Topology::Dumbbell(_) | Topology::Star(_) => {}
        }
        let nodes = |tier| topology.count(tier);
        let ends = nodes(Tier::Server).saturating_add(nodes(Tier::Client));
        if ends > MOST_SERVERS {
            let what = format!(
                "that makes {ends} servers and clients: at most {MOST_SERVERS} can be simulated"
            );
            self.complain("topology", what);
        }
        let switches =
            topology.switches().iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        if switches > MOST_SWITCHES {
            self.complain(
                "topology",
                format!("that makes {switches} switches: at most {MOST_SWITCHES} can be simulated"),
            );
        }
        let cables = topology
            .layers(self.scenario.link)
            .iter()
            .fold(0u64, |sum, layer| sum.saturating_add(layer.cables));
        if cables > MOST_CABLES {
            self.complain(
                "topology",
                format!("that makes {cables} links: at most {MOST_CABLES} can be simulated"),
            );
        }
    }

    pub(super) fn links(&mut self) {
        let it = self.scenario;
        let layers = it.topology.layers(it.link);
        let changed = layers.iter().map(|layer| (format!("topology.{}", layer.name), layer.link));
        for (path, link) in std::iter::once(("link".to_owned(), it.link)).chain(changed) {
            // What a layer does not change is complained about once, for all.
            let is_own = |differs: bool| differs || path == "link";
            if is_own(link.delay != it.link.delay) {
                let what = "a link's delay is at most 1s: lower it";
                self.ensure(link.delay <= Span::from_secs(1), &format!("{path}.delay"), what);
            }
            if is_own(link.rate != it.link.rate) {
                let what = "a link's rate lies in 1kbit to 10tbit";
                self.ensure(is_rate(link.rate), &format!("{path}.rate"), what);
            }
        }
        self.ensure(
            it.link.overhead.0 <= 10_000,
            "link.overhead",
            "a frame costs at most 10kb besides its bytes: lower it",
        );
    }

    pub(super) fn virtual_network(&mut self) {
        let it = &self.scenario.virtual_network;
        self.ensure((256..=65_521).contains(&it.mtu), "virtual.mtu", "`mtu` lies in 256 to 65521");
        self.ensure(
            it.encapsulation.0 <= 1000,
            "virtual.encapsulation",
            "at most 1000b are put around a packet: lower it",
        );
        let what = "a virtual NIC's rate lies in 1kbit to 10tbit";
        self.ensure(it.rate.is_none_or(is_rate), "virtual.rate", what);
        let per_server = it.vms_per_server();
        for (role, count) in &it.vms {
            let path = format!("virtual.vms.{role}");
            self.ensure(
                *count > 0,
                &path,
                "a role has at least one machine: raise it, or take the role out",
            );
            self.ensure(
                role != super::super::words::ANY,
                &path,
                "`any` means every machine: give the role another name",
            );
        }
        self.ensure(
            !it.vms.is_empty(),
            "virtual.vms",
            "a server has at least one machine: write `vms = { vm = 1 }`",
        );
        let classes = self.scenario.with_reports().classes.len();
        let most = MOST_PORTS.saturating_sub(classes as u64);
        if per_server > most {
            let what = format!(
                "a virtual switch has ports for each class and {most} machines, not {per_server}"
            );
            self.complain("virtual.vms", what);
        } else if per_server.saturating_mul(self.scenario.topology.servers().min(MOST_SERVERS))
            > MOST_VMS
        {
            self.complain(
                "virtual.vms",
                format!("at most {MOST_VMS} machines can be simulated: lower their number, or the servers'"),
            );
        }
        self.ensure(
            it.switch || per_server == 1,
            "virtual.switch",
            "without a virtual switch a server has one machine: write `vms = { vm = 1 }`",
        );
        self.ensure(
            it.switch || it.paced,
            "virtual.paced",
            "without a virtual switch nothing else bounds what a machine sends: leave it out",
        );
        self.holds_a_frame("virtual.ingress", it.ingress);
        self.holds_a_frame("virtual.egress", it.egress);
        self.ensure(
            it.quota != Some(0),
            "virtual.quota",
            "a quota is of at least one frame: raise it, or leave it out",
        );
        for (field, span) in
            [("delay", it.stack_delay), ("gap", it.stack_gap), ("jitter", it.stack_jitter)]
        {
            let what = "a stack takes at most 1s: lower it";
            self.ensure(span <= Span::from_secs(1), &format!("virtual.stack_{field}"), what);
        }
        self.capacity();
        self.ensure(
            it.stall_after > Span::ZERO,
            "virtual.stall_after",
            "every receiver would be stalled at once: raise it",
        );
    }

    /// What a virtual switch carries is waited for, by whoever may wait.
    fn capacity(&mut self) {
        let it = self.scenario;
        let network = &it.virtual_network;
        let Some(capacity) = network.capacity else { return };
        let path = "virtual.capacity";
        let what = "it says neither `frames` nor `bits`: add one of them, or leave it out";
        self.ensure(capacity.frames.is_some() || capacity.bits.is_some(), path, what);
        let what = "a virtual switch carries 1 to 1000000000 frames a second";
        let frames = capacity.frames.unwrap_or(1);
        self.ensure((1..=1_000_000_000).contains(&frames), &format!("{path}.frames"), what);
        let what = "a virtual switch carries 1kbit to 10tbit a second";
        self.ensure(capacity.bits.is_none_or(is_rate), &format!("{path}.bits"), what);
        let servers = it.topology.servers();
        let what = format!("there are 1 to {servers} servers that may have it");
        let some = capacity.servers.map_or(1, u64::from);
        self.ensure((1..=servers).contains(&some), &format!("{path}.servers"), what);
        let what = "without a virtual switch nothing is carried by one: leave it out";
        self.ensure(network.switch, path, what);
        let is_lossless = |class: &String| it.virtual_kind(class) == ClassKind::Lossless;
        let what = "what exceeds it waits, and frames of lossy classes do not: have all of them \
                    lossless in the virtual network, or leave it out";
        self.ensure(it.classes.keys().all(is_lossless), path, what);
        let is_alone = network.congestion.is_none() && !network.grants;
        let what = "it is simulated without congestion control and grants: leave one of them out";
        self.ensure(is_alone, path, what);
    }

    /// Credit, and networks' terms.
    pub(super) fn grants(&mut self) {
        let it = self.scenario;
        let network = &it.virtual_network;
        self.ensure(
            !network.grants || matches!(network.congestion, Congestion::None | Congestion::Lanes),
            "virtual.grants",
            "credit is granted beside `congestion = \"lanes\"` or \"none\": write one of these",
        );
        self.ensure(
            network.latency <= Span::from_secs(1),
            "virtual.latency",
            "hosts are late by at most 1s: lower it",
        );
        let what = "terms hold where credit is granted: add `virtual.grants = true`";
        self.ensure(it.networks.is_empty() || network.grants, "network", what);
        let what = "at most 1000 networks have terms";
        self.ensure(it.networks.len() <= MOST_NETWORKS, "network", what);
        let servers = it.topology.servers() as u32;
        let mut promised = 0_u64;
        for (place, (name, own)) in it.networks.iter().enumerate() {
            let path = |field| format!("network.{name}.{field}");
            self.vms(&path("machines"), &own.machines);
            for (field, rate) in [("min", own.min), ("max", own.max)] {
                let what = "a rate lies in 1kbit to 10tbit";
                self.ensure(rate.is_none_or(is_rate), &path(field), what);
            }
            let is_within = own.min.zip(own.max).is_none_or(|(min, max)| min <= max);
            self.ensure(is_within, &path("min"), "it is more than `max`: lower it");
            let what = "a weight lies in 1 to 1000";
            self.ensure(
                own.weight.is_none_or(|weight| (1..=1000).contains(&weight)),
                &path("weight"),
                what,
            );
            let mut before = it.networks.iter().take(place);
            if let Some((other, _)) =
                before.find(|(_, other)| other.machines.meets(&own.machines, network, 0..servers))
            {
                let what = format!("some of them are in `{other}`: a machine has one network");
                self.complain(&path("machines"), what);
            }
            promised = promised.saturating_add(own.min.map_or(0, Rate::bits_per_sec));
        }
        let link = it.topology.access(it.link).rate;
        let most = u128::from(link.bits_per_sec()) * PROMISED / 100;
        if u128::from(promised) > most {
            let sum = Rate::from_bits_per_sec(promised).unwrap_or(link);
            let what = format!(
                "`min` of all networks is {sum} together, and at most {PROMISED} % of a server's link of {link} \
                 can be promised: lower one"
            );
            self.complain("network", what);
        }
    }

    pub(super) fn fabric(&mut self) {
        let it = self.scenario;
        let Fabric { buffer, nic_queue, pfc, .. } = it.fabric;
        let (Buffer::PrivateInput { bytes }
        | Buffer::PerOutput { bytes }
        | Buffer::Shared { bytes, .. }) = buffer;
        self.ensure(
            (1..=MOST_QUEUES).contains(&it.fabric.flow_queues),
            "fabric.flow_queues",
            format!("an output has 1 to {MOST_QUEUES} queues for flows of a class"),
        );
        let is_circle = matches!(
            it.topology,
            Topology::Ring(ring) if ring.routing == RingRouting::Clockwise
        );
        self.ensure(
            it.virtual_network.congestion != Congestion::Bfc || !is_circle,
            "virtual.congestion",
            "paused flows could wait for each other in a circle, which nobody would find: write \
             `topology.routing = \"line\"`",
        );
        self.holds_a_frame("fabric.nic_queue", nic_queue);
        self.holds_a_frame("fabric.buffer.bytes", bytes);
        if let Buffer::Shared { alpha, .. } = buffer {
            self.ensure(
                (1e-3..=1e3).contains(&alpha),
                "fabric.buffer.alpha",
                "`alpha` lies in 0.001 to 1000",
            );
            for (field, given) in [("xoff", pfc.xoff), ("xon", pfc.xon)] {
                let what = "in a shared memory `alpha` moves the thresholds: leave it out";
                self.ensure(given.is_none(), &format!("fabric.pfc.{field}"), what);
            }
        }
        self.ensure(
            pfc.response.0 <= 1_000_000,
            "fabric.pfc.response",
            "a paused sender obeys within 1mb: lower it",
        );
        self.ensure(
            pfc.expiry != Some(Span::ZERO),
            "fabric.pfc.expiry",
            "a pause would be over at once: raise it",
        );
        self.ensure(
            pfc.xoff.is_none_or(|xoff| pfc.xon.is_none_or(|xon| xon < xoff)),
            "fabric.pfc.xon",
            "a pause would end at once: write less than `xoff`",
        );
        let lossless =
            it.classes.keys().filter(|name| it.physical_kind(name) == ClassKind::Lossless).count();
        if lossless == 0 || !self.found.is_empty() {
            return;
        }
        match buffer {
            Buffer::PrivateInput { bytes } | Buffer::PerOutput { bytes } => self.thresholds(bytes),
            Buffer::Shared { bytes, .. } => self.headroom(bytes, lossless as u64),
        }
        let (link, frame) = (it.topology.access(it.link), it.longest_frame());
        if it.virtual_network.switch && pfc.of_nic().thresholds(link, frame, nic_queue.0).is_none()
        {
            let headroom = pfc.headroom(link, frame);
            let what = format!(
                "what a virtual switch has no room for yet waits here until its sender is paused, and {headroom}b after that: \
                 write at least {}b, or `flow_control.physical = \"lossy\"`",
                headroom.saturating_add(2 * frame)
            );
            self.complain("fabric.nic_queue", what);
        }
    }

    /// Every input has room for PFC's thresholds of a class.
    fn thresholds(&mut self, room: Bytes) {
        let it = self.scenario;
        let (frame, pfc) = (it.longest_frame(), it.fabric.pfc);
        let layers = it.topology.layers(it.link);
        if pfc.xoff.is_some_and(|xoff| xoff.0 < 2 * frame) {
            let what = format!(
                "a sender is not paused before two frames have come: write at least {}b",
                2 * frame
            );
            self.complain("fabric.pfc.xoff", what);
            return;
        }
        let Some(layer) =
            layers.iter().find(|layer| pfc.thresholds(layer.link, frame, room.0).is_none())
        else {
            return;
        };
        let headroom = pfc.headroom(layer.link, frame);
        let lowest = pfc.xon.map_or(0, |xon| xon.0.saturating_add(1)).max(2 * frame);
        let xoff = pfc.xoff.map_or(lowest, |xoff| xoff.0);
        let what = format!(
            "a lossless class holds {xoff}b until its sender is paused and {headroom}b of headroom, for the links from \
             {} to {}: write at least {}b, or `flow_control.physical = \"lossy\"`",
            layer.lower,
            layer.upper,
            xoff.saturating_add(headroom),
        );
        self.complain("fabric.buffer.bytes", what);
    }

    /// A queue has room for the longest frame.
    fn holds_a_frame(&mut self, path: &str, room: Bytes) {
        let least = self.scenario.longest_frame();
        let what = format!("it holds not even one frame: write at least {least}b");
        self.ensure(room.0 >= least, path, what);
        self.ensure(room.0 <= MOST_BYTES, path, "no queue is larger than 1024gib: lower it");
    }

    /// Every switch's shared memory is larger than the headroom that is set aside in it.
    fn headroom(&mut self, room: Bytes, lossless: u64) {
        let it = self.scenario;
        let (frame, pfc) = (it.longest_frame(), it.fabric.pfc);
        let layers = it.topology.layers(it.link);
        let needs = |tier: Tier| {
            let of = |layer: &Layer| {
                let up = if layer.lower == tier { layer.ups } else { 0 };
                let down = if layer.upper == tier { layer.downs } else { 0 };
                up.saturating_add(down).saturating_mul(pfc.headroom(layer.link, frame))
            };
            layers.iter().fold(0u64, |sum, layer| sum.saturating_add(of(layer)))
        };
        let tiers = it
            .topology
            .switches()
            .into_iter()
            .map(|(tier, _)| (needs(tier).saturating_mul(lossless), tier));
        let Some((needed, tier)) = tiers.max() else { return };
        let least = needed.saturating_add(2 * frame);
        if room.0 < least {
            let what = format!(
                "the headroom of all ports of {tier}0 is {needed}b: write at least {least}b, or \
                 `flow_control.physical = \"lossy\"`"
            );
            self.complain("fabric.buffer.bytes", what);
        }
    }

    pub(super) fn tcp(&mut self) {
        let it = self.scenario;
        let tcp = it.tcp;
        let segment = u64::from(it.virtual_network.mtu);
        self.ensure(
            tcp.rto_min.is_none_or(|least| least > Span::ZERO && least <= Span::from_secs(60)),
            "tcp.rto_min",
            "a retransmission timeout lies above 0 and at most at 60s",
        );
        self.ensure(
            tcp.rto_initial.is_none_or(|first| first > Span::ZERO && first <= Span::from_secs(60)),
            "tcp.rto_initial",
            "a retransmission timeout lies above 0 and at most at 60s",
        );
        self.ensure(
            tcp.initial_window.is_none_or(|window| (1..=10_000).contains(&window)),
            "tcp.initial_window",
            "an initial window has 1 to 10000 segments",
        );
        self.ensure(
            tcp.delayed_ack.is_none_or(|delay| delay <= Span::from_millis(500)),
            "tcp.delayed_ack",
            "an acknowledgement waits at most 500ms (RFC 9293 §3.8.6.3): lower it",
        );
        // RFC 7323 §2.3: a window has 30 bits.
        self.ensure(
            tcp.receive_buffer.is_none_or(|bytes| (2 * segment..=1 << 30).contains(&bytes.0)),
            "tcp.receive_buffer",
            "a receive buffer has at least two packets of the MTU and at most 1gib",
        );
        if tcp.control != Control::Dctcp {
            return;
        }
        self.ensure(
            tcp.ecn != Some(false),
            "tcp.ecn",
            "DCTCP lives on marks: leave it out, or take another `control`",
        );
        let unmarked = it
            .workloads
            .values()
            .filter(|workload| workload.kind.transport() == Transport::Tcp)
            .find(|workload| {
                it.classes.get(&workload.class).is_some_and(|class| class.ecn.is_none())
            });
        if let Some(workload) = unmarked {
            let class = &workload.class;
            self.complain(
                "tcp.control",
                format!("DCTCP lives on marks: add `ecn = \"65kb\"` to [class.{class}]"),
            );
        }
    }
}

/// Whether time at this rate can be counted: neither too coarsely nor for too long.
fn is_rate(rate: Rate) -> bool {
    (1_000..=10_000_000_000_000).contains(&rate.bits_per_sec())
}
