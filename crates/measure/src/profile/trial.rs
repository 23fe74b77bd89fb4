//! Demands against which a profile is held: machines in a lab send what somebody says they ask for,
//! and what becomes of it is seen.
//!
//! ```text
//!   m1 ─▶┌────────┐─▶ near                  a machine is a container that sends UDP frames at
//!   m2 ─▶│ switch │                         rates which change with time; both hosts are on this
//!   m3 ─▶└────────┘═ link ═▶ switch ─▶ far  machine; there is no link if nobody sends by it
//! ```
//!
//! Who predicts what does not matter here: a trial says what is sent, not what is expected of it.

use std::time::Duration;

use lab::{Lab, SwitchKind};
use serde::Serialize;
use units::Span;

use super::cases::{Case, FAR, NEAR, Tunnel, Underlay, Way};
use super::confined::{Confined, available};
use crate::endpoint::{
    BIN, Order, Role, StatesSend, StatesSent, Towards, UdpReceive, UdpReceived, Visit,
};
use crate::fleet::{Program, finish_all, start_all};
use crate::loss::check_size;
use crate::losses::{Losses, settled};
use crate::site::{address, raise};
use crate::{Bench, MeasureError};

/// The receivers' endpoints and their port.
const RECEIVERS: [(&str, u32); 2] = [("near", NEAR), ("far", FAR)];
const PORT: u16 = 5006;

/// How long a program may take to report after its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most machines of a trial: more programs than these would only wait for one another.
pub const MOST_MACHINES: u32 = 64;

/// If this share of what was asked for arrives, it fits.
const FOLLOWED: f64 = 0.95;

/// Where trials are made.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The switch.
    pub switch: SwitchKind,
    /// What is around frames on the link.
    pub tunnel: Tunnel,
    /// What is between the two hosts, if somebody sends by the link.
    pub underlay: Underlay,
    /// How many processors switches, senders and receivers have together.
    pub cores: u32,
    /// How many bytes a machine's sockets hold before it waits; as many as sockets do if absent.
    pub room: Option<u32>,
}

/// Machines that send at the same time.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What it is, in a few words.
    pub name: String,
    /// Who sends.
    pub machines: Vec<Machine>,
}

/// A machine, and what it asks for.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Bytes a frame, Ethernet header included.
    pub frame: u32,
    /// The share of its frames that go to the other host.
    pub far: f64,
    /// Its rates, one after the other.
    pub visits: Vec<Visit>,
}

/// What became of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Observed {
    /// What was asked for, in frames a second.
    pub asked_fps: f64,
    /// What arrived, in frames a second.
    pub carried_fps: f64,
    /// The share of what was asked for that machines left out since they had waited for room.
    pub left_out: f64,
    /// The share that they left out since they did not run when they should have: what the lab
    /// could not ask for.
    pub late: f64,
    /// The share that their sockets did not take: there was no room for ten seconds, or an error.
    pub failed: f64,
    /// The share of time in which some machine left something out for want of room.
    pub held: f64,
    /// Frames that were sent and did not arrive.
    pub lost: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Whether the switches' own accounts held; none where they keep none.
    pub balanced: Option<bool>,
}

/// What is said of a demand.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The switch carries it.
    Fits,
    /// The switch does not.
    DoesNotFit,
    /// Nothing: it is too near to what the switch carries, or the lab could not ask for it.
    Open,
}

impl Verdict {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::DoesNotFit => "does not fit",
            Self::Open => "open",
        }
    }
}

impl Observed {
    /// Whether what was asked for was carried. It is open if nothing was asked for, or if it might
    /// have been carried but for frames that the lab failed to send by itself.
    pub fn verdict(&self) -> Verdict {
        let wanted = FOLLOWED * self.asked_fps;
        let unsent_fps = (self.late + self.failed) * self.asked_fps;
        if self.asked_fps > 0.0 && self.carried_fps >= wanted {
            Verdict::Fits
        } else if self.carried_fps + unsent_fps >= wanted {
            Verdict::Open
        } else {
            Verdict::DoesNotFit
        }
    }

    /// Whether a switch kept its promise, if it promises to lose nothing.
    pub fn is_whole(&self) -> bool {
        self.lost == 0 && self.duplicates == 0 && self.balanced != Some(false)
    }

    /// What programs saw in this time.
    fn of(duration: Span, sent: &[StatesSent], received: &[UdpReceived]) -> Self {
        let sum = |of: fn(&StatesSent) -> u64| sent.iter().map(of).sum::<u64>();
        let due = sum(|it| it.due);
        let share = |part: u64| part as f64 / due.max(1) as f64;
        let arrived = |it: &UdpReceived| it.received.saturating_sub(it.marks.into());
        // What waits at the end arrives later.
        let last = received.iter().filter(|it| arrived(it) > 0).map(|it| it.elapsed_ns).max();
        let secs = duration.as_nanos().max(last.unwrap_or(0)) as f64 / 1e9;
        let came: u64 = received.iter().map(|it| it.received).sum();
        Self {
            asked_fps: due as f64 / duration.as_secs_f64(),
            carried_fps: received.iter().map(arrived).sum::<u64>() as f64 / secs,
            left_out: share(sum(|it| it.left_out)),
            late: share(sum(|it| it.late)),
            failed: share(sum(|it| it.failed)),
            held: held(duration, sent),
            lost: sum(|it| it.sent + it.marked).saturating_sub(came),
            duplicates: received.iter().map(|it| it.duplicates).sum(),
            balanced: None,
        }
    }
}

