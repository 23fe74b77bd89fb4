//! `zovn demo`: the whole story in four minutes. First a tenant's network through a controller;
//! then the same two experiments through every switch on this machine, told with a bar for each.

mod network;
mod paint;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use figures::{Unit, count, percent, si};
use measure::pa::{Completion, Era};
use measure::{Bench, MeasureError, Measurement, Readable, SwitchKind, loss, pa};
use serde::Serialize;
use units::{Rate, Span};

use self::paint::Paint;
use crate::ending::{self, Outcome, PageFile};
use crate::progress;

/// See all of it in a few minutes on this machine.
///
/// A controller and two hosts that follow it: a tenant's network is declared, compared with
/// packets, and changed meanwhile. Then two of the experiments, short, on every switch that is
/// installed. Its labs need root. Exit code 1 if anything was not as intended.
#[derive(clap::Args)]
pub struct Args {
    /// Write a self-contained HTML page with charts here, too.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Tell it with few packets, few workers, few queries and short floods: to try it out, not to
    /// compare.
    #[arg(long)]
    short: bool,
    /// Print one JSON object instead of the story.
    #[arg(long)]
    json: bool,
}

/// All chapters.
struct Story {
    network: network::Report,
    loss: loss::Report,
    pa: pa::Report,
}

/// A chapter, as an entry of the demo's results.
#[derive(Serialize)]
#[serde(untagged)]
enum Chapter<'a> {
    Network(&'a network::Report),
    Loss(&'a loss::Report),
    Pa(&'a pa::Report),
}

/// Tells the story. Its exit code is 1 if something was not as promised, 130 if it was interrupted.
pub fn run(args: Args) -> Outcome {
    let page = args.report.clone().map(PageFile::open).transpose()?;
    let story = match progress::show(|bench| Story::make(bench, args.short))? {
        Ok(story) => story,
        Err(error) => return ending::unmade(error),
    };
    if args.json {
        ending::print_json(&story.as_measurement())?;
    } else {
        let stdout = std::io::stdout();
        let colour = stdout.is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        write!(&stdout, "{}", story.text(colour))?;
    }
    if let (Some(page), Some(path)) = (page, &args.report) {
        let lead = "A tenant's network through a controller, packet by packet. Then the same traffic through every \
                    virtual switch on one machine: a flood, and a question.";
        page.write("zovn demo", lead, &story.chapters())?;
        if !args.json {
            writeln!(std::io::stdout(), "Charts and details: {}", path.display())?;
        }
    }
    Ok(ending::verdict(&story.chapters()))
}

impl Story {
    fn make(bench: &Bench<'_>, short: bool) -> Result<Self, MeasureError> {
        let mut switches = SwitchKind::OF_CONTAINERS.to_vec();
        switches.retain(|switch| match switch.check() {
            Ok(()) => true,
            Err(error) => {
                eprintln!("zovn: without {switch}: {error}");
                false
            }
        });
        let lead = Duration::from_millis(if short { 300 } else { 2_000 });
        let network = network::run(bench, lead)?;
        let loss = loss::Config {
            switches: switches.clone(),
            senders: 2,
            duration: if short { Span::from_millis(300) } else { Span::from_secs(3) },
            receiver_rate: Some(20_000.0),
            size: 1514,
            rounds: 1,
        };
        let loss = loss::run(bench, loss)?;
        let pa = pa::Config {
            switches,
            workers: if short { 4 } else { 31 },
            aggregators: 1,
            sizes: vec![16],
            queries: if short { 3 } else { 40 },
            tcp: vec!["cubic".into()],
            eras: vec![Era::Paper, Era::Today],
            rate: Some(Rate::from_gbit(1)),
            buffer: Some(32),
            offload: true,
            think: Span::ZERO,
            background: None,
            baseline: SwitchKind::Bridge,
            rounds: 1,
            testbed: None,
        };
        Ok(Self { network, loss, pa: pa::run(bench, pa)? })
    }

    fn chapters(&self) -> [&dyn Readable; 3] {
        [&self.network, &self.loss, &self.pa]
    }

    fn as_measurement(&self) -> Measurement<(), Chapter<'_>> {
        Measurement {
            zovn: self.loss.zovn.clone(),
            experiment: "demo".into(),
            environment: self.network.environment().clone(),
            config: (),
            results: vec![
                Chapter::Network(&self.network),
                Chapter::Loss(&self.loss),
                Chapter::Pa(&self.pa),
            ],
        }
    }

    fn text(&self, colour: bool) -> String {
        let mut text = String::new();
        self.tell(&mut text, &Paint { colour }).expect("a String takes all that is written to it");
        text
    }

    fn tell(&self, text: &mut String, paint: &Paint) -> std::fmt::Result {
        self.network.tell(text, paint)?;
        let config = &self.loss.config;
        writeln!(text, "{}", paint.strong("2. A flood into a slow receiver"))?;
        writeln!(
            text,
            "   {} programs send as fast as they can, one reads {} frames a second, for {}.",
            config.senders,
            count(config.receiver_rate.unwrap_or_default() as u64),
            config.duration
        )?;
        writeln!(text, "   Lost, of what was sent:\n")?;
        for loss in &self.loss.results {
            let what = format!(
                "{:>7}   {} of {} frames",
                percent(loss.loss_ratio),
                count(loss.lost),
                count(loss.sent)
            );
            let why = if loss.lost == 0 {
                format!(
                    ": its senders waited instead, {} of the time",
                    percent(loss.sender_blocked)
                )
            } else {
                String::new()
            };
            writeln!(
                text,
                "{}",
                paint.line(loss.switch, loss.loss_ratio, 1.0, &format!("{what}{why}"))
            )?;
        }

        let config = &self.pa.config;
        let segments = config.sizes[0];
        let ideal = self.pa.results.iter().find_map(|one| one.ideal_us);
        writeln!(
            text,
            "\n{}",
            paint.strong(&format!("3. A question to {} workers", config.workers))
        )?;
        writeln!(
            text,
            "   All answer at once, {} each, into one {} port with room for {} frames.\n   Mean time until the last \
             byte{}:",
            si((segments * pa::SEGMENT) as f64, Unit::BYTES),
            config.rate.map_or_else(String::new, |rate| si(
                rate.bits_per_sec() as f64,
                Unit::BITS_PER_SEC
            )),
            config.buffer.unwrap_or_default(),
            ideal.map_or_else(String::new, |us| format!(" (the line alone needs {})", seconds(us))),
        )?;
        for (era, name) in [
            (Era::Paper, "TCP as in 2013, when the paper was written"),
            (Era::Today, "TCP of today"),
        ] {
            writeln!(text, "\n   {name}")?;
            let results: Vec<&Completion> =
                self.pa.results.iter().filter(|one| one.era == era).collect();
            let longest = results.iter().map(|one| one.fct_us.mean).fold(0.0, f64::max);
            for one in results {
                let gain = one.gain_over.filter(|gain| gain.mean >= 1.05);
                let gain = gain.map_or_else(String::new, |gain| {
                    format!("; {} sooner than {}", si(gain.mean, Unit::TIMES), gain.over)
                });
                let what = format!(
                    "{:>7}   {} frames lost{gain}",
                    seconds(one.fct_us.mean),
                    count(one.lost)
                );
                writeln!(
                    text,
                    "{}",
                    paint.line(one.subject.switch, one.fct_us.mean, longest, &what)
                )?;
            }
        }
        writeln!(text)
    }
}

fn seconds(us: f64) -> String {
    si(us / 1e6, Unit::SECONDS)
}
