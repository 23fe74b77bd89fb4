//! Axes: from values to places, and the round numbers in between.

use figures::{Unit, grouped};

/// How many pixels a logarithmic axis sets aside for zero, which has no logarithm.
const SHELF: f64 = 26.0;

/// Values beyond this are drawn as this: their squares and differences must stay finite.
const HUGE: f64 = 1e100;

/// What an axis shows: a label, a unit and a scale.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(super) label: String,
    pub(super) unit: Unit,
    kind: Kind,
    reach: Option<f64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Linear,
    /// Marked at powers of two.
    Log2,
    /// Marked at powers of ten, and at their double and quintuple where there is room.
    Log10,
}

impl Axis {
    /// Equal steps, zero included.
    pub fn linear(label: impl Into<String>, unit: Unit) -> Self {
        Self { label: label.into(), unit, kind: Kind::Linear, reach: None }
    }

    /// Equal steps for each doubling, marked at powers of two: for sizes.
    pub fn log2(label: impl Into<String>, unit: Unit) -> Self {
        Self { kind: Kind::Log2, ..Self::linear(label, unit) }
    }

    /// Equal steps for each factor of ten. Zeros lie on a shelf of their own below the smallest
    /// value.
    pub fn log10(label: impl Into<String>, unit: Unit) -> Self {
        Self { kind: Kind::Log10, ..Self::linear(label, unit) }
    }

    /// Goes at least to `value`, whatever the data: 1 for shares of a whole.
    pub fn reach(self, value: f64) -> Self {
        Self { reach: finite(value), ..self }
    }

    /// What the axis shows, for the head of a table.
    pub(super) fn subject(&self) -> String {
        joined(&self.label, self.unit.noun().unwrap_or_default())
    }

    /// Fits this axis to `values` and lays it out between the pixels `from` (smallest) and `to`
    /// (largest).
    pub(super) fn fit(&self, values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Scale {
        let values: Vec<f64> = values.into_iter().chain(self.reach).filter_map(finite).collect();
        let highest = values.iter().copied().fold(f64::MIN, f64::max);
        let (low, high) = match self.kind {
            Kind::Linear => linear_range(&values),
            Kind::Log2 => log_range(&values, power_of_two),
            Kind::Log10 => log_range(&values, one_two_five),
        };
        let is_log = matches!(self.kind, Kind::Log2 | Kind::Log10);
        let shelf = is_log && values.iter().any(|&value| value <= 0.0) && highest > 0.0;
        Scale { axis: self.clone(), low, high, from, to, shelf }
    }
}

/// An axis that knows its data and its place on the page.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    axis: Axis,
    /// The smallest and the largest value, as the scale sees them: logarithms perhaps.
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    shelf: bool,
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub at: f64,
    pub text: String,
}