/// The share of bins in which some machine left something out for want of room. Machines begin one
/// after the other, so their bins are put where they were.
fn held(duration: Span, sent: &[StatesSent]) -> f64 {
    let count = duration.as_nanos().div_ceil(BIN.as_nanos()).max(1) as usize;
    let first = sent.iter().map(|it| it.begin_ns).min().unwrap_or(0);
    let mut bins = vec![false; count];
    for one in sent {
        let later = ((one.begin_ns - first) / BIN.as_nanos()) as usize;
        for (bin, _) in one.held.iter().enumerate().filter(|(_, frames)| **frames > 0) {
            if let Some(is_held) = bins.get_mut(later + bin) {
                *is_held = true;
            }
        }
    }
    bins.iter().filter(|it| **it).count() as f64 / count as f64
}

/// Makes all trials, one after the other in one lab.
///
/// # Errors
///
/// [`MeasureError`]
pub fn run(
    bench: &Bench<'_>,
    setup: &Setup,
    trials: &[Trial],
) -> Result<Vec<Observed>, MeasureError> {
    let machines = trials.iter().map(|it| it.machines.len()).max().unwrap_or(0) as u32;
    if machines == 0 || machines > MOST_MACHINES {
        return Err(MeasureError::Config(format!(
            "a lab has 1 to {MOST_MACHINES} machines that send, not {machines}"
        )));
    }
    let all = || trials.iter().flat_map(|it| &it.machines);
    all().try_for_each(|it| check_size(it.frame))?;
    let available = available();
    if setup.cores == 0 || setup.cores > available {
        return Err(MeasureError::Config(format!(
            "a lab on {} processors cannot be made, as this process may use {available}: measure a profile with as \
             many or fewer",
            setup.cores
        )));
    }
    setup.switch.check()?;
    let is_far = all().any(|it| it.far > 0.0);
    let way = if is_far { Way::Link } else { Way::Host };
    let receivers: Vec<(&str, u32)> =
        RECEIVERS.into_iter().filter(|(_, host)| is_far || *host == NEAR).collect();
    let case = Case {
        switch: setup.switch,
        way,
        tunnel: setup.tunnel,
        far: u32::from(is_far),
        underlay: is_far.then_some(setup.underlay),
        cores: setup.cores,
    };
    bench.progress.begin(trials.len());
    bench.go_on()?;
    let endpoints = receivers.iter().map(|(name, host)| ((*name).to_owned(), *host));
    let endpoints = endpoints.chain((1..=machines).map(|it| (machine(it), NEAR)));
    // The lab goes before its confinement does.
    let _confined = Confined::to(case.cores)?;
    let lab = raise(bench, &case.lab_of(endpoints, false)?)?;
    let mut observed = Vec::new();
    for trial in trials {
        bench.step(&trial.name)?;
        observed.push(one(bench, &lab, setup, &receivers, trial)?);
    }
    Ok(observed)
}

fn machine(number: u32) -> String {
    format!("m{number}")
}

