//! What cells of tables, flags and exit codes of all of `zovn plan` say.

use std::collections::BTreeMap;
use std::process::ExitCode;

use figures::count;
use planner::purchase::Offer;

/// Names of hosts that are alike, in a cell: `h-1 … h-12 (12)`.
pub fn hosts(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        [first, .., last] => format!("{first} … {last} ({})", names.len()),
        [] => String::new(),
    }
}

/// Machines of a host, in a cell: `4 web, 1 db`.
pub fn machines(counts: &BTreeMap<String, u32>) -> String {
    let machines: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    machines.join(", ")
}

/// What the hosts of an offer draw, in a cell.
pub fn watts(offer: &Offer) -> String {
    offer.watts.map_or_else(|| "unknown".to_owned(), count)
}

/// 0 if all is as it should be, 1 otherwise.
pub fn ending(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A share of time between 0 and 1.
pub fn share(word: &str) -> Result<f64, String> {
    let share = word.parse().ok().filter(|it| *it > 0.0 && *it < 1.0);
    share.ok_or_else(|| "write a share of time between 0 and 1, as 0.001".to_owned())
}
