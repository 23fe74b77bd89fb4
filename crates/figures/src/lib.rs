//! Numbers as people read them: three digits, an SI prefix, a unit.
//!
//! The same functions serve pages and terminal tables, so a figure reads alike in both. Two
//! promises hold everywhere: what is not zero never prints as zero, and a share below one never
//! prints as 100 %. Times are told as dates.

#![forbid(unsafe_code)]

/// What stands in for a number that does not exist: infinite, not a number, or not measured.
pub const MISSING: &str = "–";

/// What a value counts, in base units: seconds and not milliseconds, bits per second and not
/// megabits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unit {
    name: &'static str,
    style: Style,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Style {
    /// Small values take m, µ and n; large ones are grouped, for nobody says kiloseconds.
    Time,
    /// An SI symbol that takes large prefixes without a space: `1.5 Gbit/s`.
    Symbol,
    /// A noun; the prefix stands apart: `1.45 M frames/s`.
    Word,
    /// A ratio that is shown as a percentage.
    Share,
    /// A bare number, perhaps with a sign right behind it: `64`, `31×`.
    Bare,
}

impl Unit {
    /// Seconds: `12.3 ms`.
    pub const SECONDS: Self = Self { name: "s", style: Style::Time };
    /// Bits per second: `14.2 Gbit/s`.
    pub const BITS_PER_SEC: Self = Self::symbol("bit/s");
    /// Bytes: `20 kB`.
    pub const BYTES: Self = Self::symbol("B");
    /// Frames: `72.3 k frames`.
    pub const FRAMES: Self = Self::word("frames");
    /// Frames per second: `1.45 M frames/s`.
    pub const FRAMES_PER_SEC: Self = Self::word("frames/s");
    /// A ratio, shown as a percentage: 0.5 is `50 %`.
    pub const SHARE: Self = Self { name: "%", style: Style::Share };
    /// A factor: `31×`.
    pub const TIMES: Self = Self { name: "×", style: Style::Bare };
    /// A bare number: `2,048`.
    pub const NONE: Self = Self { name: "", style: Style::Bare };

    /// An SI symbol, to which large prefixes are joined: `B/s` gives `1.5 kB/s`.
    pub const fn symbol(name: &'static str) -> Self {
        Self { name, style: Style::Symbol }
    }

    /// A noun, before which a prefix stands apart: `queries` gives `1.5 k queries`.
    pub const fn word(name: &'static str) -> Self {
        Self { name, style: Style::Word }
    }

    /// Like [`si`] without a noun, for places where the noun is said elsewhere: `72.3 k`, but `12.3
    /// ms`.
    pub fn brief(self, value: f64) -> String {
        if self.style != Style::Word || !value.is_finite() {
            return si(value, self);
        }
        let (number, prefix) = self.split(value);
        if prefix.is_empty() { number } else { format!("{number} {prefix}") }
    }

    /// Like [`Unit::brief`], but with every digit of what is counted: `72,345`. For tables.
    pub fn exact(self, value: f64) -> String {
        let is_count = self.style == Style::Word && (1e3..1e15).contains(&value.abs());
        if is_count {
            signed(value, &grouped(&format!("{:.0}", value.abs())))
        } else {
            self.brief(value)
        }
    }

    /// How to tell values up to `largest` in plain digits: what to divide them by, and what to
    /// write behind each. Values up to 0.02 s are told in thousandths, which the axis' title calls
    /// `ms`.
    pub fn scaled(self, largest: f64) -> (f64, &'static str) {
        match self.style {
            Style::Share => (0.01, " %"),
            Style::Bare => (1.0, self.name),
            Style::Time | Style::Symbol | Style::Word => (self.prefix(largest).0, ""),
        }
    }

    /// What an axis' title says of the unit, where its ticks do not: `ms`, `k frames/s`.
    pub fn title(self, largest: f64) -> String {
        let (_, prefix) = self.prefix(largest);
        match self.style {
            Style::Share | Style::Bare => String::new(),
            Style::Word if !prefix.is_empty() => format!("{prefix} {}", self.name),
            Style::Time | Style::Symbol | Style::Word => format!("{prefix}{}", self.name),
        }
    }

