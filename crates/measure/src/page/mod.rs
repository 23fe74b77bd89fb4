//! Measurements as one page that anybody can open.
//!
//! A [`Page`] is a sequence of headings, sentences, charts and tables. It renders to a single HTML
//! file that fetches nothing and runs nothing: the charts are drawn here, as SVG. It follows the
//! reader's light or dark preference, prints, and says in words and in tables what its charts show.
//!
//! ```text
//!     values in base units ─▶ Axis (unit, scale) ─▶ Lines, Bars, Boxes, Cdf, Heat, Matrix ─▶ Page ─▶ one String of HTML
//! ```
//!
//! A name (usually a switch) has the same colour and marker wherever it appears; see
//! [`Page::chart`]. Values that are not finite are left out, zero is shown on every scale, and no
//! number is so small that it prints as zero. The page knows nothing of what was measured.

mod bars;
mod boxes;
mod cdf;
mod heat;
mod lines;
mod matrix;
mod palette;
mod pixels;
mod scale;
mod svg;
mod table;

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use bars::Bars;
pub use boxes::{Boxes, Whiskered};
pub use cdf::Cdf;
pub use figures::{Unit, bar, count, percent, si};
pub use heat::Heat;
pub use lines::Lines;
pub use matrix::{Cell, Matrix};
pub use scale::Axis;
pub use table::Table;

use palette::Palette;

/// The style sheet, in the page itself.
const STYLE: &str = include_str!("style.css");

/// Tables of up to so many rows are open from the start.
const OPEN_ROWS: usize = 8;

/// A page in the making. Every method adds to its end.
///
/// ```
/// use measure::page::{Axis, Bars, Page, Unit};
///
/// let lost = Bars::new("Lost frames by switch", Axis::linear("lost", Unit::FRAMES))
///     .bar("bridge", 7_224_207.0)
///     .bar("zovn", 0.0);
/// let html = Page::new("Loss").lead("Two senders flood one receiver.").chart(lost).render();
/// assert!(html.contains("7,224,207"));
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
enum Block {
    Lead(String),
    Section { heading: String, text: String },
    Text(String),
    Note(String),
    Command(String),
    Facts(Vec<(String, String)>),
    Chart(Chart),
    Table(Table),
}

/// Any of the charts.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Something against something else.
    Lines(Lines),
    /// Names compared.
    Bars(Bars),
    /// Names compared by many values of each.
    Boxes(Boxes),
    /// How something is distributed.
    Cdf(Cdf),
    /// Where and when there is how much of something.
    Heat(Heat),
    /// What each did with each.
    Matrix(Matrix),
}

impl Page {
    /// An empty page.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), blocks: Vec::new() }
    }

    /// The sentence under the title that says what the reader will find.
    pub fn lead(self, text: impl Into<String>) -> Self {
        self.with(Block::Lead(text.into()))
    }

    /// A heading, and a paragraph under it unless `text` is empty.
    pub fn section(self, heading: impl Into<String>, text: impl Into<String>) -> Self {
        self.with(Block::Section { heading: heading.into(), text: text.into() })
    }

    /// A paragraph.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(Block::Text(text.into()))
    }

    /// A remark in small type.
    pub fn note(self, text: impl Into<String>) -> Self {
        self.with(Block::Note(text.into()))
    }

    /// The command line that gives these figures again.
    pub fn command(self, line: impl Into<String>) -> Self {
        self.with(Block::Command(line.into()))
    }

    /// Pairs of a name and a value, such as the environment of a measurement.
    pub fn facts(
        self,
        facts: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        self.with(Block::Facts(
            facts.into_iter().map(|(name, fact)| (name.into(), fact.into())).collect(),
        ))
    }

    /// A chart, with a table of its numbers.
    ///
    /// The names of its series decide how they look, here and on every other page: `zovn`,
    /// `zovn-lossy`, `bridge`, `ovs`, `vpp` and `ideal` have colours of their own, other names get
    /// the rest in order of appearance. A name's first word (up to a blank, a comma or a dot in the
    /// middle) decides: `zovn · reno` is a variant of `zovn`, dashed or paler.
    pub fn chart(self, chart: impl Into<Chart>) -> Self {
        self.with(Block::Chart(chart.into()))
    }

    /// A table.
    pub fn table(self, table: Table) -> Self {
        self.with(Block::Table(table))
    }

    /// The page as one HTML document.
    pub fn render(&self) -> String {
        let charts = self.blocks.iter().filter_map(|block| match block {
            Block::Chart(chart) => Some(chart),
            _ => None,
        });
        let palette = Palette::new(charts.flat_map(Chart::names));
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy"
                        content="default-src 'none'; style-src 'unsafe-inline'; img-src data:";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    link rel="icon" href="data:,";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        h1 { (self.title) }
                        @for (index, block) in self.blocks.iter().enumerate() {
                            (block.draw(&format!("b{index}"), &palette))
                        }
                    }
                }
            }
        };
        page.into_string()
    }

    fn with(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}