impl Scale {
    /// Where `value` lies, always between the ends of the axis.
    pub fn place(&self, value: f64) -> f64 {
        let Some(value) = finite(value) else { return self.from };
        let seen = match self.axis.kind {
            Kind::Linear => value,
            Kind::Log2 | Kind::Log10 if value <= 0.0 => return self.from,
            Kind::Log2 => value.log2(),
            Kind::Log10 => value.log10(),
        };
        let share = ((seen - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.floor() + share * (self.to - self.floor())
    }

    /// Where the bar of `zero` ends and all others start.
    pub fn base(&self) -> f64 {
        if self.axis.kind == Kind::Linear { self.place(0.0) } else { self.from }
    }

    /// Where zero's shelf ends, if there is one.
    pub fn shelf(&self) -> Option<f64> {
        self.shelf.then(|| self.floor())
    }

    /// The axis' title, with the unit that its ticks are in, and what its steps are unless they are
    /// equal.
    pub fn title(&self) -> String {
        let noun = || self.axis.unit.noun().unwrap_or_default().to_owned();
        match self.axis.kind {
            Kind::Linear => joined(&self.axis.label, &self.axis.unit.title(self.largest())),
            Kind::Log2 | Kind::Log10 => joined(&joined(&self.axis.label, &noun()), "log scale"),
        }
    }

    /// Round values to mark: as many as fit, where a label takes `room` pixels along the axis.
    pub fn ticks(&self, room: impl Fn(&str) -> f64) -> Vec<Tick> {
        let fits = |ticks: &[Tick]| {
            ticks.windows(2).all(|pair| {
                let needed = (room(&pair[0].text) + room(&pair[1].text)) / 2.0;
                (pair[1].at - pair[0].at).abs() >= needed
            })
        };
        let zero = self.shelf.then(|| Tick { at: self.from, text: self.axis.unit.brief(0.0) });
        // A shelf is narrow: a label that would touch zero's gives way to it, and no others do.
        let is_clear = |tick: &Tick| {
            zero.as_ref().is_none_or(|zero| {
                (tick.at - zero.at).abs() >= (room(&zero.text) + room(&tick.text)) / 2.0
            })
        };
        let mut choice = Vec::new();
        for coarseness in 0..128 {
            let marks = self.marks(coarseness).into_iter().filter(is_clear);
            choice = zero.iter().cloned().chain(marks).collect();
            if choice.len() <= 9 && fits(&choice) {
                break;
            }
        }
        choice
    }

    /// The ticks at a step of `coarseness`: the larger, the fewer.
    fn marks(&self, coarseness: i32) -> Vec<Tick> {
        let unit = self.axis.unit;
        let tick = |value: f64, text: String| Tick { at: self.place(value), text };
        let exponents = || {
            let stride = usize::try_from(coarseness.max(1)).unwrap_or(1);
            (self.low.round() as i32..=self.high.round() as i32).step_by(stride)
        };
        match self.axis.kind {
            Kind::Linear => {
                let step = step_for((self.high - self.low) / 8.0, coarseness);
                let (factor, sign) = unit.scaled(self.largest());
                let decimals =
                    (-(step / factor * 1.000_001).log10().floor()).clamp(0.0, 12.0) as usize;
                let first = (self.low / step - 1e-6).ceil() as i64;
                let last = (self.high / step + 1e-6).floor() as i64;
                let value = |index: i64| index as f64 * step;
                (first..=last)
                    .map(|index| tick(value(index), plain(value(index) / factor, decimals) + sign))
                    .collect()
            }
            Kind::Log2 => {
                exponents().map(|n| tick(2f64.powi(n), unit.brief(2f64.powi(n)))).collect()
            }
            Kind::Log10 if coarseness == 0 => (self.low.floor() as i32..=self.high.ceil() as i32)
                .flat_map(|n| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(n)))
                .filter(|value| (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10()))
                .map(|value| tick(value, unit.brief(value)))
                .collect(),
            Kind::Log10 => (self.low.ceil() as i32..=self.high.floor() as i32)
                .step_by(usize::try_from(coarseness).unwrap_or(1))
                .map(|n| tick(10f64.powi(n), unit.brief(10f64.powi(n))))
                .collect(),
        }
    }

    /// The largest magnitude on a linear axis.
    fn largest(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// The pixel of the smallest value that has a place of its own.
    fn floor(&self) -> f64 {
        if self.shelf { self.from + SHELF.copysign(self.to - self.from) } else { self.from }
    }
}

/// `value`, if it can be drawn at all, within bounds that keep arithmetic finite.
pub(super) fn finite(value: f64) -> Option<f64> {
    let tiny = value.abs() < 1.0 / HUGE;
    value.is_finite().then(|| if tiny { 0.0 } else { value.clamp(-HUGE, HUGE) })
}

/// From zero to the first round number that holds everything.
fn linear_range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(0.0, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    if low == high {
        return (0.0, 1.0);
    }
    let step = step_for((high - low) / 8.0, 0);
    ((low / step).floor() * step, (high / step - 1e-9).ceil() * step)
}

/// The logarithms of the round numbers around all positive values.
fn log_range(values: &[f64], round: impl Fn(f64, bool) -> f64) -> (f64, f64) {
    let positive = || values.iter().copied().filter(|&value| value > 0.0);
    let Some(least) = positive().reduce(f64::min) else { return (0.0, 1.0) };
    let most = positive().fold(least, f64::max);
    let (low, high) = (round(least, false), round(most, true));
    if high - low < 1e-9 { (low - 1.0, high + 1.0) } else { (low, high) }
}

/// The binary logarithm of the power of two below or above `value`.
fn power_of_two(value: f64, up: bool) -> f64 {
    let log = value.log2();
    if up { (log - 1e-9).ceil() } else { (log + 1e-9).floor() }
}

/// The decimal logarithm of the 1, 2 or 5 times a power of ten below or above `value`.
fn one_two_five(value: f64, up: bool) -> f64 {
    let log = value.log10();
    let decade = log.floor();
    let steps = [0.0, 2f64.log10(), 5f64.log10(), 1.0].map(|part| decade + part);
    let found = if up {
        steps.into_iter().find(|&step| step >= log - 1e-9)
    } else {
        steps.into_iter().rev().find(|&step| step <= log + 1e-9)
    };
    found.unwrap_or(log)
}

/// The `coarser`-th round step (1, 2 or 5 times a power of ten) that is at least `least`.
fn step_for(least: f64, coarser: i32) -> f64 {
    let decade = (least.log10() + 1e-9).floor();
    let digit = least / 10f64.powf(decade);
    let start = [1.0, 2.0, 5.0].iter().position(|&step| step >= digit - 1e-6).unwrap_or(3) as i32;
    let place = start + coarser;
    [1.0, 2.0, 5.0][place.rem_euclid(3) as usize] * 10f64.powi(decade as i32 + place.div_euclid(3))
}

/// A label with its unit.
fn joined(label: &str, unit: &str) -> String {
    let separator = if label.is_empty() || unit.is_empty() { "" } else { ", " };
    format!("{label}{separator}{unit}")
}

/// `value` with so many decimals; zero goes without.
fn plain(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    match (is_zero, value < 0.0) {
        (true, _) => "0".into(),
        (false, true) => format!("−{}", grouped(&text)),
        (false, false) => grouped(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(axis: Axis, values: &[f64]) -> Vec<String> {
        let scale = axis.fit(values.iter().copied(), 0.0, 600.0);
        scale
            .ticks(|text| 10.0 + 7.0 * text.chars().count() as f64)
            .into_iter()
            .map(|tick| tick.text)
            .collect()
    }

    #[test]
    fn linear_ticks_step_by_one_two_or_five() {
        assert_eq!(
            texts(Axis::linear("", Unit::NONE), &[0.0, 7.3]),
            ["0", "1", "2", "3", "4", "5", "6", "7", "8"]
        );
        assert_eq!(
            texts(Axis::linear("", Unit::NONE), &[90.0]),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            texts(Axis::linear("", Unit::SECONDS), &[0.002]),
            ["0", "0.5", "1.0", "1.5", "2.0"]
        );
        let shares = texts(Axis::linear("", Unit::SHARE).reach(1.0), &[0.1]);
        assert_eq!(shares, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
    }

    #[test]
    fn the_title_says_which_prefix_the_ticks_are_in() {
        let axis = Axis::linear("injected", Unit::FRAMES_PER_SEC);
        assert_eq!(axis.fit([480_000.0], 0.0, 1.0).title(), "injected, k frames/s");
        let title = |axis: Axis| axis.fit([1e6], 0.0, 1.0).title();
        assert_eq!(title(Axis::log10("lost", Unit::FRAMES)), "lost, frames, log scale");
        assert_eq!(title(Axis::log10("mean", Unit::SECONDS)), "mean, log scale");
        assert_eq!(title(Axis::log2("size", Unit::NONE)), "size, log scale");
    }

    #[test]
    fn logarithms_are_marked_at_powers() {
        assert_eq!(
            texts(Axis::log2("", Unit::NONE), &[2.0, 64.0]),
            ["2", "4", "8", "16", "32", "64"]
        );
        assert_eq!(
            texts(Axis::log10("", Unit::SECONDS), &[0.0012, 0.04]),
            ["1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms"]
        );
        assert_eq!(texts(Axis::log10("", Unit::FRAMES), &[1.0, 1e6]).len(), 7);
    }

    #[test]
    fn a_label_beside_zeros_shelf_costs_the_others_nothing() {
        let scale = Axis::log10("", Unit::FRAMES).fit([0.0, 8_000.0, 12_000.0], 0.0, 600.0);
        let ticks = scale.ticks(|text| 20.0 + 7.0 * text.chars().count() as f64);
        let texts: Vec<_> = ticks.into_iter().map(|tick| tick.text).collect();
        let brief = |value| Unit::FRAMES.brief(value);
        assert_eq!(texts, [brief(0.0), brief(10_000.0), brief(20_000.0)]);
    }

    #[test]
    fn equal_ratios_are_equally_far_apart() {
        let scale = Axis::log10("", Unit::NONE).fit([1.0, 10_000.0], 0.0, 400.0);
        for (value, place) in [(1.0, 0.0), (10.0, 100.0), (100.0, 200.0), (10_000.0, 400.0)] {
            assert!((scale.place(value) - place).abs() < 1e-6, "{value}");
        }
    }

    #[test]
    fn zero_has_a_shelf_on_a_logarithmic_axis() {
        let scale = Axis::log10("", Unit::FRAMES).fit([0.0, 1.0, 1000.0], 300.0, 0.0);
        assert_eq!(scale.place(0.0), 300.0);
        assert_eq!(scale.shelf(), Some(300.0 - SHELF));
        assert!((scale.place(1.0) - (300.0 - SHELF)).abs() < 1e-6);
        assert_eq!(scale.ticks(|_| 12.0)[0], Tick { at: 300.0, text: "0".into() });
    }

    proptest! {
        #[test]
        fn everything_lands_on_the_axis_in_order(
            values in prop::collection::vec(any::<f64>(), 0..8), kind in 0..3,
        ) {
            let axis = match kind {
                0 => Axis::linear("", Unit::SECONDS),
                1 => Axis::log2("", Unit::NONE),
                _ => Axis::log10("", Unit::FRAMES),
            };
            let scale = axis.fit(values.iter().copied(), 0.0, 600.0);
            let mut sorted: Vec<f64> = values.into_iter().filter_map(finite).collect();
            sorted.sort_by(f64::total_cmp);
            let places: Vec<f64> = sorted.iter().map(|&value| scale.place(value)).collect();
            prop_assert!(places.iter().all(|place| (0.0..=600.0).contains(place)), "{places:?}");
            prop_assert!(places.is_sorted(), "{places:?}");
            let ticks = scale.ticks(|text| 7.0 * text.chars().count() as f64);
            prop_assert!(ticks.len() <= 9, "{ticks:?}");
            for tick in &ticks {
                prop_assert!((0.0..=600.0).contains(&tick.at), "{tick:?}");
                prop_assert!(!tick.text.contains("NaN") && !tick.text.contains("inf"), "{tick:?}");
            }
        }
    }
}
