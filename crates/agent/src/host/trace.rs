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

use datapath::{Answer, Explained, LONGEST_ANSWER, Network};
use kernel::clock;
use lossless::{EgressOutlook, Fate, PortId, Reason, Size};
use model::{
    PausedBy, PortName, TraceEgress, TraceHop, TraceIngress, TraceOutcome, TraceReport,
    TraceSession, TraceSpec, TraceTable,
};
use overlay::Overlay;
use plane::Leaving;
use port::{FrameView, Slot};
use tunnel::Admission;
use units::{Instant, Mac};

use self::frame::{Frame, LENGTHS, Target};
use super::Host;
use super::attached::Attached;

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
    /// No frame is so long, or so short.
    #[error("a frame of {0} bytes cannot be: choose {min} to {max}", min = LENGTHS.start(), max = LENGTHS.end())]
    Length(u32),
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
        if !LENGTHS.contains(&spec.size) {
            return Err(TraceError::Length(spec.size));
        }
        if let Some(vlan) = spec.vlan.filter(|vlan| *vlan > 4094) {
            return Err(TraceError::Vlan(vlan));
        }
        let network = self.plane.datapath().config(from.id).network;
        let target = self.target(from, network, spec.to.as_deref())?;
        let walk = Walk { host: self, now: clock::now(), from, network, hops: Vec::new() };
        Ok(walk.to(spec, &target))
    }

    /// Whom a frame is for that is for this address.
    fn target(
        &self,
        from: &Attached,
        network: Network,
        to: Option<&str>,
    ) -> Result<Target, TraceError> {
        let Some(to) = to else { return Ok(Target::Mac(Mac::BROADCAST)) };
        if let Ok(mac) = to.parse() {
            return Ok(Target::Mac(mac));
        }
        let address: IpAddr = to.parse().map_err(|_| TraceError::NoAddress(to.into()))?;
        if let Some(vni) = from.spec.network.as_ref().and_then(|name| self.directory.vni(name)) {
            let owner = self.directory.network(vni).and_then(|network| network.owner(address));
            return Ok(owner.map_or(Target::Nobody(address), |mac| Target::Ip(address, mac)));
        }
        let has_it = |port: &&Attached| {
            self.plane.datapath().config(port.id).network == network
                && frame::addresses(&port.spec).any(|own| own == address)
        };
        let owner = self.attached.iter().find(has_it).and_then(|port| port.spec.mac());
        let unknown = || TraceError::UnknownAddress { port: from.spec.name.clone(), address };
        owner.map(|mac| Target::Ip(address, mac)).ok_or_else(unknown)
    }

    /// A port's name; that of another host is its tunnel address.
    fn name(&self, id: PortId) -> PortName {
        let own =
            self.attached.iter().find(|port| port.id == id).map(|port| port.spec.name.clone());
        let mut trunks = self.overlay.iter().flat_map(Overlay::peers);
        let far =
            || trunks.find(|(_, trunk)| *trunk == id).map(|(far, _)| PortName(far.to_string()));
        own.or_else(far).expect("every port is attached, or leads to another host")
    }
}

