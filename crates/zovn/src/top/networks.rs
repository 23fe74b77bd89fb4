//! The virtual networks of the host, as a table between those of ports and peers: what each has
//! been promised, gets, and waits for.

use model::NetworkName;
use ratatui::style::Stylize;
use ratatui::text::Span;
use ratatui::widgets::Table;
use units::Rate;

use super::cells::{figure, percent};
use super::columns::{self, Column};
use super::pace::{NetworkPace, Pace};

const COLUMNS: [Column<NetworkName, NetworkPace>; 11] = [
    Column::left("NETWORK", 15, 0, |name, _| vec![name.to_string().bold()]),
    Column::right("PORTS", 5, 4, |_, pace| figure(pace.ports.into())),
    Column::right("IN bit/s", 8, 6, |_, pace| figure(pace.rates.in_bits)),
    Column::right("OUT bit/s", 9, 5, |_, pace| figure(pace.rates.out_bits)),
    Column::right("UPLINK", 6, 9, |_, pace| figure(pace.rates.sent_bits)),
    Column::right("MIN", 7, 8, |_, pace| rate(pace.bounds[0])),
    Column::right("MAX", 7, 3, |_, pace| rate(pace.bounds[1])),
    Column::right("CPU", 5, 2, |_, pace| match pace.thread_share {
        0.0 => vec!["0 %".dim()],
        share => vec![percent(share).into()],
    }),
    Column::right("HELD", 5, 1, |_, pace| figure(pace.held as f64)),
    Column::right("WAITS", 5, 0, |_, pace| match pace.rates.waited_share {
        0.0 => vec!["0 %".dim()],
        share => vec![percent(share).yellow()],
    }),
    Column::left("FOR", 15, 7, |_, pace| vec![waits_for(pace).into()]),
];

/// How wide the table is.
pub const WIDTH: u16 = columns::width(&COLUMNS);

/// How many lines the table takes, with an empty one above it.
pub fn height(pace: &Pace) -> usize {
    match pace.networks().len() {
        0 => 0,
        lines => lines + 2,
    }
}

/// The table as wide as this, without the empty line and so many of the first networks.
pub fn table(pace: &Pace, scroll: usize, width: u16) -> Table<'_> {
    let shown = columns::fitting(&COLUMNS, width);
    let networks = pace.networks();
    let scroll = scroll.min(networks.len().saturating_sub(1));
    let rows = networks.into_iter().skip(scroll);
    let rows = rows.map(|(name, pace)| columns::row(&shown, name, &pace));
    columns::table(&shown, rows)
}

fn rate(rate: Option<Rate>) -> Vec<Span<'static>> {
    vec![rate.map_or_else(|| "–".dim(), |rate| rate.to_string().into())]
}

/// The network that is sent most of while this one waits, and its part of what is sent of others,
/// if there are several.
fn waits_for(pace: &NetworkPace) -> String {
    match &pace.waits_for {
        None => String::new(),
        Some((other, part)) if *part > 0.995 => other.to_string(),
        Some((other, part)) => format!("{other} {}", percent(*part)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_has_who_waits() {
        let titles = ["NETWORK", "UPLINK", "MIN", "WAITS"];
        columns::tests::assert_fits(&COLUMNS, 40, &titles);
    }

    #[test]
    fn who_is_waited_for_is_named() {
        let pace = |part| NetworkPace {
            waits_for: Some((NetworkName("red".into()), part)),
            ..NetworkPace::default()
        };
        assert_eq!(waits_for(&pace(1.0)), "red");
        assert_eq!(waits_for(&pace(0.62)), "red 62 %");
        assert_eq!(waits_for(&NetworkPace::default()), "");
    }
}