fn one(
    bench: &Bench<'_>,
    lab: &Lab,
    setup: &Setup,
    receivers: &[(&str, u32)],
    trial: &Trial,
) -> Result<Observed, MeasureError> {
    let senders = trial.machines.len() as u32;
    let role = Role::UdpReceive(UdpReceive { port: PORT, senders, pace: None });
    let receiving = receivers.iter().map(|(name, _)| Program::start(bench, lab, name, &role));
    let mut receiving = receiving.collect::<Result<Vec<_>, _>>()?;
    let mut sending = Vec::new();
    let mut duration = Span::ZERO;
    for (number, it) in (0..).zip(&trial.machines) {
        let to = receivers.iter().map(|(name, host)| {
            let share = if *host == FAR { it.far } else { 1.0 - it.far };
            Ok(Towards { address: address(lab, name, PORT)?, share })
        });
        let role = Role::StatesSend(StatesSend {
            to: to.collect::<Result<_, MeasureError>>()?,
            sender: number,
            size: it.frame,
            visits: it.visits.clone(),
            room: setup.room,
        });
        let lasts = it.visits.iter().fold(Span::ZERO, |sum, visit| sum + visit.lasts);
        duration = duration.max(lasts);
        sending.push(Program::start(bench, lab, &machine(number + 1), &role)?);
    }
    sending.iter_mut().try_for_each(|program| program.ready(bench))?;
    let before = settled(lab)?;
    start_all(bench, &mut receiving)?;
    sending.iter_mut().try_for_each(|program| program.tell(Order::Start))?;
    let mut sent: Vec<StatesSent> = Vec::new();
    for program in &mut sending {
        sent.push(program.report(bench, PATIENCE + Duration::from(duration))?);
    }
    finish_all(&mut receiving)?;
    let mut received: Vec<UdpReceived> = Vec::new();
    for program in &mut receiving {
        received.push(program.report(bench, PATIENCE)?);
    }
    let Losses { balanced, .. } = Losses::between(&before, &settled(lab)?);
    Ok(Observed { balanced, ..Observed::of(duration, &sent, &received) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: Span = Span::from_secs(1);

    fn received(received: u64, elapsed_ns: u64) -> UdpReceived {
        UdpReceived { received, marks: 2, elapsed_ns, ..UdpReceived::default() }
    }

    #[test]
    fn what_arrives_counts_without_marks_and_until_the_last_came() {
        let sent = StatesSent {
            due: 100,
            sent: 60,
            marked: 2,
            left_out: 20,
            late: 15,
            failed: 5,
            ..Default::default()
        };
        let both = [sent.clone(), sent];
        // Of the far receiver only marks came, late.
        let observed =
            Observed::of(SEC, &both, &[received(122, 1_200_000_000), received(2, 9_000_000_000)]);
        assert_eq!((observed.asked_fps, observed.carried_fps), (200.0, 100.0));
        let Observed { left_out, late, failed, lost, .. } = observed;
        assert_eq!((left_out, late, failed, lost), (0.2, 0.15, 0.05, 0));
        let lossy = Observed::of(SEC, &both, &[received(112, 1), received(2, 1)]);
        assert_eq!((lossy.carried_fps, lossy.lost), (110.0, 10));
        assert_eq!(Observed::of(SEC, &[], &[]).carried_fps, 0.0);
    }

    #[test]
    fn machines_that_fell_short_by_themselves_say_nothing_of_the_switch() {
        let of = |carried_fps, late, failed| {
            let observed =
                Observed { asked_fps: 100.0, carried_fps, late, failed, ..Default::default() };
            observed.verdict()
        };
        assert_eq!(of(95.0, 0.0, 0.0), Verdict::Fits);
        assert_eq!(of(90.0, 0.01, 0.0), Verdict::DoesNotFit);
        assert_eq!(of(90.0, 0.09, 0.0), Verdict::Open);
        // Most of it was left out for want of room, but without the rest it would have fitted.
        assert_eq!(of(94.0, 0.029, 0.0), Verdict::Open);
        assert_eq!(of(40.0, 0.3, 0.0), Verdict::DoesNotFit);
        // What sockets did not take the switch was not asked for.
        assert_eq!(of(0.0, 0.0, 1.0), Verdict::Open);
        assert_eq!(of(90.0, 0.03, 0.03), Verdict::Open);
        // Nor was it for anything by machines that were silent.
        assert_eq!(Observed::default().verdict(), Verdict::Open);
    }

    #[test]
    fn what_is_lost_or_comes_again_or_does_not_balance_is_not_whole() {
        let fine = Observed::default();
        assert!(fine.is_whole() && Observed { balanced: Some(true), ..fine }.is_whole());
        for broken in [
            Observed { lost: 1, ..fine },
            Observed { duplicates: 1, ..fine },
            Observed { balanced: Some(false), ..fine },
        ] {
            assert!(!broken.is_whole(), "{broken:?}");
        }
    }

    #[test]
    fn time_is_held_if_any_machine_is() {
        let one = |begin_ns, held: &[u32]| StatesSent {
            begin_ns,
            held: held.to_vec(),
            ..StatesSent::default()
        };
        // The second began two bins later: its third bin is the first one's fifth.
        let sent = [one(500, &[1, 0, 7]), one(20_000_600, &[3, 0, 1, 0])];
        assert_eq!(held(Span::from_millis(100), &sent), 0.3);
        // What lies beyond the end does not count.
        assert_eq!(held(Span::from_millis(30), &sent), 2.0 / 3.0);
        assert_eq!(held(SEC, &[]), 0.0);
    }

    #[test]
    fn a_trial_has_machines() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let bench = Bench { program: "none".into(), stop: &stop, progress: &() };
        let setup = Setup {
            switch: SwitchKind::Zovn,
            tunnel: Tunnel::None,
            underlay: Underlay::Cable,
            cores: 1,
            room: None,
        };
        let machine = |frame| Machine { frame, far: 0.0, visits: Vec::new() };
        let on = |setup: &Setup, machines| {
            let trials = [Trial { name: String::new(), machines }];
            run(&bench, setup, &trials).unwrap_err().to_string()
        };
        let told = |machines| on(&setup, machines);
        assert_eq!(told(Vec::new()), "a lab has 1 to 64 machines that send, not 0");
        assert!(told(vec![machine(512); 65]).contains("not 65"));
        assert!(told(vec![machine(9000)]).contains("9000"));
        for cores in [0, u32::MAX] {
            let told = on(&Setup { cores, ..setup }, vec![machine(512)]);
            assert!(told.contains(&format!("a lab on {cores} processors")), "{told}");
        }
    }
}
