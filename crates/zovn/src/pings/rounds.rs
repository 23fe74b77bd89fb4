//! Rounds of questions: each machine's packets leave by its own interface, and whoever gets one is
//! seen there.
//!
//! ```text
//!   begin ─▶ unsent ─offer─▶ machines' interfaces ═ the lab ═▶ machines' interfaces ─▶ answers
//!              ▲ no room │                                                                │
//!              └─────────┘       over: all is as intended for a while, or patience is ◀───┘
//! ```
//!
//! Nothing here blocks: an interface that takes nothing holds up its own questions, and no others.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use lab::{Lab, LabError, Wire};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::intent::{Machine, Verdict};
use super::question::{Question, Token, token};

/// How long a round goes on when all of it is as intended: what must not arrive comes by then.
const GRACE: Duration = Duration::from_millis(200);

/// How long interfaces are waited for at a time.
const A_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// How many packets leave before it is looked what has come.
const BURST: usize = 256;

/// How soon an interface that was gone is looked for again.
const AGAIN: Duration = Duration::from_millis(10);

/// The source ports of connections: from the first on, so many.
const SOURCES: (u16, u16) = (20_000, 20_000);

/// Questions, and what is intended of each: what any one of some networks intends.
#[derive(Debug)]
pub struct Stage {
    /// The questions.
    pub questions: Vec<Question>,
    /// The verdicts of each network, by question.
    pub intents: Vec<Vec<Verdict>>,
    /// What source ports of connections begin with, the same for all stages of a run.
    pub source: u16,
    /// The number of the first round of these questions.
    pub first: u32,
}

impl Stage {
    /// Whether these machines, and no others, may get a packet.
    pub fn allows(&self, question: usize, at: &[usize]) -> bool {
        self.intents.iter().any(|it| it[question].at == at)
    }

    /// Whether no network has this machine get a packet of a round, which may be over.
    fn is_strange(&self, round: u32, question: usize, machine: usize) -> bool {
        let gets = |it: &Vec<Verdict>| it.get(question).is_some_and(|it| it.at.contains(&machine));
        // Rounds of earlier stages had other questions.
        round >= self.first && !self.intents.iter().any(gets)
    }

    /// The source port of a round's connections. Another round's are others, or their packets would
    /// be let pass because the connection is known.
    fn source_of(&self, round: u32) -> u16 {
        let (first, count) = SOURCES;
        first + (u32::from(self.source).wrapping_add(round) % u32::from(count)) as u16
    }
}

/// What became of a packet.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// When it left. `None`: its interface did not take it.
    pub sent: Option<Instant>,
    /// The machines that got it, in order; one that got it twice is there twice.
    pub at: Vec<usize>,
}

/// Each question, asked once.
#[derive(Debug)]
pub struct Round {
    /// When it began.
    pub begun: Instant,
    /// What became of each question's packet.
    pub answers: Vec<Answer>,
    number: u32,
    unsent: VecDeque<usize>,
    /// How many answers are not as intended.
    wrong: usize,
    /// When a packet last left, and when one last left or arrived.
    left: Instant,
    moved: Instant,
}

impl Round {
    fn is_over(&self, patience: Duration, now: Instant) -> bool {
        let is_right = self.unsent.is_empty() && self.wrong == 0;
        (is_right && now.duration_since(self.moved) >= GRACE)
            || now.duration_since(self.left) >= patience
    }
}

/// A machine's interface, and when it is looked for again if it is gone.
struct End {
    wire: Option<Wire>,
    again: Instant,
}

/// What machines ask, and what they get.
pub struct Rounds<'a> {
    lab: &'a Lab,
    machines: &'a [Machine],
    ends: Vec<End>,
    /// The machines whose interface took nothing more when it was last offered something.
    is_full: Vec<bool>,
    patience: Duration,
    run: u64,
    next: u32,
    open: VecDeque<Round>,
    packets: Packets,
}

