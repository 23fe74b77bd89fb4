//! What would become of a frame now: a walk by the switch's own rules, which changes nothing.
//!
//! ```text
//! ingress ─▶ question ─▶ table ─┬─▶ egress
//!   room?     answered?   whom? └─▶ egress ─▶ session: credit? window?
//! ```
//!
//! The frame is made as its sender would make it, and then looked at as if it had come.

mod frame;

use std::net::IpAddr;

use datapath::{Answer, Explained, LONGEST_ANSWER, Network, Remote};
use lossless::{Audience, EgressOutlook, Fate, Flow, PortId, Reason, Size};
use model::{
    Attachment, LogicalPortName, PausedBy, PortName, TraceEgress, TraceHop, TraceIngress,
    TraceOutcome, TraceReport, TraceSession, TraceSpec, TraceTable,
};
use overlay::Form;
use plane::{Clearance, Leaving};
use port::{FrameView, Slot};
use tunnel::Admission;
use units::{Instant, Mac, Span};

use self::frame::{Frame, LENGTHS, Target};
use super::attached::Attached;
use super::{Host, report};

/// An Ethernet header's length, in bytes (802.3 §3.2).
const ETHERNET_LEN: u32 = 14;

/// An 802.1Q tag's length, in bytes (802.1Q §9.4).
const TAG_LEN: u32 = 4;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    /// There is none of that name.
    #[error("there is no port `{0}`: `zovn top --once` lists those there are")]
    UnknownPort(PortName),
    /// Neither an Ethernet address nor one of IP.
    #[error("`{0}` is no address: write it as 02:00:00:00:00:01, 10.0.0.1 or fd00::1")]
    NoAddress(String),
    /// In no network, the switch knows only the addresses that ports were declared with.
    #[error(
        "no port that `{port}` can reach was declared with {address}: give the Ethernet address"
    )]
    UnknownAddress {
        /// The port that asks.
        port: PortName,
        /// The address.
        address: IpAddr,
    },
    /// Only datagrams have a UDP port.
    #[error("only a datagram has a UDP port: give the IP address that it is for")]
    NoDatagram,
    /// No frame is so long, or so short.
    #[error("a frame of {0} bytes cannot be: choose {min} to {max}", min = LENGTHS.start(), max = LENGTHS.end())]
    Length(u32),
    /// A logical network decides about its frames.
    #[error(
        "port `{port}` is logical port {logical}: POST /v1/logical/trace, or `zovn trace`, says what becomes of its packets"
    )]
    Logical {
        /// The port.
        port: PortName,
        /// The port of the logical network.
        logical: LogicalPortName,
    },
    /// A VLAN's number has 12 bits.
    #[error("{0} is no VLAN: choose 0 to 4094")]
    Vlan(u16),
}

/// A walk under way.
struct Walk<'p> {
    host: &'p Host,
    now: Instant,
    from: &'p Attached,
    network: Network,
    hops: Vec<TraceHop>,
}

impl Host {
    /// What would become of a frame that came now. Nothing changes.
    ///
    /// # Errors
    ///
    /// [`TraceError`]
    pub(crate) fn trace(&self, spec: &TraceSpec) -> Result<TraceReport, TraceError> {
        let place =
            self.find(&spec.port).map_err(|_| TraceError::UnknownPort(spec.port.clone()))?;
        let from = &self.attached[place];
        if let Some(logical) = from.spec.logical.clone() {
            return Err(TraceError::Logical { port: spec.port.clone(), logical });
        }
        if !LENGTHS.contains(&spec.size) {
            return Err(TraceError::Length(spec.size));
        }
        if let Some(vlan) = spec.vlan.filter(|vlan| *vlan > 4094) {
            return Err(TraceError::Vlan(vlan));
        }
        let network = self.plane.datapath().config(from.id).network;
        let target = self.target(from, network, spec)?;
        if spec.udp.is_some() && matches!(target, Target::Mac(_)) {
            return Err(TraceError::NoDatagram);
        }
        let walk = Walk { host: self, now: self.now(), from, network, hops: Vec::new() };
        let mut report = walk.to(spec, &target);
        report.verdict.extend(Self::beyond_mtu(from, spec));
        Ok(report)
    }

