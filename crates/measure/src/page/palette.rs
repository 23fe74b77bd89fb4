//! Which colour and which marker belong to a name.
//!
//! The hues are Okabe and Ito's ("Color Universal Design", 2008), which people with any kind of
//! colour vision tell apart; every hue also has its own marker, so that a page printed in grey
//! still reads. A name keeps its look through a whole page: the switches have theirs for ever,
//! other names get what is left in order of appearance.
//!
//! What follows a name's first word makes a variant of it: `zovn, reno` is drawn like `zovn`,
//! dashed.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::pixels::px;

/// The names that look the same on every page.
const KNOWN: [(&str, Hue); 6] = [
    ("zovn", Hue::Green),
    ("zovn-lossy", Hue::Blue),
    ("bridge", Hue::Orange),
    ("ovs", Hue::Purple),
    ("vpp", Hue::Sky),
    ("ideal", Hue::Grey),
];

/// What names that nobody knows share, in order of appearance. The last three belong to switches,
/// and are given only where a page shows none of them.
const SPARE: [Hue; 6] =
    [Hue::Vermillion, Hue::Sky, Hue::Yellow, Hue::Blue, Hue::Orange, Hue::Purple];
const ALWAYS_SPARE: usize = 3;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Hue {
    Green,
    Blue,
    Orange,
    Purple,
    Sky,
    Vermillion,
    Yellow,
    Grey,
}

/// How one name is drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Look {
    hue: Hue,
    /// 0 for the first name of this hue, 1 for the next: drawn dashed, or paler.
    variant: usize,
}

/// The hues of all names on a page.
#[derive(Debug, Default)]
pub(super) struct Palette {
    hues: BTreeMap<String, Hue>,
}

impl Palette {
    /// Gives each of `names` its hue.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let switches = names.iter().any(|name| known(first_word(name)).is_some());
        let spare = if switches { &SPARE[..ALWAYS_SPARE] } else { &SPARE[..] };
        let mut strangers: Vec<&str> = Vec::new();
        let hues = names.into_iter().map(|name| {
            let word = first_word(name);
            let hue = known(word).unwrap_or_else(|| {
                let place =
                    strangers.iter().position(|&stranger| stranger == word).unwrap_or_else(|| {
                        strangers.push(word);
                        strangers.len() - 1
                    });
                spare[place % spare.len()]
            });
            (name.to_owned(), hue)
        });
        Self { hues: hues.collect() }
    }

    /// The looks of names that are drawn in one chart, in their order.
    pub fn looks(&self, names: &[&str]) -> Vec<Look> {
        let mut seen = [0; 8];
        let looks = names.iter().map(|name| {
            let look = self.find(name).unwrap_or(Look { hue: Hue::Grey, variant: 0 });
            let variant = seen[look.hue as usize];
            seen[look.hue as usize] += 1;
            Look { variant, ..look }
        });
        looks.collect()
    }

    /// How `name` looks on its own, if it is drawn on this page or is one of the switches.
    pub fn find(&self, name: &str) -> Option<Look> {
        let hue = self.hues.get(name).copied().or_else(|| known(name))?;
        Some(Look { hue, variant: 0 })
    }
}

impl Look {
    /// The classes that the style sheet colours.
    pub fn class(self) -> String {
        let hue = match self.hue {
            Hue::Green => "green ours",
            Hue::Blue => "blue",
            Hue::Orange => "orange",
            Hue::Purple => "purple",
            Hue::Sky => "sky",
            Hue::Vermillion => "vermillion",
            Hue::Yellow => "yellow",
            Hue::Grey => "grey",
        };
        format!("look {hue} v{}", self.variant.min(2))
    }

    /// Whether this is the look of the switch that the page is about.
    pub fn is_ours(self) -> bool {
        self.hue == Hue::Green
    }

    /// What is drawn later covers the rest: ours covers its peers, and a thin ideal stays visible
    /// on top of ours.
    pub fn depth(self) -> u8 {
        match self.hue {
            Hue::Grey => 2,
            Hue::Green => 1,
            _ => 0,
        }
    }

    /// This look's marker at a point; `tip` is what a pointer that rests there reads.
    pub fn marker(self, x: f64, y: f64, tip: Option<&str>) -> Markup {
        let r = if self.is_ours() { 4.5 } else { 4.0 };
        let path = match self.hue {
            Hue::Grey => return html! {},
            Hue::Green => {
                return html! { circle.marker cx=(px(x)) cy=(px(y)) r=(r) { @if let Some(tip) = tip { title { (tip) } } } };
            }
            Hue::Blue => polygon(x, y, &[(-r, -r), (r, -r), (r, r), (-r, r)], 0.85),
            Hue::Orange => polygon(x, y, &[(0.0, -r), (r, r * 0.8), (-r, r * 0.8)], 1.15),
            Hue::Purple => polygon(x, y, &[(0.0, -r), (r, 0.0), (0.0, r), (-r, 0.0)], 1.25),
            Hue::Sky => polygon(x, y, &[(-r, -r * 0.8), (r, -r * 0.8), (0.0, r)], 1.15),
            Hue::Vermillion => polygon(x, y, &[(-r, -r), (r, -r), (-r, r), (r, r)], 0.95),
            Hue::Yellow => polygon(x, y, &[(-r, -r), (-r, r), (r, r), (r, -r), (0.0, 0.0)], 0.95),
        };
        html! { path.marker d=(path) { @if let Some(tip) = tip { title { (tip) } } } }
    }

    /// The patch of colour that stands before a name in a table.
    pub fn swatch(self) -> Markup {
        html! { span class={ "swatch " (self.class()) } aria-hidden="true" {} }
    }
}

/// A closed path through `corners`, seen from (x, y).
fn polygon(x: f64, y: f64, corners: &[(f64, f64)], size: f64) -> String {
    let corners =
        corners.iter().map(|(dx, dy)| format!("{},{}", px(x + dx * size), px(y + dy * size)));
    format!("M{}Z", corners.collect::<Vec<_>>().join("L"))
}

fn known(name: &str) -> Option<Hue> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|&(_, hue)| hue)
}

fn first_word(name: &str) -> &str {
    name.split([' ', ',', '·', '(', '/']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_looks_the_same_in_any_company() {
        let alone = Palette::new(["zovn"]);
        let crowd = Palette::new(["vpp", "bridge", "other", "zovn"]);
        for name in ["zovn", "bridge"] {
            assert_eq!(alone.find(name), crowd.find(name));
        }
    }

    #[test]
    fn variants_share_a_hue_and_differ_otherwise() {
        let names = ["zovn · cubic", "zovn · reno", "zovn-lossy"];
        let looks = Palette::new(names).looks(&names);
        assert!(looks[0].is_ours() && looks[1].is_ours() && !looks[2].is_ours());
        assert_ne!(looks[0], looks[1]);
    }

    #[test]
    fn strangers_get_what_is_left() {
        let names = ["a", "b", "c", "d"];
        let palette = Palette::new(names.into_iter().chain(["zovn"]));
        let looks = palette.looks(&names);
        assert!((0..4).all(|one| (0..one).all(|other| looks[one] != looks[other])), "{looks:?}");
        assert_eq!((looks[0].hue, looks[3].variant), (looks[3].hue, 1));
        assert!(palette.find("nobody").is_none());
        // Among themselves they have more.
        let looks = Palette::new(names).looks(&names);
        assert!(looks.iter().all(|look| look.variant == 0 && !look.is_ours()), "{looks:?}");
    }
}