/// What packets have been counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packets {
    /// Those that have left.
    pub sent: u64,
    /// Those that have arrived when their round was over.
    pub late: u64,
    /// Those of them that have arrived where none must.
    pub strange: u64,
}

impl<'a> Rounds<'a> {
    /// Opens the machines' interfaces. `patience`: how long a packet may be underway; `run`: what
    /// packets of this run are known by.
    ///
    /// # Errors
    ///
    /// [`LabError`] if an interface is not there.
    pub fn new(
        lab: &'a Lab,
        machines: &'a [Machine],
        patience: Duration,
        run: u64,
    ) -> Result<Self, LabError> {
        let again = Instant::now();
        let open = |it: &Machine| Ok(End { wire: Some(lab.wire(&it.endpoint)?), again });
        let ends = machines.iter().map(open).collect::<Result<_, LabError>>()?;
        let (open, packets) = Default::default();
        let is_full = vec![false; machines.len()];
        Ok(Self { lab, machines, ends, is_full, patience, run, next: 0, open, packets })
    }

    /// Begins a round of a stage. All that are open are of one stage.
    pub fn begin(&mut self, stage: &Stage) {
        let count = stage.questions.len();
        let now = Instant::now();
        self.open.push_back(Round {
            begun: now,
            answers: vec![Answer::default(); count],
            number: self.next,
            unsent: (0..count).collect(),
            wrong: (0..count).filter(|it| !stage.allows(*it, &[])).count(),
            left: now,
            moved: now,
        });
        self.next = self.next.wrapping_add(1);
    }

    /// How many rounds are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// How many rounds have begun.
    pub fn begun(&self) -> u32 {
        self.next
    }

    /// What packets have been counted.
    pub fn packets(&self) -> Packets {
        self.packets
    }

    /// Whether all questions of the rounds that are open have left, but for those of machines whose
    /// interfaces take nothing.
    pub fn is_asked(&self, stage: &Stage) -> bool {
        let mut unsent = self.open.iter().flat_map(|round| &round.unsent);
        unsent.all(|place| self.is_full[stage.questions[*place].from])
    }

    /// Sends what leaves now and takes what has come. Gives the oldest round if it is over.
    ///
    /// # Errors
    ///
    /// A machine has got more than was taken in time, so that nothing is known of it.
    pub fn turn(&mut self, stage: &Stage) -> io::Result<Option<Round>> {
        let wait = if self.send(stage) { Timespec::default() } else { A_LOOK };
        for machine in self.ready(&wait) {
            self.receive(machine, stage)?;
        }
        let now = Instant::now();
        let is_over = self.open.front().is_some_and(|it| it.is_over(self.patience, now));
        Ok(if is_over { self.open.pop_front() } else { None })
    }

    /// Sends some of what has not left; whether anything has.
    fn send(&mut self, stage: &Stage) -> bool {
        let (mut room, now) = (BURST, Instant::now());
        self.is_full.fill(false);
        for round in &mut self.open {
            let mut kept = VecDeque::new();
            while room > 0
                && let Some(place) = round.unsent.pop_front()
            {
                let question = &stage.questions[place];
                if self.is_full[question.from] {
                    kept.push_back(place);
                    continue;
                }
                let (run, round_number, number) = (self.run, round.number, place as u32);
                let token = Token { run, round: round_number, question: number };
                let frame =
                    question.frame(stage.source_of(round.number), token).unwrap_or_default();
                let end = &mut self.ends[question.from];
                end.find(self.lab, &self.machines[question.from], now);
                if !end.offer(&frame, now) {
                    self.is_full[question.from] = true;
                    kept.push_back(place);
                    continue;
                }
                let sent = Instant::now();
                round.answers[place].sent = Some(sent);
                (round.left, round.moved) = (sent, sent);
                self.packets.sent += 1;
                room -= 1;
            }
            kept.append(&mut round.unsent);
            round.unsent = kept;
        }
        room < BURST
    }

