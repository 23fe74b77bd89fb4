//! Which host is wrong, if a packet went where it must not, or did not where it must.

use std::collections::BTreeSet;
use std::time::Duration;

use api::ClientError;
use lab::{Lab, LabError};
use model::{FrameBytes, PacketTrace, PacketTraceSpec, PortName};

use super::intent::Machine;
use super::question::Token;
use super::rounds::{Answer, Stage};

/// How many wrong answers agents are asked about, so that a run is not spent on asking.
const MOST: u32 = 32;

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_millis(300);

/// The source port of packets that are only asked about: of no round's connections.
const SOURCE: u16 = 19_999;

/// Who finds out.
pub struct Culprits<'a> {
    lab: &'a Lab,
    machines: &'a [Machine],
    left: u32,
    /// The hosts whose agents did not answer, and are not asked again.
    silent: BTreeSet<String>,
}

/// A host, and how it is known that it is wrong.
pub type Culprit = (String, String);

impl<'a> Culprits<'a> {
    /// Nobody is asked yet.
    pub const fn new(lab: &'a Lab, machines: &'a [Machine]) -> Self {
        Self { lab, machines, left: MOST, silent: BTreeSet::new() }
    }

    /// The host that is wrong about a question's packet.
    ///
    /// Whoever got it and must not: the host that had to refuse it, as the first network says.
    /// Whoever must have got it and did not: the sender's host is asked what becomes of such a
    /// packet now. If it would not refuse it, the receiver's host is wrong.
    pub fn of(&mut self, stage: &Stage, number: usize, answer: &Answer) -> Culprit {
        let question = &stage.questions[number];
        let sender = &self.machines[question.from];
        let host = |machine: usize| self.machines[machine].host.clone();
        if answer.sent.is_none() {
            return (sender.host.clone(), "the sender's interface takes nothing".into());
        }
        let intended = |at: usize| stage.intents.iter().any(|it| it[number].at.contains(&at));
        if let Some(stranger) = answer.at.iter().find(|it| !intended(**it)) {
            let verdict = &stage.intents[0][number];
            let why = verdict.why.as_deref().unwrap_or("it is for another");
            let at = if verdict.is_receivers { host(*stranger) } else { sender.host.clone() };
            return (at, format!("to be refused there: {why}"));
        }
        if let Some(twice) = answer.at.windows(2).find(|it| it[0] == it[1]) {
            return (host(twice[0]), "it came twice".into());
        }
        if self.left == 0 {
            return (format!("{} or {}", sender.host, host(question.to)), "not looked into".into());
        }
        let (from, to) = (sender.host.clone(), host(question.to));
        if self.silent.contains(&from) {
            return (from, "its agent did not answer when it was asked".into());
        }
        self.left -= 1;
        let frame = question.frame(SOURCE, Token { run: 0, round: 0, question: 0 });
        match self.asked(sender, frame.unwrap_or_default()) {
            Err(error) => {
                if !matches!(error, LabError::Agent(ClientError::Refused { .. })) {
                    self.silent.insert(from.clone());
                }
                (from, format!("its agent does not tell: {error}"))
            }
            Ok(PacketTrace { refused, delivered, sent, .. }) => match refused.first() {
                Some(it) => {
                    let by = it.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
                    (from, format!("refused there: {} at {}{by}", it.reason, it.at))
                }
                None if sent.is_empty() && delivered.is_empty() => {
                    (from, "its agent knows nobody that gets it".into())
                }
                None => (to, format!("{from} lets it pass now")),
            },
        }
    }

    /// What becomes of a machine's frame at its host.
    fn asked(&self, sender: &Machine, frame: Vec<u8>) -> Result<PacketTrace, LabError> {
        let spec =
            PacketTraceSpec { port: PortName(sender.name.clone()), frame: FrameBytes(frame) };
        let agent = self.lab.agent_at(&sender.endpoint)?.with_patience(PATIENCE);
        Ok(agent.trace_packet(&spec)?)
    }
}
