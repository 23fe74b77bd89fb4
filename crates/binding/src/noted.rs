//! What is noted of frames: at which rules they were decided, and why they were refused.

use alloc::sync::Arc;

use logical::objects::Identity;
use lossless::PortId;
use pipeline::{How, Net, Reason, Ruled};
use units::Instant;

use crate::flow_name::FlowName;
use crate::hits::AllHits;
use crate::lines::{Decided, Line, Pending};
use crate::networks::Networks;
use crate::refusals::Refused;

impl Networks {
    /// A rule has decided of a frame of so many bytes for good: it is counted.
    pub(crate) fn count(&mut self, port: PortId, ruled: Ruled, bytes: usize) {
        let bound = self.bound.get(port.index()).and_then(Option::as_ref);
        if let Some(net) = bound.and_then(|bound| bound.counts.as_ref()) {
            self.hits.count(net, ruled, bytes);
        }
    }

    /// What is to be noted of a frame once it has left.
    pub(crate) fn pending(&self, port: PortId, ruled: Ruled, frame: &[u8]) -> Pending {
        let is_told = ruled.how != How::Following && self.logs(port, ruled);
        let flow = if is_told { FlowName::of(frame) } else { None };
        Pending { port, ruled, flow }
    }

    /// A frame was decided for good: it is counted, and told of.
    pub(crate) fn note(&mut self, now: Instant, pending: Pending, bytes: usize) {
        let Pending { port, ruled, flow } = pending;
        self.count(port, ruled, bytes);
        if ruled.how == How::Following || !self.logs(port, ruled) {
            return;
        }
        let generation = self.generation();
        let Self { bound, lines, .. } = self;
        let bound = bound.get(port.index()).and_then(Option::as_ref);
        if let Some((net, at)) = bound.and_then(|it| Some((&it.at.as_ref()?.0.net, &it.name))) {
            let (rule, how) = (net.rules().get(ruled.rule), ruled.how);
            lines.write(Decided { now, at, rule, how, flow, bytes, generation });
        }
    }

    /// The same at once.
    pub(crate) fn note_ruled(
        &mut self,
        now: Instant,
        port: PortId,
        ruled: Option<Ruled>,
        frame: &[u8],
    ) {
        let Some(ruled) = ruled else { return };
        let pending = self.pending(port, ruled, frame);
        self.note(now, pending, frame.len());
    }

    fn logs(&self, port: PortId, ruled: Ruled) -> bool {
        let bound = self.bound.get(port.index()).and_then(Option::as_ref);
        let ready = bound.and_then(|bound| bound.at.as_ref()).map(|(ready, _)| ready);
        ready.is_some_and(|ready| ready.net.rules().get(ruled.rule).log.is_some())
    }

    /// A port's frame, or one for it, is refused.
    pub(crate) fn note_refused(
        &mut self,
        now: Instant,
        port: PortId,
        refusal: Option<&pipeline::Refusal>,
        otherwise: Reason,
        frame: &[u8],
    ) {
        let generation = self.generation();
        let Some(Some(bound)) = self.bound.get_mut(port.index()) else { return };
        self.refused_last = Some(port);
        bound.refusals.note(Refused {
            at: now,
            reason: refusal.map_or(otherwise, |it| it.reason),
            object: Some(refusal.map_or(&bound.name, |it| &it.at).clone()),
            by: refusal.and_then(|it| it.by.clone()),
            flow: FlowName::of(frame),
            generation,
        });
    }

    /// Why the frame was refused that was refused last.
    pub fn why(&self) -> Option<&Refused> {
        self.refusals(self.refused_last?).last()
    }

    /// The last frames of a port, or for it, that were refused, the last one last.
    pub fn refusals(&self, port: PortId) -> impl DoubleEndedIterator<Item = &Refused> {
        let bound = self.bound.get(port.index()).and_then(Option::as_ref);
        bound.into_iter().flat_map(|it| &it.refusals.last)
    }

    /// What rules have admitted and refused.
    pub const fn hits(&self) -> &AllHits {
        &self.hits
    }

    /// Takes the lines that rules have written.
    pub fn take_lines(&mut self, now: Instant) -> impl Iterator<Item = Line> + '_ {
        self.lines.take(now)
    }

    /// When there are lines to take. `None`: not until a frame is decided.
    pub fn lines_due(&self) -> Option<Instant> {
        self.lines.due()
    }

    /// How many lines of rules were held back by their meters.
    pub const fn suppressed_lines(&self) -> u64 {
        self.lines.suppressed
    }

    /// The rows that have a port of this host, or a child of one.
    pub fn rows_of(&self, name: &Identity) -> Option<&Arc<Net>> {
        let port = self.places.get(name)?;
        let bound = self.bound.get(port.index())?.as_ref()?;
        bound.at.as_ref().map(|(ready, _)| &ready.net)
    }
}
