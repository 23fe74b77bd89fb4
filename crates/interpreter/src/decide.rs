//! The beginning of a frame's walk: from its port to its switch.

use alloc::string::ToString;
use alloc::vec::Vec;

use logical::objects::{Direction, Multicast};
use logical::topology::{Attachment, NodeIndex, Port, PortIndex, Topology};
use packet::{Fields, groups, rewrite};
use units::{Instant, Mac};
use wire::ethernet;

use crate::decision::{Decision, Reason};
use crate::security;
use crate::state::{Change, State, What};
use crate::walk::{Stop, Underway, Walk};

/// A frame at its port.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The port whose machine sends it.
    pub port: PortIndex,
    /// The host where that is, for ports that are the same on each.
    pub node: Option<NodeIndex>,
    /// The frame, with no more to be done by a card: checksums are there.
    pub frame: &'a [u8],
}

/// Decides what becomes of a frame. Nothing changes by that but what is returned.
pub fn decide(topology: &Topology, state: &State, now: Instant, arrival: Arrival<'_>) -> Decision {
    let mut walk = Walk {
        topology,
        state,
        now,
        origin: Some(arrival.port),
        node: arrival.node.or(topology[arrival.port].node),
        sent: arrival.frame.to_vec(),
        is_resumed: false,
        was_heard: false,
        decision: Decision::default(),
    };
    if let Err(stop) = walk.arrive(arrival.port, arrival.frame) {
        walk.refuse(*stop, None);
    }
    // What is held may have gone on from its port as if it were delivered.
    if walk.decision.delivered.is_empty() && !walk.is_held() {
        walk.undo(0);
    }
    walk.decision
}

impl Walk<'_> {
    /// From the port to its switch.
    fn arrive(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), Stop> {
        let topology = self.topology;
        let (port, frame) = self.admit(port, frame)?;
        let own = &topology[port];
        self.origin = Some(port);
        self.sent = frame.clone();
        let malformed = || Self::stop(Reason::Malformed, &own.id);
        let fields = Fields::of(&frame).ok_or_else(malformed)?;
        if fields.source.is_multicast() || fields.source == Mac([0; 6]) {
            return Err(malformed());
        }
        security::check_source(own, &fields, &frame)
            .map_err(|reason| Self::stop(reason, &own.id))?;
        self.step(&own.id, "port security", None, "its own addresses");
        self.learn(own, &fields)?;
        let origin = match own.attachment {
            Attachment::Provider | Attachment::L2Gateway { .. } => None,
            _ => Some(own.id.clone()),
        };
        let subject = self.subject(port, Direction::FromPort, &fields, origin)?;
        let mut under = Underway { frame, fields, subject, routers: 0, is_networks: false };
        self.gate(port, Direction::FromPort, &under)?;
        self.overhear(port, &under);
        self.hear(port, &under);
        self.mark(own, &mut under)?;
        self.balance(port, &mut under)?;
        self.forward(own.switch, Some(port), under)
    }

    /// What a machine tells of the groups that it listens to, where that decides who gets them.
    fn overhear(&mut self, port: PortIndex, under: &Underway) {
        let (port, whose) = (&self.topology[port], self.whose(port));
        if self.topology[port.switch].multicast == Multicast::Snoop && port.is_machine() {
            let told = groups::overhear(&under.fields, &under.frame).into_iter();
            let told = told.map(|it| Change(What::Overheard(whose.clone(), it)));
            self.decision.changes.extend(told);
        }
    }

    /// A port's packets are marked as its QoS profile says.
    fn mark(&mut self, port: &Port, under: &mut Underway) -> Result<(), Stop> {
        let profile = port.qos.map(|it| &self.topology[it]);
        let dscp = profile.and_then(|it| Some((it, it.profile.dscp?)));
        let (Some((profile, dscp)), Some(ip)) = (dscp, under.fields.ip) else { return Ok(()) };
        rewrite::set_dscp(&mut under.frame, &ip.layout, dscp);
        let what = alloc::format!("marked {}", dscp.number());
        self.step(&port.id, "QoS", Some(profile.id.to_string()), &what);
        self.read_again(under, port)
    }

    /// Whether a port sends at all, and which of its children it is.
    fn admit(&self, port: PortIndex, frame: &[u8]) -> Result<(PortIndex, Vec<u8>), Stop> {
        let own = &self.topology[port];
        let stop = |reason| Err(Self::stop(reason, &own.id));
        let Some((header, _)) = ethernet::Header::parse(frame) else {
            return stop(Reason::Malformed);
        };
        let is_tagged = matches!(
            header.ethertype.get(),
            ethernet::ethertype::VLAN | ethernet::ethertype::SERVICE_VLAN
        );
        let (port, frame) = if is_tagged {
            let Some((tag, inner)) = ethernet::untagged(frame) else {
                return stop(Reason::Malformed);
            };
            let vlan = tag.vlan;
            let parent = match own.attachment {
                Attachment::Child { parent, .. } => parent,
                _ => port,
            };
            let is_it = |it: &Port| it.attachment == Attachment::Child { parent, vlan };
            let Some((child, _)) = self.topology.ports().find(|(_, it)| is_it(it)) else {
                return stop(Reason::Vlan);
            };
            (child, inner)
        } else {
            (port, frame.to_vec())
        };
        let own = &self.topology[port];
        if !own.enabled || !self.topology[own.switch].enabled {
            return Err(Self::stop(Reason::Disabled, &own.id));
        }
        Ok((port, frame))
    }

    /// An address that nobody declared is behind the port that it comes from.
    fn learn(&mut self, port: &Port, fields: &Fields) -> Result<(), Stop> {
        let switch = &self.topology[port.switch];
        if !switch.mac_learning || !port.unknown || fields.source == port.mac {
            return Ok(());
        }
        if self.owner(port.switch, fields.source).is_some() {
            return Err(Self::stop(Reason::Spoofed, &port.id));
        }
        let learned = What::Learned(switch.id.clone(), fields.source, port.id.clone());
        self.decision.changes.push(Change(learned));
        Ok(())
    }
}
