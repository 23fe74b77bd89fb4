//! Inputs that come and go quickly are held until they are calm.
//!
//! A port that is attached and detached ten times a second would have its agent sent a domain, and
//! told to drop it, each time. Here each change of an input counts, and what was counted halves
//! with time. An input that has changed too often is held: what it says is not passed on until the
//! count has fallen. So a change now and then is passed on at once, and one that flaps is passed on
//! once, when it has stopped. That is how RFC 2439 damps routes. What cannot wait is passed on at
//! once also then ([`Damper::press`]).
//!
//! ```text
//! count                held
//!   │        ╭╮╭╮╭╮╮
//!   │─ ─ ─ ╭─╯─ ─ ─ ╲ ─ ─ ─ ─ most
//!   │    ╭╮╯          ╲
//!   │─ ╭─╯─ ─ ─ ─ ─ ─ ─ ╲╮ ─  calm: what it says now is passed on
//!   └──┴─┴─┴┴┴┴┴─────────┴──▶ time
//! ```

use std::collections::{BTreeMap, BTreeSet};

use units::{Instant, Span};

/// When inputs are held, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// In what time a count halves. In between it falls evenly.
    pub half_life: Span,
    /// An input is held when more changes than these are counted.
    pub most: u32,
    /// It is passed on again when these are left.
    pub calm: u32,
    /// How long an input is held at most after its last change.
    pub longest: Span,
}

impl Default for Terms {
    /// A fourth change within a few seconds is held for half a minute; nothing is held for more
    /// than two.
    fn default() -> Self {
        let [half_life, longest] = [15, 120].map(Span::from_secs);
        Self { half_life, most: 3, calm: 1, longest }
    }
}

/// Counts are in parts of a change, so that they can fall smoothly.
const CHANGE: u64 = 1 << 10;

impl Terms {
    /// What is left of a count.
    fn left(&self, count: u64, after: Span) -> u64 {
        let [after, half_life] = [after, self.half_life].map(Span::as_nanos);
        let count = u32::try_from(after / half_life).ok().and_then(|it| count.checked_shr(it));
        let count = count.unwrap_or(0);
        let fallen = u128::from(count) * u128::from(after % half_life) / u128::from(2 * half_life);
        count - u64::try_from(fallen).expect("it is less than the count")
    }

    /// How long until an input with such a count is calm.
    fn until_calm(&self, mut count: u64) -> Span {
        let (calm, half_life) = (self.calm(), self.half_life.as_nanos());
        let mut wait = 0;
        while count / 2 > calm {
            count /= 2;
            wait += half_life;
        }
        let above = u128::from(count.saturating_sub(calm));
        let rest = (above * u128::from(2 * half_life)).div_ceil(u128::from(count.max(1)));
        Span::from_nanos(wait + u64::try_from(rest).expect("it is at most a half-life"))
    }

    fn calm(&self) -> u64 {
        CHANGE * u64::from(self.calm)
    }

    /// The count with one more change, which is at most as much as falls in the longest time.
    fn more(&self, count: u64) -> u64 {
        let (longest, half_life) = (self.longest.as_nanos(), self.half_life.as_nanos());
        let halvings = u32::try_from(longest / half_life).unwrap_or(u32::MAX).min(32);
        (count + CHANGE).min(self.calm() << halvings)
    }
}

#[derive(Debug)]
struct Input<V> {
    /// What was passed on last.
    told: V,
    /// What it says.
    says: V,
    count: u64,
    /// When it was counted.
    at: Instant,
    /// When it is calm, if it is held.
    held: Option<Instant>,
}

impl<V> Input<V> {
    /// Counts a change.
    fn count(&mut self, terms: &Terms, now: Instant) {
        self.count = terms.more(terms.left(self.count, now.since(self.at)));
        self.at = now;
    }
}

/// Inputs, each with what was passed on of it.
#[derive(Debug)]
pub struct Damper<K, V> {
    terms: Terms,
    inputs: BTreeMap<K, Input<V>>,
    /// Those that are held, by when they are calm.
    due: BTreeSet<(Instant, K)>,
}

