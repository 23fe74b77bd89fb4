//! No wake-up is lost, and none goes to who has left: driver and device, which sleep when they have
//! nothing to do, in all orders of their steps.
//!
//! A step is a look at a number that is shared, or a change of one. Each is seen by the other side
//! at once; that a processor may delay them is what the fences are for, which this does not try.

use std::sync::{Arc, Condvar, Mutex};

use proptest::prelude::*;

use super::chain::Chain;
use super::model::{Model, PIECES, at_each_step};

const DRIVER: usize = 0;
const DEVICE: usize = 1;

/// Who may do the next step.
struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    turn: usize,
    /// Who is next, and who after that; when it is empty, whoever is at it.
    order: Vec<bool>,
    sleeps: [bool; 2],
    /// Was woken, and has not slept since.
    woken: [bool; 2],
    done: [bool; 2],
    /// One sleeps, and nobody will wake it.
    stuck: bool,
}

impl State {
    fn can_go(&self, who: usize) -> bool {
        !self.sleeps[who] && !self.done[who]
    }

    /// Lets the other one go on, if anybody can.
    fn hand_over(&mut self, from: usize) {
        self.turn = 1 - from;
        self.stuck |= !self.can_go(self.turn) && self.sleeps.contains(&true);
    }
}

impl Stage {
    fn new(order: Vec<bool>) -> Self {
        let both = [false; 2];
        let state =
            State { turn: DRIVER, order, sleeps: both, woken: both, done: both, stuck: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Changes the state, then waits until it is this one's turn. `false` if it never will be.
    fn then_wait(&self, who: usize, change: impl FnOnce(&mut State)) -> bool {
        let mut state = self.state.lock().unwrap();
        change(&mut state);
        self.changed.notify_all();
        let state =
            self.changed.wait_while(state, |state| state.turn != who && !state.stuck).unwrap();
        !state.stuck
    }

    /// Before each step.
    fn step(&self, who: usize) {
        self.then_wait(who, |state| {
            let next = state.order.pop().map_or(who, usize::from);
            state.turn = if state.can_go(next) { next } else { who };
        });
    }

    /// Sleeps until it is woken, or was since the last time. `false` if nobody will.
    fn sleep(&self, who: usize) -> bool {
        let wakes = self.then_wait(who, |state| {
            if !state.woken[who] {
                state.sleeps[who] = true;
                state.hand_over(who);
            }
        });
        self.state.lock().unwrap().woken[who] = false;
        wakes
    }

    fn wake(&self, who: usize) {
        let mut state = self.state.lock().unwrap();
        (state.woken[who], state.sleeps[who]) = (true, false);
    }

    fn finish(&self, who: usize) {
        let mut state = self.state.lock().unwrap();
        state.done[who] = true;
        state.hand_over(who);
        self.changed.notify_all();
    }
}

/// One side's part, each of its steps in its turn.
fn act(stage: &Arc<Stage>, who: usize, part: impl FnOnce(&Stage)) {
    /// However it ends, the other one goes on.
    struct Finish<'a>(&'a Stage, usize);

    impl Drop for Finish<'_> {
        fn drop(&mut self) {
            at_each_step(None);
            self.0.finish(self.1);
        }
    }

    let _finish = Finish(stage, who);
    let kept = stage.clone();
    at_each_step(Some(Box::new(move || kept.step(who))));
    stage.then_wait(who, |_| {});
    part(stage);
}

/// A driver that sends so many frames, kicking after so many, and sleeps while its ring is full.
fn drive(stage: &Stage, model: &mut Model, frames: u32, pieces: u16, batch: u32) {
    let (mut sent, mut back) = (0, 0);
    while back < frames {
        let mut moved = false;
        for _ in 0..batch {
            let posted = sent < frames && model.post(pieces, sent);
            sent += u32::from(posted);
            moved |= posted;
        }
        if model.must_kick() {
            stage.wake(DEVICE);
        }
        while model.collect().is_some() {
            back += 1;
            moved = true;
        }
        if !moved && !model.ask() {
            if !stage.sleep(DRIVER) {
                return;
            }
            model.be_silent();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 500 }))]

    #[test]
    fn who_sleeps_is_woken(
        packed: bool,
        events: bool,
        size in prop_oneof![Just(2_u16), Just(4)],
        pieces in 1..=PIECES,
        frames in 1..14_u32,
        batches in (1..4_u32, 1..4_usize),
        order in prop::collection::vec(any::<bool>(), 0..400),
    ) {
        let pieces = pieces.min(size);
        let mut model = Model::new(if packed { size + 1 } else { size }, packed, events, false);
        let (mut ring, memory) = (model.ring(), model.memory());
        let stage = Arc::new(Stage::new(order));
        let device = move |stage: &Stage| {
            let mut chain = Chain::new(packed, false);
            let mut given = 0;
            while given < frames {
                let mut ids = Vec::new();
                while ids.len() < batches.1
                    && let Some(head) = ring.take(&memory, &mut chain).unwrap()
                {
                    ids.push(head.id);
                }
                given += ids.len() as u32;
                // In another order than they came.
                for &id in ids.iter().rev() {
                    ring.give_back(id, 0);
                }
                if ring.publish(&mut ()) {
                    stage.wake(DRIVER);
                }
                if ids.is_empty() && !ring.wait().unwrap() {
                    if !stage.sleep(DEVICE) {
                        return;
                    }
                    ring.be_silent();
                }
            }
        };
        let driver = |stage: &Stage| drive(stage, &mut model, frames, pieces, batches.0);
        std::thread::scope(|scope| {
            let on = &stage;
            scope.spawn(move || act(on, DEVICE, device));
            scope.spawn(move || act(on, DRIVER, driver));
        });
        prop_assert!(!stage.state.lock().unwrap().stuck, "somebody sleeps for ever");
        prop_assert!(model.posted.is_empty());
    }

    #[test]
    fn who_has_left_is_not_notified(
        packed: bool,
        events: bool,
        waits: bool,
        taken in 0..3_u32,
        missed in 0..8_u32,
        after in prop::collection::vec(1..3_u32, 1..4),
    ) {
        let mut model = Model::new(16, packed, events, false);
        let (mut ring, memory) = (model.ring(), model.memory());
        (0..taken).for_each(|frame| assert!(model.post(1, frame)));
        let mut chain = Chain::new(packed, false);
        while ring.take(&memory, &mut chain).unwrap().is_some() {}
        if waits {
            prop_assert_eq!(ring.wait(), Ok(false));
        }
        // Made available already, and not told of yet.
        (0..missed).for_each(|frame| assert!(model.post(1, taken + frame)));
        ring.leave();
        for (batch, count) in after.into_iter().enumerate() {
            (0..count).for_each(|frame| assert!(model.post(1, 8 + 2 * batch as u32 + frame)));
            prop_assert!(!model.must_kick());
        }
    }
}
