//! Receivers far away: what [departed](crate::Head::depart) and has not arrived.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use units::Instant;

use crate::account::{End, Refusal};
use crate::cells::Node;
use crate::flows::Flow;
use crate::id::PortId;
use crate::switch::{Released, Switch};

impl<F: Copy> Switch<F> {
    /// Of a flow that is underway to a port's receiver far away, the first frame has
    /// [arrived](crate::Head::depart). Its handle comes back if no other egress still wants the
    /// frame. Those whose senders were detached are underway no more.
    pub fn arrived(&mut self, now: Instant, port: PortId, flow: Flow) -> Option<Released<F>> {
        let node = self.pop_away(port, flow)?;
        self.finish(now, port, node, End::Delivered)
    }

    /// The same of a frame that was lost, and could not be sent again: it is refused.
    pub fn missed(
        &mut self,
        now: Instant,
        port: PortId,
        flow: Flow,
        refusal: Refusal,
    ) -> Option<Released<F>> {
        let node = self.pop_away(port, flow)?;
        self.refuse(now, port, node, refusal)
    }

    pub(crate) fn pop_away(&mut self, port: PortId, flow: Flow) -> Option<Node> {
        let Self { ports, cells, .. } = self;
        let away = &mut ports[port].egress.away;
        let queue = away.get_mut(&flow)?;
        let node = cells.pop(queue)?;
        if queue.is_empty() {
            away.remove(&flow);
        }
        Some(node)
    }

    /// Nothing is heard of those behind a port whose flows these are: what is underway to them is
    /// refused. It is to be called back before: it is its senders' again.
    pub fn abandon_underway(
        &mut self,
        now: Instant,
        port: PortId,
        flows: RangeInclusive<Flow>,
        refusal: Refusal,
        mut released: impl FnMut(Released<F>),
    ) {
        let away = self.port(port).egress.away.range(flows);
        for flow in away.map(|(flow, _)| *flow).collect::<Vec<_>>() {
            let Some(mut queue) = self.port_mut(port).egress.away.remove(&flow) else { continue };
            self.refuse_queue(now, port, &mut queue, refusal, &mut released);
        }
        self.rest(port);
    }

    /// The same, and what waits for them is refused, too.
    pub fn abandon_flows(
        &mut self,
        now: Instant,
        port: PortId,
        flows: RangeInclusive<Flow>,
        refusal: Refusal,
        mut released: impl FnMut(Released<F>),
    ) {
        self.abandon_underway(now, port, flows.clone(), refusal, &mut released);
        let waiting: Vec<_> = self.port(port).egress.flows.range(flows.clone()).collect();
        for part in waiting {
            self.refuse_flow(now, port, part, refusal, &mut released);
        }
        self.port_mut(port).egress.flows.let_go_all(flows);
        self.rest(port);
    }
}