impl<K: Clone + Ord, V: Clone + PartialEq> Damper<K, V> {
    /// No inputs.
    ///
    /// # Panics
    ///
    /// If the half-life is nothing, or the longest time is less: then nothing could be held.
    pub fn new(terms: Terms) -> Self {
        let half_life = terms.half_life;
        assert!(half_life > Span::from_nanos(0) && terms.longest >= half_life, "{terms:?}");
        assert!(terms.calm > 0 && terms.calm <= terms.most, "{terms:?}");
        Self { terms, inputs: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// Takes what an input says, and returns it if it is to be passed on now.
    pub fn offer(&mut self, now: Instant, key: K, value: V) -> Option<V> {
        let terms = self.terms;
        let Some(input) = self.inputs.get_mut(&key) else {
            let (told, says) = (value.clone(), value.clone());
            self.inputs.insert(key, Input { told, says, count: 0, at: now, held: None });
            return Some(value);
        };
        if input.says == value {
            return None;
        }
        input.count(&terms, now);
        input.says = value;
        if input.held.is_some() || input.count > CHANGE * u64::from(terms.most) {
            self.hold(key, now);
            return None;
        }
        input.told = input.says.clone();
        Some(input.told.clone())
    }

    /// Takes what an input says that cannot wait. It counts as a change, and is passed on now also
    /// if the input is held; what it says next is still held then.
    pub fn press(&mut self, now: Instant, key: K, value: V) -> Option<V> {
        let terms = self.terms;
        let Some(input) = self.inputs.get_mut(&key) else { return self.offer(now, key, value) };
        let (is_change, is_new) = (input.says != value, input.told != value);
        (input.told, input.says) = (value.clone(), value.clone());
        if is_change {
            input.count(&terms, now);
            if input.held.is_some() {
                self.hold(key, now);
            }
        }
        is_new.then_some(value)
    }

    /// Holds an input until it is calm, counted from now.
    fn hold(&mut self, key: K, now: Instant) {
        let input = self.inputs.get_mut(&key).expect("it is there");
        let at = now + self.terms.until_calm(input.count);
        if let Some(before) = input.held.replace(at) {
            self.due.remove(&(before, key.clone()));
        }
        self.due.insert((at, key));
    }

    /// An input that is calm by now and says something else than was passed on: that is to be
    /// passed on. Ask until there is none.
    pub fn poll(&mut self, now: Instant) -> Option<(K, V)> {
        while self.next_deadline().is_some_and(|at| at <= now) {
            let (_, key) = self.due.pop_first()?;
            let input = self.inputs.get_mut(&key)?;
            input.held = None;
            if input.says != input.told {
                input.told = input.says.clone();
                return Some((key, input.told.clone()));
            }
        }
        None
    }

    /// When to ask next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// How many inputs are known.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Forgets the inputs that say nothing which the next has to be compared with, as `is_idle`
    /// tells, and that have not changed for the longest time. None of them is held.
    pub fn sweep(&mut self, now: Instant, is_idle: impl Fn(&V) -> bool) {
        let longest = self.terms.longest;
        self.inputs
            .retain(|_, it| it.held.is_some() || now.since(it.at) < longest || !is_idle(&it.says));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_change_now_and_then_is_passed_on_at_once() {
        let mut damper = Damper::new(Terms::default());
        for second in 0..10 {
            let value = second % 2 == 0;
            assert_eq!(damper.offer(at(second * 30_000), "port", value), Some(value));
            assert_eq!(damper.offer(at(second * 30_000 + 1), "port", value), None);
        }
        assert_eq!(damper.next_deadline(), None);
    }

    #[test]
    fn what_flaps_is_passed_on_once_when_it_has_stopped() {
        let mut damper = Damper::new(Terms::default());
        let passed =
            (0..=100).filter(|it| damper.offer(at(it * 500), "port", it % 2 == 0).is_some());
        assert_eq!(passed.count(), 4, "the first, and three changes");
        assert_eq!(damper.poll(at(50_000)), None);
        let calm = damper.next_deadline().unwrap();
        assert!(calm > at(60_000) && calm <= at(170_000), "{calm:?}");
        assert_eq!(damper.poll(calm), Some(("port", true)));
        assert_eq!((damper.poll(calm), damper.next_deadline()), (None, None));
        // It is told as soon as it changes again, and held if it goes on.
        assert_eq!(damper.offer(at(400_000), "port", false), Some(false));
    }

    #[test]
    fn what_cannot_wait_is_passed_on_although_it_flaps() {
        let mut damper = Damper::new(Terms::default());
        let (mut came, mut went) = (0, 0);
        for it in 0..50 {
            came += u32::from(damper.press(at(it * 200), "port", true).is_some());
            went += u32::from(damper.offer(at(it * 200 + 100), "port", false).is_some());
        }
        assert_eq!((came, went), (3, 2), "what was not passed on needs not be taken back");
        // It says again what was passed on last, so nothing is left to pass on.
        assert_eq!(damper.press(at(10_000), "port", true), None);
        let calm = damper.next_deadline().unwrap();
        assert_eq!((damper.poll(calm), damper.next_deadline()), (None, None));
    }

    #[test]
    fn what_is_idle_for_long_is_forgotten() {
        let mut damper = Damper::new(Terms::default());
        for port in 0..100 {
            damper.press(at(0), port, true);
            if port > 0 {
                damper.offer(at(1), port, false);
            }
        }
        damper.sweep(at(60_000), |it| !it);
        assert_eq!(damper.len(), 100, "they may come back and go on");
        damper.sweep(at(121_000), |it| !it);
        assert_eq!(damper.len(), 1, "it is there still");
    }

    proptest! {
        /// Whoever asks at the deadlines knows what each input says once it has been calm for the
        /// longest time, and is not told more often than counts allow.
        #[test]
        fn what_was_told_is_what_inputs_say_when_they_are_calm(
            steps in proptest::collection::vec((0..40_000u64, 0..3u8, 0..3u8), 1..200),
        ) {
            let terms = Terms::default();
            let mut damper = Damper::new(terms);
            let (mut says, mut told) = (BTreeMap::new(), BTreeMap::new());
            let (mut now, mut many) = (0, 0);
            for (wait, key, value) in steps {
                now += wait / 20;
                while let Some(deadline) = damper.next_deadline().filter(|it| *it <= at(now)) {
                    if let Some((key, value)) = damper.poll(deadline) {
                        many += 1;
                        prop_assert!(told.insert(key, value) != Some(value));
                    }
                }
                says.insert(key, value);
                if let Some(value) = damper.offer(at(now), key, value) {
                    many += 1;
                    prop_assert!(told.insert(key, value) != Some(value));
                }
            }
            // Each input was told at once four times, and then as often as its count falls by one.
            let falls = now / 1000 / 5;
            prop_assert!(many <= 3 * (4 + falls), "{} in {} ms", many, now);
            let end = at(now) + terms.longest;
            while let Some((key, value)) = damper.poll(end) {
                told.insert(key, value);
            }
            prop_assert_eq!(damper.next_deadline(), None);
            prop_assert_eq!(told, says);
        }
    }
}
