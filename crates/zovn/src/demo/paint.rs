//! How the demo is drawn.

use figures::bar;
use measure::SwitchKind;

/// How wide a bar is, in columns.
const WIDTH: usize = 32;

/// Bars and emphasis, in colour or without.
pub struct Paint {
    pub colour: bool,
}

impl Paint {
    /// A switch's bar, of `value` out of `most`, and what it stands for.
    pub fn line(&self, switch: SwitchKind, value: f64, most: f64, what: &str) -> String {
        let name = format!("   {:<10}", switch.to_string());
        let drawn = bar(value, most, WIDTH);
        match (self.colour, switch) {
            (false, _) => format!("{name}  {drawn}  {what}"),
            (true, SwitchKind::Zovn) => {
                format!("\x1b[1;32m{name}\x1b[0m  \x1b[32m{drawn}\x1b[0m  {what}")
            }
            (true, _) => format!("{name}  \x1b[33m{drawn}\x1b[0m  {what}"),
        }
    }

    /// Text that stands out.
    pub fn strong(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}
