//! What all charts share: the frame, the axes, the legend, and how wide a text will be.

use maud::{Markup, html};

use super::palette::Look;
use super::pixels::px;
use super::scale::{Scale, Tick};

/// The width of every chart, in its own pixels.
pub(super) const WIDTH: f64 = 720.0;

/// The room above a plot for the title of its vertical axis.
pub(super) const TITLE_ROW: f64 = 32.0;

/// How far the first and the last place on a horizontal axis keep from the ends of the plot, so
/// that their labels fit.
pub(super) const SIDE: f64 = 22.0;

/// The size of most text, in the same pixels.
pub(super) const TEXT: f64 = 12.0;

/// The rectangle in which data is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// What stands before a name in a legend.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sample {
    Line,
    LineAndMarker,
    Marker,
    Patch,
}

/// About how wide `text` is. Fonts differ: this is on the generous side of most.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let narrow = |glyph: char| {
        matches!(glyph, ' ' | '.' | ',' | 'i' | 'l' | 'j' | 't' | 'f' | 'I' | '/' | '(' | ')')
    };
    let ems = |glyph: char| match glyph {
        glyph if narrow(glyph) => 0.38,
        'm' | 'w' | 'M' | 'W' | '%' | '–' | '×' | '−' | '<' | '>' => 0.95,
        // Ideographs and whatever else lies beyond the common alphabets take a full em.
        glyph if glyph > '\u{2fff}' => 1.0,
        _ => 0.62,
    };
    text.chars().map(ems).sum::<f64>() * size
}

/// `text`, cut short with an ellipsis where it is wider than `width`.
pub(super) fn shortened(text: &str, width: f64, size: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for glyph in text.chars() {
        if text_width(&out, size) + text_width(&format!("{glyph}…"), size) > width {
            break;
        }
        out.push(glyph);
    }
    out.trim_end().to_owned() + "…"
}

/// The drawing itself, which says what it shows to those who cannot see it.
pub(super) fn svg(id: &str, title: &str, description: &str, height: f64, body: Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox={ "0 0 " (WIDTH) " " (px(height)) }
            aria-labelledby={ (id) "-title " (id) "-desc" } {
            title id={ (id) "-title" } { (title) }
            desc id={ (id) "-desc" } { (description) }
            (body)
        }
    }
}

/// The names with their looks in rows; also where the rows end.
pub(super) fn legend(names: &[&str], looks: &[Look], sample: Sample) -> (Markup, f64) {
    const ROW: f64 = 22.0;
    let lead = if sample == Sample::Patch { 20.0 } else { 34.0 };
    let mut places = Vec::new();
    let (mut x, mut y) = (0.0, 0.0);
    for (&name, &look) in names.iter().zip(looks) {
        let text = shortened(name, 260.0, TEXT);
        let width = lead + text_width(&text, TEXT) + 18.0;
        if x > 0.0 && x + width > WIDTH {
            (x, y) = (0.0, y + ROW);
        }
        places.push((x, y + 11.0, look, text));
        x += width;
    }
    let body = html! {
        @for (x, y, look, text) in places {
            g class=(look.class()) {
                @if sample == Sample::Patch {
                    rect.bar x=(px(x + 1.0)) y=(px(y - 6.0)) width="12" height="12" rx="2" {}
                }
                @if matches!(sample, Sample::Line | Sample::LineAndMarker) {
                    path.line d={ "M" (px(x + 1.0)) "," (px(y)) "h26" } {}
                }
                @if matches!(sample, Sample::Marker | Sample::LineAndMarker) { (look.marker(x + 14.0, y, None)) }
                text x=(px(x + lead)) y=(px(y + 4.0)) { (text) }
            }
        }
    };
    (body, if names.is_empty() { 0.0 } else { y + ROW + 4.0 })
}

/// Ticks of a vertical axis; more would stand too close.
pub(super) fn rows(scale: &Scale) -> Vec<Tick> {
    scale.ticks(|_| 24.0)
}

/// Ticks of a horizontal axis whose labels leave each other some air.
pub(super) fn columns(scale: &Scale) -> Vec<Tick> {
    scale.ticks(|text| text_width(text, TEXT) + 16.0)
}

/// How much room the labels of a vertical axis take.
pub(super) fn gutter(ticks: &[Tick]) -> f64 {
    ticks.iter().map(|tick| text_width(&tick.text, TEXT)).fold(16.0, f64::max) + 8.0
}

impl Plot {
    /// Grid lines across the plot, their labels to its left, and the axis' title above its corner.
    pub fn y_axis(&self, title: &str, ticks: &[Tick]) -> Markup {
        html! {
            text.axis x="0" y=(px(self.top - 20.0)) { (shortened(title, WIDTH, TEXT)) }
            @for tick in ticks {
                path.grid d={ "M" (px(self.left)) "," (px(tick.at)) "H" (px(self.right)) } {}
                text.tick.end x=(px(self.left - 8.0)) y=(px(tick.at + 4.0)) { (tick.text) }
            }
        }
    }

    /// The base line with its ticks below it, and the axis' title under their middle.
    pub fn x_axis(&self, title: &str, ticks: &[Tick]) -> Markup {
        html! {
            path.base d={ "M" (px(self.left)) "," (px(self.bottom)) "H" (px(self.right)) } {}
            @for tick in ticks {
                path.base d={ "M" (px(tick.at)) "," (px(self.bottom)) "v5" } {}
                text.tick.middle x=(px(tick.at)) y=(px(self.bottom + 19.0)) { (tick.text) }
            }
            text.axis.middle x=(px((self.left + self.right) / 2.0)) y=(px(self.bottom + 42.0)) {
                (shortened(title, WIDTH, TEXT))
            }
        }
    }

    /// A dashed line above the shelf that a logarithmic axis sets aside for zero.
    pub fn y_shelf(&self, scale: &Scale) -> Markup {
        html! {
            @if let Some(y) = scale.shelf() {
                path.shelf d={ "M" (px(self.left)) "," (px(y + 8.0)) "H" (px(self.right)) } {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        assert_eq!(
            ["0", "0", "12.3", "720"].map(str::to_owned),
            [0.0, -0.01, 12.345, 720.0].map(px)
        );
    }

    #[test]
    fn long_texts_are_cut_to_their_room() {
        assert_eq!(shortened("zovn", 100.0, TEXT), "zovn");
        let cut = shortened(&"wide ".repeat(20), 100.0, TEXT);
        assert!(cut.ends_with('…') && text_width(&cut, TEXT) <= 100.0, "{cut}");
    }
}