    /// The noun that [`Unit::brief`] and [`Unit::exact`] leave to a title.
    pub fn noun(self) -> Option<&'static str> {
        (self.style == Style::Word).then_some(self.name)
    }

    /// `value` in digits, and the prefix they need.
    fn split(self, value: f64) -> (String, &'static str) {
        let (factor, prefix) = self.prefix(value);
        (digits(value / factor), prefix)
    }

    /// The power of a thousand in which `value` has one to three digits before its point, once
    /// rounded.
    fn prefix(self, value: f64) -> (f64, &'static str) {
        let (least, most) = match self.style {
            Style::Time => (-3, 0),
            Style::Symbol | Style::Word => (0, 6),
            Style::Share | Style::Bare => (0, 0),
        };
        // 0.9995 rounds up to 1.00, which is where the next prefix starts.
        let thousands = (value.abs() / 0.9995).log10().div_euclid(3.0);
        let power = if value == 0.0 { 0 } else { (thousands as i32).clamp(least, most) };
        let prefix = ["n", "µ", "m", "", "k", "M", "G", "T", "P", "E"][(power + 3) as usize];
        (1000f64.powi(power), prefix)
    }
}

/// `value` with three digits, an SI prefix and its unit: `12.3 ms`, `1.45 M frames/s`, `0.4 %`,
/// `31×`.
///
/// Zeros at the end are digits that were rounded; an exact value goes without them (`20 k frames`).
/// What is not finite prints as a dash.
pub fn si(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return MISSING.into();
    }
    let (number, prefix) = unit.split(value);
    match unit.style {
        Style::Share => percent(value),
        Style::Bare => format!("{number}{}", unit.name),
        Style::Word if !prefix.is_empty() => format!("{number} {prefix} {}", unit.name),
        Style::Time | Style::Symbol | Style::Word => format!("{number} {prefix}{}", unit.name),
    }
}

/// A ratio as a percentage of three digits: 0.784 is `78.4 %`.
///
/// `0 %` and `100 %` are exact. A share too close to either is said to be: `< 0.001 %`, `> 99.9 %`.
pub fn percent(ratio: f64) -> String {
    let hundredths = ratio * 100.0;
    if !hundredths.is_finite() {
        return MISSING.into();
    }
    if ratio > 0.0 && hundredths < 0.001 {
        return "< 0.001 %".into();
    }
    if (99.95..100.0).contains(&hundredths) {
        return "> 99.9 %".into();
    }
    format!("{} %", digits(hundredths))
}

/// A whole number with its thousands set apart: `1,234,567`.
pub fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// A bar of Unicode blocks, `width` columns wide, of which `value / max` is filled in eighths of a
/// column.
///
/// It is padded with spaces, so that what follows lines up. What is above zero shows at least a
/// sliver.
pub fn bar(value: f64, max: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = if value > 0.0 && max > 0.0 { (value / max).clamp(0.0, 1.0) } else { 0.0 };
    // The share of two infinities is not a number, and fills nothing.
    let filled = if share.is_nan() { 0 } else { (share * (width * 8) as f64).round() as usize };
    let filled = if value > 0.0 && max > 0.0 { filled.max(1).min(width * 8) } else { filled };
    let drawn = format!("{}{}", "█".repeat(filled / 8), EIGHTHS[filled % 8]);
    format!("{drawn:width$}")
}

/// Three significant digits, thousands set apart, scientific where that would take too many zeros.
fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let size = value.abs();
    if !(1e-4..1e15).contains(&size) {
        return signed(value, &format!("{size:.2e}"));
    }
    // Rounding can carry into a new digit: 9.996 has two decimals before and one after.
    let decimals = (2 - (size / 0.9995).log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{size:.decimals$}");
    let exact = text.parse::<f64>().is_ok_and(|shown| (shown - size).abs() <= size * 1e-9);
    let text = if exact && text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    signed(value, &grouped(text))
}