impl Walk<'_> {
    fn to(mut self, spec: &TraceSpec, target: &Target) -> TraceReport {
        let frame = Frame::new(&self.from.spec, spec, target);
        let switch = self.host.plane.switch();
        let (size, header) = (Size { bytes: frame.bytes.len() as u32, frames: 1 }, frame.header());
        let Explained { class, vlan, fate } =
            self.host.plane.datapath().explain(self.from.id, &header, self.network);
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
        let outlook = |port| switch.outlook(port, class, size);
        let (egresses, flooded, refused) = match fate {
            datapath::Fate::Refused(refusal) => (Vec::new(), false, Some(refusal.reason())),
            datapath::Fate::To(port) => (vec![outlook(port)], false, None),
            datapath::Fate::Far(_) => unreachable!("far hosts are ports"),
            datapath::Fate::Flooded(audience) => {
                let egresses: Vec<_> = audience
                    .ports
                    .iter()
                    .filter(|port| !switch.is_closed(*port))
                    .map(outlook)
                    .collect();
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
            egresses: egresses.iter().map(|egress| self.host.name(egress.port)).collect(),
            refused: refused.clone(),
        }));
        let ends: Vec<_> = egresses.iter().map(|egress| self.egress(egress, &frame)).collect();
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

    /// What becomes of the frame at an egress, and the same in a sentence.
    fn egress(&mut self, egress: &EgressOutlook, frame: &Frame) -> (TraceOutcome, String) {
        let plane = &self.host.plane;
        let id = egress.port;
        let name = self.host.name(id);
        let trunk = plane.is_peer(id);
        let session = trunk.then(|| {
            let view = FrameView::plain(&frame.bytes);
            let (port, slot, network) = (self.from.id, Slot(0), self.network);
            let (peer, class) = (plane.peer(id), egress.class);
            let outlook = peer.outlook(&Leaving { port, slot, network, class, view });
            outlook.map(|outlook| (peer.host(), outlook))
        });
        let session = session.flatten();
        use TraceOutcome::{Held, Refused};
        let held = |why: &str| Some((Held, why.to_owned()));
        let of_trunk = || match session {
            None => Some((Refused, "unfit: nobody is there whom it could be for".to_owned())),
            Some((_, outlook)) if outlook.is_too_long => {
                Some((Refused, "unfit: it is too long for the underlay".into()))
            }
            Some((_, outlook)) => {
                let session = outlook.session?;
                if plane.switch().is_parked(id, session.flow) {
                    return held(
                        "others for the same far port wait for credit, and it goes behind them",
                    );
                }
                match session.admission {
                    Admission::Go => None,
                    Admission::NoSession => held("the other host has not told that it hears us"),
                    Admission::NoCredit => held("the far receiver takes no more for now"),
                    Admission::NoWindow => held("the fabric has enough of us for now"),
                }
            }
        };
        let bad = match egress.fate {
            Fate::Refused(reason) => Some((Refused, reason.name().to_owned())),
            _ if let Some(failure) = plane.failure(id) => held(&failure.to_string()),
            _ if !trunk && plane.device(id).is_down() => held("nobody is there to take it"),
            Fate::Waits => held("there is no room in the egress's queue"),
            Fate::Switched if egress.ready_at > self.now => held(&format!(
                "its rate lets the next frame go in {}",
                egress.ready_at.since(self.now)
            )),
            Fate::Switched if plane.is_tx_blocked(id) => held("its receiver has no room"),
            Fate::Switched if trunk => of_trunk(),
            Fate::Switched => None,
        };
        let (outcome, reason) = match bad {
            Some((outcome, reason)) => (outcome, Some(reason)),
            None => (TraceOutcome::Delivered, None),
        };
        self.hops.push(TraceHop::Egress(TraceEgress {
            port: name.clone(),
            queued_frames: egress.load.frames,
            queued_bytes: egress.load.bytes,
            waiting_frames: egress.waiting,
            stalled: egress.stalled,
            rate: plane.switch().config(id).shaping.map(|shaping| shaping.rate),
            held_flows: egress.flows,
            outcome,
            reason: reason.clone(),
        }));
        if let Some((vtep, outlook)) = session {
            let session = outlook.session;
            self.hops.push(TraceHop::Session(TraceSession {
                vtep,
                vni: outlook.vni,
                label: outlook.label,
                credit_bytes: session.map(|session| session.credit),
                in_flight_bytes: session.map(|session| session.in_flight),
                congestion_window_bytes: session.map(|session| session.congestion_window),
                rtt: session.and_then(|session| session.rtt),
                outstanding: egress.underway,
            }));
        }
        let sentence = match (outcome, reason) {
            (Refused, Some(why)) => format!("refused for `{name}`: {why}"),
            (_, Some(why)) => format!("held for `{name}`: {why}"),
            (_, None) if trunk => format!("sent to {name}"),
            (_, None) => format!("delivered to `{name}`"),
        };
        (outcome, sentence)
    }
}
