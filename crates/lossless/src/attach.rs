//! Ports that come, change and go.

use alloc::vec::Vec;

use units::{Class, Instant};

use crate::account::Refusal;
use crate::cells::Label;
use crate::config::{PortConfig, Shaping};
use crate::flows::State;
use crate::id::{MAX_PORTS, PortId};
use crate::port::Port;
use crate::switch::{Released, Switch};

/// A switch has 1,024 ports at the most: detach one first.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("attaching a port: the switch has {MAX_PORTS} already; detach one first")]
pub struct TooManyPorts;

impl<F: Copy> Switch<F> {
    /// Adds a port, with the lowest number that is free.
    ///
    /// # Errors
    ///
    /// [`TooManyPorts`] at the 1,025th.
    pub fn attach(&mut self, now: Instant, config: PortConfig) -> Result<PortId, TooManyPorts> {
        let id = self.ports.attach(now, config).ok_or(TooManyPorts)?;
        let frames = |(_, port): (PortId, &Port)| port.config.ingress.frames.min(4096) as usize;
        self.cells.reserve(self.ports.iter().map(frames).sum());
        Ok(id)
    }

    /// Changes a port while frames flow. What it holds stays, even where new limits are lower;
    /// where they are higher, who waited goes on.
    pub fn configure(&mut self, now: Instant, id: PortId, config: PortConfig) {
        let port = self.port_mut(id);
        if port.config.shaping != config.shaping {
            port.egress.shaper = config.shaping.map(Shaping::bucket);
        }
        (port.config, port.places) = (config, config.places());
        let at_quota = self.voqs.set_quota(id, config.quota.get());
        let flows = self.ports.iter().flat_map(|(_, port)| port.egress.flows.iter());
        let lanes =
            flows.filter(|(_, flow)| flow.state != State::Aside).flat_map(|(_, flow)| flow.lanes());
        let lanes =
            lanes.filter(|(from, lane)| *from == id && lane.frames >= config.quota.get()).count();
        let port = self.port_mut(id);
        let pressed = usize::from(port.ingress.is_pressed(&port.config));
        port.ingress.at_quota = (at_quota + lanes + pressed) as u32;
        port.ingress.resume(now, &port.config);
        for class in Class::all() {
            self.pull(now, id, class);
        }
    }

    /// Before a port is taken away: it gets no copy of what is for many, and what is held from it
    /// and for it goes on. What is for it alone is the caller's to redirect, and its own sender the
    /// caller's to silence.
    pub fn close(&mut self, port: PortId) {
        self.port_mut(port).egress.closed = true;
    }

    /// Whether nobody is there to take frames at a port: an interface that is down, a guest that is
    /// off. It gets no copies of what is for many until this is called with `false`, or until its
    /// queues are empty: the next copy finds out.
    pub fn set_absent(&mut self, port: PortId, absent: bool) {
        self.port_mut(port).egress.absent = absent;
    }

    /// Takes a port away. Every frame from it or for it alone that is still held is refused and
    /// released. Close it first, and wait until it holds nothing ([`Switch::holds`]), where nothing
    /// is to be refused.
    pub fn detach(&mut self, now: Instant, port: PortId, mut released: impl FnMut(Released<F>)) {
        self.empty_egress(now, port, Refusal::DETACHED, &mut released);
        self.withdraw_all(now, port, released);
        for egress in self.attached() {
            self.set_port_terms(now, egress, port, None);
        }
        let gone = self.ports.detach(port);
        self.retired.add(now, &gone);
        self.pending.remove(port);
    }

    /// Refuses and releases every frame from this port that is still held. What is for it stays.
    pub fn withdraw_all(
        &mut self,
        now: Instant,
        ingress: PortId,
        mut released: impl FnMut(Released<F>),
    ) {
        for egress in self.attached() {
            self.withdraw(now, ingress, egress, &mut released);
        }
    }

    /// The ports that are attached, by number.
    pub fn attached(&self) -> impl Iterator<Item = PortId> + use<F> {
        let ids: Vec<PortId> = self.ports.iter().map(|(id, _)| id).collect();
        ids.into_iter()
    }

    /// How a port is configured.
    pub fn config(&self, port: PortId) -> &PortConfig {
        &self.port(port).config
    }

    /// Refuses everything from `ingress` that is held for `egress`.
    fn withdraw(
        &mut self,
        now: Instant,
        ingress: PortId,
        egress: PortId,
        released: &mut impl FnMut(Released<F>),
    ) {
        for class in Class::all() {
            let mut gone = self.leave_waiting(ingress, egress, class);
            self.refuse_queue(now, egress, &mut gone, Refusal::DETACHED, released);

            let mut queue = self.port(egress).egress.classes[class].queue;
            let mut gone =
                self.cells.extract(&mut queue, |frame| frame.stamp.ingress() == ingress.0);
            for node in self.cells.iter(&gone).collect::<Vec<_>>() {
                let load = self.cells.label(node).load();
                self.port_mut(egress).egress.classes[class].load.remove(load);
            }
            let side = &mut self.port_mut(egress).egress;
            side.classes[class].queue = queue;
            if queue.is_empty() {
                side.ready &= !(1 << class.pcp());
            }
            self.refuse_queue(now, egress, &mut gone, Refusal::DETACHED, released);
            self.pull(now, egress, class);
        }
        let Self { ports, cells, .. } = self;
        let side = &mut ports[egress].egress;
        let mut gone = side.flows.remove_sender(ingress, cells);
        Class::all().for_each(|class| side.note_ready(class));
        side.note_all_first(now, cells);
        let away = &mut side.away;
        let is_its = |label: Label| label.stamp.ingress() == ingress.0;
        gone.extend(away.values_mut().map(|queue| cells.extract(queue, is_its)));
        away.retain(|_, queue| !queue.is_empty());
        for mut queue in gone {
            self.refuse_queue(now, egress, &mut queue, Refusal::DETACHED, released);
        }
    }
}
