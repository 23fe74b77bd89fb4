//! A number that is known to lie between two others.

use core::fmt;

/// Two numbers between which the exact one lies, or which it equals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// It is no less than this.
    pub low: f64,
    /// It is no more than this.
    pub high: f64,
}

impl Bracket {
    /// Whether `value` may be the exact one.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The width as a part of the upper end: 0 if both ends are equal, 1 if the lower end is 0.
    pub fn width(self) -> f64 {
        if self.high > self.low { (self.high - self.low) / self.high } else { 0.0 }
    }

    /// The number halfway.
    pub fn middle(self) -> f64 {
        self.low + (self.high - self.low) / 2.0
    }

    /// Made wider by a part of each end.
    pub(crate) fn widened(self, part: f64) -> Self {
        Self { low: self.low * (1.0 - part), high: self.high * (1.0 + part) }
    }

    /// A probability is at most 1.
    pub(crate) fn probability(self) -> Self {
        Self { low: self.low.clamp(0.0, 1.0), high: self.high.clamp(0.0, 1.0) }
    }
}

/// The chance that at least one of several things happens, whatever they have to do with each
/// other: no less than the likeliest, no more than their sum (Boole's inequality).
impl FromIterator<Bracket> for Bracket {
    fn from_iter<I: IntoIterator<Item = Bracket>>(brackets: I) -> Self {
        let none = Self { low: 0.0, high: 0.0 };
        brackets
            .into_iter()
            .fold(none, |all, it| Self { low: all.low.max(it.low), high: all.high + it.high })
            .probability()
    }
}

impl fmt::Display for Bracket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2e} to {:.2e}", self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_of_several_is_no_likelier_than_their_sum_and_no_less_likely_than_one() {
        let one = Bracket { low: 0.1, high: 0.2 };
        let other = Bracket { low: 0.3, high: 0.9 };
        assert_eq!(Bracket::from_iter([one, other]), Bracket { low: 0.3, high: 1.0 });
        assert_eq!(Bracket::from_iter([]), Bracket { low: 0.0, high: 0.0 });
    }

    #[test]
    fn width_is_a_part_of_the_upper_end() {
        assert_eq!(Bracket { low: 0.75, high: 1.0 }.width(), 0.25);
        assert_eq!(Bracket { low: 0.0, high: 0.0 }.width(), 0.0);
    }
}