fn signed(value: f64, text: &str) -> String {
    if value < 0.0 { format!("−{text}") } else { text.into() }
}

/// Sets the thousands of a decimal number apart.
pub fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut out = String::with_capacity(number.len() + whole.len() / 3);
    for (place, digit) in whole.char_indices() {
        if place > 0 && digit.is_ascii_digit() && (whole.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// Seconds since 1970 as `2026-11-21T03:21:12Z` (RFC 3339; days to a civil date after Hinnant,
/// chrono-Compatible Low-Level Date Algorithms).
pub fn utc(unix: u64) -> String {
    let (days, second) = (unix / 86_400 + 719_468, unix % 86_400);
    // Years begin in March here, so that a leap day is the last of its year.
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_are_civil() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_795_231_272), "2026-11-21T03:21:12Z");
    }

    #[test]
    fn numbers_have_three_digits_a_prefix_and_a_unit() {
        let cases = [
            (0.0123, Unit::SECONDS, "12.3 ms"),
            (0.000_000_45, Unit::SECONDS, "450 ns"),
            (1234.0, Unit::SECONDS, "1,234 s"),
            (1_450_000.0, Unit::FRAMES_PER_SEC, "1.45 M frames/s"),
            (20_000.0, Unit::FRAMES, "20 k frames"),
            (20_040.0, Unit::FRAMES, "20.0 k frames"),
            (0.25, Unit::FRAMES, "0.25 frames"),
            (999.6, Unit::FRAMES, "1.00 k frames"),
            (999_600.0, Unit::BITS_PER_SEC, "1.00 Mbit/s"),
            (14.2e9, Unit::BITS_PER_SEC, "14.2 Gbit/s"),
            (31.25, Unit::TIMES, "31.2×"),
            (2048.0, Unit::NONE, "2,048"),
            (0.0, Unit::SECONDS, "0 s"),
            (-0.5, Unit::SECONDS, "−500 ms"),
            (f64::NAN, Unit::SECONDS, "–"),
            (f64::INFINITY, Unit::FRAMES, "–"),
            (0.784, Unit::SHARE, "78.4 %"),
        ];
        for (value, unit, text) in cases {
            assert_eq!(si(value, unit), text);
        }
        assert_eq!(Unit::FRAMES.brief(72_345.0), "72.3 k");
        assert_eq!(Unit::SECONDS.brief(0.001), "1 ms");
        assert_eq!(Unit::FRAMES.exact(72_345.0), "72,345");
        assert_eq!(Unit::FRAMES.exact(0.25), "0.25");
    }

    #[test]
    fn nothing_but_zero_is_zero_and_nothing_but_one_is_all() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(1e-9), "< 0.001 %");
        assert_eq!(percent(0.999_99), "> 99.9 %");
        assert_eq!(percent(0.000_04), "0.004 %");
        assert_eq!(percent(1.5), "150 %");
    }

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn bars_fill_in_eighths_and_never_hide_a_loss() {
        assert_eq!(bar(1.0, 2.0, 4), "██  ");
        assert_eq!(bar(5.0, 16.0, 4), "█▎  ");
        assert_eq!(bar(1.0, 1e9, 3), "▏  ");
        assert_eq!(bar(0.0, 1.0, 2), "  ");
        assert_eq!(bar(9.0, 1.0, 2), "██");
        assert_eq!(bar(0.0, 0.0, 2), "  ");
        assert_eq!(bar(1.0, 1.0, 0), "");
    }

    proptest! {
        #[test]
        fn every_number_prints_short_and_says_whether_it_is_zero(value in any::<f64>(), max in any::<f64>()) {
            for unit in [Unit::SECONDS, Unit::BYTES, Unit::FRAMES, Unit::SHARE, Unit::TIMES] {
                let text = si(value, unit);
                prop_assert!(text.chars().count() <= 32, "{text}");
                prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
                prop_assert_eq!(text.starts_with("0 ") || text == "0×", value == 0.0, "{}", text);
            }
            prop_assert_eq!(bar(value, max, 7).chars().count(), 7);
        }
    }
}
