//! What would become of a frame now, without anything changing by that.

use alloc::string::ToString;
use alloc::vec::Vec;

use datapath::Remote;
use logical::objects::Identity;
use pipeline::{Copy, Net, Onward, Reason, Refusal, Step};
use units::Instant;

use crate::networks::Networks;

/// What would become of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The generation that decides.
    pub generation: u64,
    /// How it comes to that.
    pub steps: Vec<Step>,
    /// The ports here that get it.
    pub delivered: Vec<Identity>,
    /// The ports on other hosts that it goes on to: those decide whether it arrives.
    pub sent: Vec<(Identity, Remote)>,
    /// The ports that networks answer.
    pub answered: Vec<Identity>,
    /// What goes no further.
    pub refused: Vec<Refusal>,
}

impl Networks {
    /// What would become of a frame of a port's machine: of a child's without its tag. `None`: the
    /// port is not here, or no generation has it.
    pub fn trace(&self, now: Instant, from: &Identity, frame: &[u8]) -> Option<Trace> {
        let port = self.places.get(from)?;
        let (ready, _) = self.bound.get(port.index())?.as_ref()?.at.as_ref()?;
        let net = &ready.net;
        let sent = net.send(&self.state, now, net.own_port(from)?, frame);
        let name = |copy: Copy| net.name(copy.port).clone();
        let mut trace = Trace {
            generation: self.generation(),
            steps: sent.trace,
            answered: sent.answers.into_iter().map(name).collect(),
            refused: sent.refused,
            ..Trace::default()
        };
        for onward in sent.onward {
            match (self.places.contains_key(&onward.to), self.far.far(&onward.to)) {
                (true, _) => self.trace_here(now, net, &onward, (from, frame), &mut trace),
                (false, Some(remote)) => trace.sent.push((onward.to, remote)),
                (false, None) => trace.lose(onward.to),
            }
        }
        Some(trace)
    }

    fn trace_here(
        &self,
        now: Instant,
        net: &Net,
        onward: &Onward,
        (from, frame): (&Identity, &[u8]),
        trace: &mut Trace,
    ) {
        let received = net.receive(&self.state, now, onward);
        trace.steps.extend(received.trace);
        match received.fate {
            Ok(copy) => trace.delivered.push(net.name(copy.port).clone()),
            Err(refusal) => {
                if refusal.reason == Reason::Rejected {
                    let told = net.own_port(from).and_then(|at| net.rejected(at, frame));
                    trace.answered.extend(told.map(|copy| net.name(copy.port).clone()));
                }
                trace.refused.push(refusal);
            }
        }
    }
}

impl Trace {
    /// Nobody knows where a port is.
    fn lose(&mut self, to: Identity) {
        let what = "refused: it is on no host that is known here".to_string();
        self.steps.push(Step { at: to.clone(), stage: "place", by: None, what });
        let (at, by) = (to.clone(), None);
        self.refused.push(Refusal { reason: Reason::Unknown, at, by, to: Some(to) });
    }
}