impl Block {
    /// This block as HTML; `id` is its own on the page.
    fn draw(&self, id: &str, palette: &Palette) -> Markup {
        html! {
            @match self {
                Self::Lead(text) => p.lead { (text) },
                Self::Section { heading, text } => {
                    h2 { (heading) }
                    @if !text.is_empty() { p { (text) } }
                },
                Self::Text(text) => p { (text) },
                Self::Note(text) => p.note { (text) },
                Self::Command(line) => pre { code { (line) } },
                Self::Facts(facts) => dl {
                    @for (name, fact) in facts { div { dt { (name) } dd { (fact) } } }
                },
                Self::Chart(chart) => (chart.draw(id, palette)),
                Self::Table(table) => (table.draw(palette)),
            }
        }
    }
}

impl Chart {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Lines(chart) => chart.names().collect(),
            Self::Bars(chart) => chart.names().collect(),
            Self::Boxes(chart) => chart.names().collect(),
            Self::Cdf(chart) => chart.names().collect(),
            Self::Matrix(chart) => chart.names().collect(),
            Self::Heat(_) => Vec::new(),
        }
    }

    fn draw(&self, id: &str, palette: &Palette) -> Markup {
        let (title, subject, svg, table) = match self {
            Self::Lines(chart) => {
                (&chart.title, chart.subject(), chart.draw(id, palette), chart.table())
            }
            Self::Bars(chart) => {
                (&chart.title, chart.subject(), chart.draw(id, palette), chart.table())
            }
            Self::Boxes(chart) => {
                (&chart.title, chart.subject(), chart.draw(id, palette), chart.table())
            }
            Self::Cdf(chart) => {
                (&chart.title, chart.subject(), chart.draw(id, palette), chart.table())
            }
            Self::Matrix(chart) => {
                (&chart.title, chart.subject(), chart.draw(palette), chart.table())
            }
            Self::Heat(chart) => (&chart.title, chart.subject(), chart.draw(id), chart.table()),
        };
        // A matrix says its numbers itself.
        let is_told = matches!(self, Self::Matrix(_));
        html! {
            figure {
                figcaption { (title) }
                div.scroll tabindex="0" { (svg) }
                @if !is_told {
                    details open[table.len() <= OPEN_ROWS] {
                        summary { "Numbers: " (subject) }
                        (table.draw(palette))
                    }
                }
            }
        }
    }
}

/// Lines of which all is at one place are bars.
impl From<Lines> for Chart {
    fn from(chart: Lines) -> Self {
        chart.as_bars().map_or(Self::Lines(chart), Self::Bars)
    }
}

impl From<Bars> for Chart {
    fn from(chart: Bars) -> Self {
        Self::Bars(chart)
    }
}

impl From<Boxes> for Chart {
    fn from(chart: Boxes) -> Self {
        Self::Boxes(chart)
    }
}

impl From<Cdf> for Chart {
    fn from(chart: Cdf) -> Self {
        Self::Cdf(chart)
    }
}

impl From<Matrix> for Chart {
    fn from(chart: Matrix) -> Self {
        Self::Matrix(chart)
    }
}

impl From<Heat> for Chart {
    fn from(chart: Heat) -> Self {
        Self::Heat(chart)
    }
}

#[cfg(test)]
mod tests;