    /// What to say of a frame that is longer than its sender's kernel sends. A guest may send
    /// longer packets than it is told.
    fn beyond_mtu(from: &Attached, spec: &TraceSpec) -> Option<String> {
        let tag_len = if spec.class.is_some() || spec.vlan.is_some() { TAG_LEN } else { 0 };
        let most = ETHERNET_LEN + tag_len + from.mtu;
        let is_bound = matches!(from.spec.attach, Attachment::Container { .. });
        (is_bound && spec.size > most).then(|| {
            format!(
                "; but with its `mtu` of {}, the machine behind `{}` sends no frame of more than {most} bytes",
                from.mtu, spec.port
            )
        })
    }

    /// Whom a frame is for that is for this address.
    fn target(
        &self,
        from: &Attached,
        network: Network,
        spec: &TraceSpec,
    ) -> Result<Target, TraceError> {
        let Some(to) = &spec.to else { return Ok(Target::Mac(Mac::BROADCAST)) };
        if let Ok(mac) = to.parse() {
            return Ok(Target::Mac(mac));
        }
        let address: IpAddr = to.parse().map_err(|_| TraceError::NoAddress(to.clone()))?;
        if let Some(vni) = from.spec.network.as_ref().and_then(|name| self.directory.vni(name)) {
            let owner = self.directory.network(vni).and_then(|network| network.owner(address));
            return Ok(owner.map_or(Target::Nobody(address), |mac| Target::Ip(address, mac)));
        }
        let has_it = |port: &&Attached| {
            self.plane.datapath().config(port.id).network == network
                && frame::addresses(&port.spec).any(|own| own == address)
        };
        // Each VLAN may have it once: who is in the frame's own counts.
        let vlan = spec.vlan.filter(|vlan| *vlan != 0).unwrap_or(from.spec.untagged_vlan());
        let owners = || self.attached.iter().filter(has_it);
        let near = owners().find(|port| port.spec.untagged_vlan() == vlan);
        let owner = near.or_else(|| owners().next()).and_then(|port| port.spec.mac());
        let unknown = || TraceError::UnknownAddress { port: from.spec.name.clone(), address };
        owner.map(|mac| Target::Ip(address, mac)).ok_or_else(unknown)
    }

    /// A port's name.
    pub(super) fn name(&self, id: PortId) -> PortName {
        let port = self.attached.iter().find(|port| port.id == id);
        port.expect("every port but the uplink is attached").spec.name.clone()
    }

    /// The name of the far host that a flow goes to: its tunnel address.
    fn far_name(&self, flow: Flow) -> PortName {
        let (remote, _) = Remote::of_flow(flow);
        let trunk = self.plane.peers().and_then(|peers| peers.trunk(remote.peer));
        PortName(trunk.expect("flows lead to hosts that are known").host().to_string())
    }
}

/// Whom a frame is for, and what would become of it there.
enum Egress {
    /// A port of this host.
    Port(EgressOutlook),
    /// A port of a far host.
    Far(Flow, EgressOutlook),
}

