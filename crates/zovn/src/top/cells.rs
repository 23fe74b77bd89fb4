//! Cells of the tables: figures of three digits, and words that fit.

use ratatui::style::Stylize;
use ratatui::text::Span;

/// A word that is too long for its cell loses its middle: names that begin alike mostly differ at
/// their ends.
pub fn abridged(mut cell: Vec<Span<'static>>, width: usize) -> Vec<Span<'static>> {
    if let [word] = &mut cell[..]
        && let letters = word.content.chars().collect::<Vec<_>>()
        && letters.len() > width
    {
        let (head, tail) = ((width - 1) / 2, width / 2);
        let (head, tail) = (&letters[..head], &letters[letters.len() - tail..]);
        word.content = head.iter().chain(&['…']).chain(tail).collect::<String>().into();
    }
    cell
}

/// A figure, dim if it is none.
pub fn figure(value: f64) -> Vec<Span<'static>> {
    vec![if value == 0.0 { "0".dim() } else { si(value).into() }]
}

/// Three significant digits and a prefix of the International System.
pub fn si(value: f64) -> String {
    let (mut value, mut prefix) = (value, "");
    for larger in ["k", "M", "G", "T", "P"] {
        // What would round up to 1000 is the next prefix's 1.
        if value < 999.5 {
            break;
        }
        (value, prefix) = (value / 1000.0, larger);
    }
    match (prefix, value) {
        ("", _) => format!("{value:.0}"),
        (_, ..9.995) => format!("{value:.2}{prefix}"),
        (_, ..99.95) => format!("{value:.1}{prefix}"),
        _ => format!("{value:.0}{prefix}"),
    }
}

/// A share, from 0 to 1, in percent.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 1.0 => "<1 %".into(),
        percent => format!("{percent:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (123_456.0, "123k"),
            (9.996e6, "10.0M"),
        ] {
            assert_eq!(si(value), text);
        }
    }

    #[test]
    fn names_that_begin_alike_do_not_look_alike() {
        let shown = |name: &'static str| abridged(vec![name.into()], 12)[0].content.to_string();
        assert_eq!(shown("kube-proxy-a"), "kube-proxy-a");
        assert_eq!(shown("kube-proxy-a1"), "kube-…oxy-a1");
        assert_ne!(shown("kube-proxy-a1"), shown("kube-proxy-a2"));
    }
}