    /// The machines that something has come for, or whose interface has something to say; waits
    /// so long for one.
    fn ready(&self, wait: &Timespec) -> Vec<usize> {
        let wires =
            || self.ends.iter().enumerate().filter_map(|(at, end)| Some((at, end.wire.as_ref()?)));
        let mut polled: Vec<_> = wires().map(|(_, it)| PollFd::new(it, PollFlags::IN)).collect();
        // Interrupted or not: who has nothing is asked again.
        let _ = poll(&mut polled, Some(wait));
        wires()
            .zip(&polled)
            .filter(|(_, it)| !it.revents().is_empty())
            .map(|((at, _), _)| at)
            .collect()
    }

    /// Takes all that has come for a machine.
    fn receive(&mut self, machine: usize, stage: &Stage) -> io::Result<()> {
        let Some(wire) = &self.ends[machine].wire else { return Ok(()) };
        // An interface that is down or gone says so once; who sends by it finds out.
        while let Ok(Some(frame)) = wire.receive() {
            let Some(token) = token(&frame).filter(|it| it.run == self.run) else { continue };
            let oldest = self.open.front().map_or(self.next, |it| it.number);
            let place = token.round.wrapping_sub(oldest) as usize;
            let question = token.question as usize;
            let Some(round) = self.open.get_mut(place) else {
                self.packets.late += 1;
                let is_strange = stage.is_strange(token.round, question, machine);
                self.packets.strange += u64::from(is_strange);
                continue;
            };
            let Some(answer) = round.answers.get_mut(question) else { continue };
            let was_wrong = !stage.allows(question, &answer.at);
            answer.at.push(machine);
            answer.at.sort_unstable();
            let is_wrong = !stage.allows(question, &answer.at);
            round.wrong = round.wrong + usize::from(is_wrong) - usize::from(was_wrong);
            round.moved = Instant::now();
        }
        match wire.missed() {
            Ok(missed @ 1..) => Err(io::Error::other(format!(
                "{} got {missed} frames more than could be looked at: have nothing else send to it",
                self.machines[machine].name
            ))),
            _ => Ok(()),
        }
    }
}

impl End {
    /// Looks for an interface that was gone.
    fn find(&mut self, lab: &Lab, machine: &Machine, now: Instant) {
        if self.wire.is_none() && now >= self.again {
            self.wire = lab.wire(&machine.endpoint).ok();
            self.again = now + AGAIN;
        }
    }

    /// Sends a frame if the interface is there and has room; whether it was sent.
    fn offer(&mut self, frame: &[u8], now: Instant) -> bool {
        let Some(wire) = &self.wire else { return false };
        match wire.offer(frame) {
            Ok(is_sent) => is_sent,
            Err(_) => {
                self.wire = None;
                self.again = now + AGAIN;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn stage(source: u16, first: u32) -> Stage {
        let verdict = |at: &[usize]| Verdict { at: at.to_vec(), ..Verdict::default() };
        let intents = vec![vec![verdict(&[1]), verdict(&[])], vec![verdict(&[]), verdict(&[])]];
        Stage { questions: Vec::new(), intents, source, first }
    }

    #[test]
    fn a_late_packet_is_strange_where_no_network_has_it_arrive() {
        let stage = stage(0, 3);
        assert!(!stage.is_strange(3, 0, 1), "one of the networks intends it");
        assert!(stage.is_strange(3, 0, 2) && stage.is_strange(4, 1, 1));
        assert!(!stage.is_strange(2, 1, 1), "that was another question");
    }

    #[test]
    fn no_round_has_the_connections_of_another() {
        for source in [0, 19_999, u16::MAX] {
            let stage = stage(source, 0);
            let ports: BTreeSet<_> = (0..20_000).map(|round| stage.source_of(round)).collect();
            assert!(ports.into_iter().eq(20_000..40_000_u16), "{source}");
        }
    }
}