impl Walk<'_> {
    fn to(mut self, spec: &TraceSpec, target: &Target) -> TraceReport {
        let frame = Frame::new(&self.from.spec, spec, target);
        let switch = self.host.plane.switch();
        let (size, header) = (Size { bytes: frame.bytes.len() as u32, frames: 1 }, frame.header());
        let Explained { class, vlan, fate } =
            self.host.plane.datapath().explain(self.now, self.from.id, &header, self.network);
        let room = switch.peek_room(self.from.id);
        let paused_by = (room == 0).then_some(match switch.at_quota(self.from.id) {
            true => PausedBy::Egress,
            false => PausedBy::Ingress,
        });
        let failure = self.host.plane.failure(self.from.id).map(ToString::to_string);
        let leaving = || "it is about to be detached, or the agent to stop".into();
        let reason = failure.or_else(|| self.host.plane.is_muted(self.from.id).then(leaving));
        let stuck = match (&reason, paused_by) {
            (Some(reason), _) => Some(format!("nothing is taken from `{}`: {reason}", spec.port)),
            (None, Some(PausedBy::Egress)) => {
                Some("as many of its sender's frames as may be wait for one receiver".into())
            }
            (None, Some(PausedBy::Ingress)) => {
                Some("its sender has as many frames held as it may".into())
            }
            (None, None) => None,
        };
        let port = spec.port.clone();
        self.hops.push(TraceHop::Ingress(TraceIngress {
            port,
            class,
            free_frames: room,
            paused_by,
            reason,
        }));
        if let Some((outcome, verdict)) = self.question(target, &frame) {
            return self.end(outcome, verdict);
        }
        let local = |port| Egress::Port(switch.outlook(port, class, size));
        let from = self.from.id;
        let far =
            |(port, flow)| Egress::Far(flow, switch.flow_outlook(from, (port, flow), class, size));
        let (egresses, flooded, refused) = match fate {
            datapath::Fate::Refused(refusal) => (Vec::new(), false, Some(refusal.reason())),
            datapath::Fate::To(port) => (vec![local(port)], false, None),
            datapath::Fate::Far(remote) => {
                let uplink = self.host.plane.uplink().expect("who decided so knew one");
                (vec![far((uplink, remote.flow(class)))], false, None)
            }
            datapath::Fate::Flooded(Audience { ports, flows, bystanders }) => {
                let is_open = |port: &PortId| !switch.is_closed(*port) && !switch.is_absent(*port);
                let copy =
                    |port, flow| switch.copy_outlook(self.from.id, (port, flow), class, size);
                let ports =
                    ports.iter().filter(is_open).map(|port| match bystanders.contains(port) {
                        true => Egress::Port(copy(port, None)),
                        false => local(port),
                    });
                let flows = flows.into_iter().map(|(port, flow)| match bystanders.contains(port) {
                    true => Egress::Far(flow, copy(port, Some(flow))),
                    false => far((port, flow)),
                });
                let egresses: Vec<_> = ports.chain(flows).collect();
                let refused = egresses.is_empty().then_some(Reason::NoEgress);
                (egresses, refused.is_none(), refused)
            }
        };
        let refused = refused.map(|reason| reason.name().to_owned());
        self.hops.push(TraceHop::Table(TraceTable {
            network: self.from.spec.network.clone(),
            vlan,
            to: header.destination(),
            flooded,
            egresses: egresses.iter().map(|egress| self.name(egress)).collect(),
            refused: refused.clone(),
        }));
        let ends: Vec<_> = egresses
            .iter()
            .map(|egress| match egress {
                Egress::Port(outlook) => self.port(outlook, &frame, spec.udp.is_some()),
                Egress::Far(flow, outlook) => self.far(*flow, outlook, &frame),
            })
            .collect();
        match (stuck, refused) {
            (Some(why), _) => {
                self.end(TraceOutcome::Held, format!("held in its sender's own memory: {why}"))
            }
            (None, Some(reason)) => self.end(TraceOutcome::Refused, format!("refused: {reason}")),
            (None, None) => {
                let outcome = ends
                    .iter()
                    .map(|(outcome, _)| *outcome)
                    .max()
                    .expect("an egress is to have it");
                let told: Vec<_> = ends.into_iter().map(|(_, sentence)| sentence).collect();
                let flooded = if flooded { "flooded: " } else { "" };
                self.end(outcome, format!("{flooded}{}", told.join("; ")))
            }
        }
    }

    fn end(self, outcome: TraceOutcome, verdict: String) -> TraceReport {
        TraceReport { hops: self.hops, outcome, verdict }
    }

    /// Whether the switch answers the frame, or what its sender asks before. What becomes of it if
    /// it goes no further.
    fn question(&mut self, target: &Target, frame: &Frame) -> Option<(TraceOutcome, String)> {
        let network = self.from.spec.network.as_ref();
        match (target, network) {
            (Target::Nobody(address), Some(network)) => {
                let answer = format!(
                    "nobody in network `{network}` has {address}: who asks for it hears nothing"
                );
                self.hops.push(TraceHop::Responder { reply: answer.clone() });
                return Some((TraceOutcome::Refused, answer));
            }
            (Target::Ip(address, mac), Some(_)) => {
                let answer = format!("who asks for {address} is told {mac} by the switch");
                self.hops.push(TraceHop::Responder { reply: answer });
            }
            _ => {}
        }
        let responder = self.host.plane.responder();
        let answer = match responder.outlook(self.from.id, &frame.bytes, &mut [0; LONGEST_ANSWER]) {
            Answer::Pass => return None,
            Answer::Reply(_) => {
                "answered by the switch: the packet is too long for tunnels, and its sender is told what is not"
            }
            Answer::Silence => "not answered, and nobody else has it",
        };
        self.hops.push(TraceHop::Responder { reply: answer.into() });
        Some((TraceOutcome::Answered, answer.into()))
    }

    fn name(&self, egress: &Egress) -> PortName {
        match egress {
            Egress::Port(outlook) => self.host.name(outlook.port),
            Egress::Far(flow, _) => self.host.far_name(*flow),
        }
    }

    /// What becomes of the frame at a port, and the same in a sentence.
    fn port(
        &mut self,
        egress: &EgressOutlook,
        frame: &Frame,
        is_for_socket: bool,
    ) -> (TraceOutcome, String) {
        let plane = &self.host.plane;
        let (id, name) = (egress.port, self.host.name(egress.port));
        let held = |why: &str| Some((TraceOutcome::Held, why.to_owned()));
        let bad = match egress.fate {
            Fate::Refused(reason) => Some((TraceOutcome::Refused, reason.name().to_owned())),
            _ if let Some(failure) = plane.failure(id) => held(&failure.to_string()),
            _ if plane.device(id).is_down() => held("nobody is there to take it"),
            _ if let Some(bad) = self.at_socket(id, frame) => Some(bad),
            // Its queue is short: what waits for a place there waits for the rate as well.
            Fate::Waits | Fate::Switched if egress.ready_at > self.now => held(&format!(
                "its rate lets the next frame go in {}",
                Span::from_micros(egress.ready_at.since(self.now).as_nanos().div_ceil(1000))
            )),
            Fate::Waits => held("there is no room in the egress's queue"),
            Fate::Switched if plane.is_tx_blocked(id) => held("its receiver has no room"),
            Fate::Switched => None,
        };
        let (outcome, reason) = self.end_at(name.clone(), egress, bad);
        let sentence = match (outcome, reason) {
            (_, None) => {
                let socket = report::stalled_sockets(plane, id).next().filter(|_| !is_for_socket);
                let but = socket.map_or(String::new(), |socket| {
                    format!(
                        "; what is for UDP socket {socket} there is refused, as it takes nothing (`--udp {}`)",
                        socket.port()
                    )
                });
                format!("delivered to `{name}`{but}")
            }
            (TraceOutcome::Refused, Some(why)) => format!("refused for `{name}`: {why}"),
            (_, Some(why)) => format!("held for `{name}`: {why}"),
        };
        (outcome, sentence)
    }

    /// What a port's gate does to the frame before the device has it, if its socket has no room or
    /// others wait for it.
    fn at_socket(&self, port: PortId, frame: &Frame) -> Option<(TraceOutcome, String)> {
        let (switch, gate) = (self.host.plane.switch(), self.host.plane.gate());
        let waits = |flow| switch.aside(port).any(|aside| aside.flow == flow);
        let held = |why: &str| Some((TraceOutcome::Held, why.to_owned()));
        match gate.outlook(port, &FrameView::plain(&frame.bytes)) {
            Clearance::Hold(flow, _) if switch.stalled_flows(port).any(|it| it == flow) => {
                Some((TraceOutcome::Refused, "socket_stalled: its UDP socket takes nothing".into()))
            }
            Clearance::Hold(..) => held("its UDP socket is full"),
            Clearance::Go(flow) if waits(flow) => {
                held("others for the same UDP socket wait, and it goes behind them")
            }
            Clearance::Go(_) | Clearance::Free => None,
        }
    }

    /// What becomes of the frame on its way to a far host, and the same in a sentence.
    fn far(&mut self, flow: Flow, egress: &EgressOutlook, frame: &Frame) -> (TraceOutcome, String) {
        let plane = &self.host.plane;
        let name = self.host.far_name(flow);
        let peers = plane.peers().expect("there is a far host");
        let view = FrameView::plain(&frame.bytes);
        let (port, slot, network) = (self.from.id, Slot(0), self.network);
        let leaving = Leaving { port, slot, network, class: egress.class, view, origin: None };
        let outlook = peers.outlook(self.now, flow, &leaving);
        let refused = |why: &str| Some((TraceOutcome::Refused, why.to_owned()));
        let held = |why: &str| Some((TraceOutcome::Held, why.to_owned()));
        let bad = match (egress.fate, outlook) {
            (Fate::Refused(reason), _) => refused(reason.name()),
            (_, None) => refused("unfit: tunnels do not carry its network"),
            (_, Some(outlook)) if outlook.is_stalled => {
                refused("stalled_receiver: the other host takes nothing")
            }
            (_, Some(outlook)) if outlook.form == Form::TooLong => refused(
                "unfit: it is too long for the underlay, and only IPv4 without DF may be fragmented",
            ),
            _ if egress.waiting > 0 => {
                held("others for the same far port wait, and it goes behind them")
            }
            (_, Some(outlook)) if let Some(why) = outlook.waits_for => held(why),
            (_, Some(outlook)) => match outlook.session.map(|session| session.admission) {
                None | Some(Admission::Go) => None,
                Some(Admission::NoSession) => held("the other host has not told that it hears us"),
                Some(Admission::NoCredit) => held("the far receiver takes no more for now"),
                Some(Admission::NoWindow) => held("the fabric has enough of us for now"),
            },
        };
        let (outcome, reason) = self.end_at(name.clone(), egress, bad);
        if let Some(outlook) = outlook {
            let session = outlook.session;
            self.hops.push(TraceHop::Session(TraceSession {
                vtep: name.0.parse().expect("a far host's name is its address"),
                vni: outlook.vni,
                label: outlook.label,
                credit_bytes: session.map(|session| session.credit),
                in_flight_bytes: session.map(|session| session.in_flight),
                congestion_window_bytes: session.map(|session| session.congestion_window),
                rtt: session.and_then(|session| session.rtt),
                outstanding: egress.underway,
                parts: if let Form::Parts(count) = outlook.form { Some(count) } else { None },
                fragments: match outlook.form {
                    Form::Fragments(count) => Some(count),
                    _ => None,
                },
            }));
        }
        let sentence = match (outcome, reason) {
            (_, None) => match outlook.map(|outlook| outlook.form) {
                Some(Form::Parts(count)) => format!("sent to {name} in {count} parts"),
                Some(Form::Fragments(count)) => format!("sent to {name} in {count} fragments"),
                _ => format!("sent to {name}"),
            },
            (TraceOutcome::Refused, Some(why)) => format!("refused for `{name}`: {why}"),
            (_, Some(why)) => format!("held for `{name}`: {why}"),
        };
        (outcome, sentence)
    }

    /// Notes what becomes of the frame at an egress: it is delivered, unless something is `bad`.
    fn end_at(
        &mut self,
        port: PortName,
        egress: &EgressOutlook,
        bad: Option<(TraceOutcome, String)>,
    ) -> (TraceOutcome, Option<String>) {
        let (outcome, reason) = match bad {
            Some((outcome, reason)) => (outcome, Some(reason)),
            None => (TraceOutcome::Delivered, None),
        };
        let config = self.host.plane.switch().config(egress.port);
        self.hops.push(TraceHop::Egress(TraceEgress {
            port,
            queued_frames: egress.load.frames,
            queued_bytes: egress.load.bytes,
            waiting_frames: egress.waiting,
            stalled: egress.stalled,
            rate: config.shaping.map(|shaping| shaping.rate),
            held_flows: egress.flows,
            outcome,
            reason: reason.clone(),
        }));
        (outcome, reason)
    }
}
