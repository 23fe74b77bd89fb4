//! `zovn plan buy`: which hosts to buy.

use std::process::ExitCode;

use figures::{Unit, count, percent, si};
use planner::purchase::{Offer, offers, unknown_watts};

use super::files::Files;
use super::page::{Html, of_offers, put};
use super::words::watts;
use crate::ending::{Outcome, show};
use crate::table::{headed, text};

/// Tell what each type of host would cost for all machines, and what it runs out of first.
///
/// Every number of cores that a type's switch may have is told apart. The same with the network
/// ignored stands beside it. The hosts that there are do not count.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: Html,
}

/// Computes, and tells.
pub fn run(args: &Args) -> Outcome {
    args.files.then(|plan| {
        let page = args.html.open()?;
        let offers = offers(plan)?;
        put(page, || of_offers(&offers))?;
        show(&offers, args.json, || table(&offers))?;
        Ok(ExitCode::SUCCESS)
    })
}

fn table(offers: &[Offer]) -> String {
    let mut table = headed([
        "type",
        "hosts",
        "price",
        "price a machine",
        "watts",
        "machines a host",
        "runs out of",
        "cores free",
        "efficient",
        "break-even a host",
        "network ignored",
        "then overloaded",
    ]);
    for it in offers {
        table.add_row([
            it.kind.clone(),
            it.hosts.to_string(),
            count(it.price),
            si(it.price_per_machine, Unit::NONE),
            watts(it),
            format!("{:.1}", it.machines_per_host),
            it.binds.clone(),
            percent(it.cores_free),
            if it.is_efficient { "yes" } else { "no" }.to_owned(),
            format!("{:.0}", it.break_even),
            format!("{} for {}", it.blind_hosts, count(it.blind_price)),
            it.blind_overload.to_string(),
        ]);
    }
    let mut told = text(table);
    if let Some(unknown) = unknown_watts(offers) {
        told += &format!("\n{unknown}");
    }
    for it in offers.iter().filter(|it| it.unplaced > 0) {
        told += &format!("\n{}: {} machines fit no such host", it.kind, it.unplaced);
    }
    told
}
