//! Cumulative distributions: which share of samples is at most so large.

use std::fmt::Write;

use figures::{MISSING, Unit};
use maud::{Markup, html};

use super::palette::Palette;
use super::pixels::px;
use super::scale::{Axis, Scale, finite};
use super::svg::{Plot, SIDE, Sample, TITLE_ROW, WIDTH, columns, gutter, legend, rows, svg};
use super::table::Table;

const HEIGHT: f64 = 260.0;

/// Steps of a curve that are closer than this, in pixels, are drawn as one.
const LEAST_STEP: f64 = 1.5;

/// The percentiles that the table beside the chart tells.
const TOLD: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// A cumulative distribution for each name.
#[derive(Clone, Debug)]
pub struct Cdf {
    pub(super) title: String,
    x: Axis,
    series: Vec<Curve>,
}

#[derive(Clone, Debug)]
struct Curve {
    name: String,
    /// `(value, share of samples that are at most that)`, both rising.
    steps: Vec<(f64, f64)>,
}

impl Cdf {
    /// An empty chart of how `x` is distributed.
    pub fn new(title: impl Into<String>, x: Axis) -> Self {
        Self { title: title.into(), x, series: Vec::new() }
    }

    /// A distribution: pairs of a value and the share, 0 to 1, of samples that are at most that.
    /// Both must rise.
    pub fn steps(
        mut self,
        name: impl Into<String>,
        steps: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let mut rising: Vec<(f64, f64)> = Vec::new();
        for (value, share) in steps {
            let (Some(value), Some(share)) = (finite(value), finite(share)) else { continue };
            let (least, base) = rising.last().copied().unwrap_or((value, 0.0));
            rising.push((value.max(least), share.clamp(0.0, 1.0).max(base)));
        }
        self.series.push(Curve { name: name.into(), steps: rising });
        self
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.series.iter().map(|curve| curve.name.as_str())
    }

    /// What the numbers of its table are.
    pub(super) fn subject(&self) -> String {
        self.x.subject()
    }

    pub(super) fn draw(&self, id: &str, palette: &Palette) -> Markup {
        let names: Vec<_> = self.names().collect();
        let looks = palette.looks(&names);
        let (legend, top) = legend(&names, &looks, Sample::Line);
        let (top, bottom) = (top + TITLE_ROW, top + TITLE_ROW + HEIGHT);
        let steps = || self.series.iter().flat_map(|curve| &curve.steps);
        let y = Axis::linear("share of samples", Unit::SHARE).reach(1.0).fit(
            steps().map(|step| step.1),
            bottom,
            top,
        );
        let y_ticks = rows(&y);
        let plot = Plot { left: gutter(&y_ticks), right: WIDTH - 1.0, top, bottom };
        let x = self.x.fit(steps().map(|step| step.0), plot.left + SIDE, plot.right - SIDE);
        let mut in_front: Vec<_> = looks.into_iter().zip(&self.series).collect();
        in_front.sort_by_key(|(look, _)| look.depth());
        let body = html! {
            (legend)
            (plot.y_axis(&y.title(), &y_ticks))
            (plot.x_axis(&x.title(), &columns(&x)))
            @for (look, curve) in in_front {
                g class=(look.class()) { path.line d=(curve.path(&x, &y)) {} }
            }
        };
        svg(id, &self.title, &self.describe(), bottom + 50.0, body)
    }

    pub(super) fn table(&self) -> Table {
        let heads = std::iter::once("").chain(TOLD.map(|(head, _)| head));
        self.series.iter().fold(Table::new(heads), |table, curve| {
            let cells = TOLD.iter().map(|&(_, share)| self.tell(curve, share));
            table.row(std::iter::once(curve.name.clone()).chain(cells))
        })
    }

    fn tell(&self, curve: &Curve, share: f64) -> String {
        curve.quantile(share).map_or_else(|| MISSING.into(), |value| self.x.unit.exact(value))
    }

    fn describe(&self) -> String {
        let mut text = format!("Cumulative distribution of {}.", self.x.label);
        for curve in &self.series {
            let _ = write!(text, " {}:", curve.name);
            for (head, share) in [TOLD[0], TOLD[3], TOLD[5]] {
                let _ = write!(text, " {head} {}", self.tell(curve, share));
            }
            text.push('.');
        }
        text
    }
}

impl Curve {
    /// The smallest value that at least `share` of the samples do not exceed.
    fn quantile(&self, share: f64) -> Option<f64> {
        self.steps
            .iter()
            .find(|step| step.1 >= share - 1e-12)
            .or(self.steps.last())
            .map(|step| step.0)
    }

    /// The curve as stairs: at each value it rises to that value's share. Many samples are thinned,
    /// but never at the end, where the tail is.
    fn path(&self, x: &Scale, y: &Scale) -> String {
        let mut path = String::new();
        let mut drawn = (f64::MIN, f64::MAX);
        for (index, &(value, share)) in self.steps.iter().enumerate() {
            let at = (x.place(value), y.place(share));
            if path.is_empty() {
                let _ = write!(path, "M{},{}V{}", px(at.0), px(y.place(0.0)), px(at.1));
            } else {
                let is_last = index + 1 == self.steps.len();
                let apart = (at.0 - drawn.0).abs() + (at.1 - drawn.1).abs();
                if !is_last && apart < LEAST_STEP {
                    continue;
                }
                let _ = write!(path, "H{}V{}", px(at.0), px(at.1));
            }
            drawn = at;
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let cdf = Cdf::new("", Axis::linear("", Unit::NONE))
            .steps("zovn", (1..=100).map(|n| (n.into(), f64::from(n) / 100.0)));
        let told = |share| cdf.series[0].quantile(share);
        assert_eq!([0.5, 0.95, 0.99, 1.0].map(told), [50.0, 95.0, 99.0, 100.0].map(Some));
    }

    #[test]
    fn a_million_samples_make_a_small_curve() {
        let axis = Axis::linear("", Unit::SECONDS);
        let cdf = Cdf::new("", axis)
            .steps("zovn", (1..=1_000_000).map(|n| (f64::from(n), f64::from(n) * 1e-6)));
        let drawn = cdf.draw("chart", &Palette::default()).into_string();
        assert!(drawn.len() < 20_000, "{}", drawn.len());
    }
}
