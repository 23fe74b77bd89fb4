//! `zovn top`: an agent's ports, its networks and the hosts that its tunnels lead to, live.
//!
//! ```text
//! agent ─status─▶ Pace: two statuses and what happened between them ─▶ view: a screen, or plain text
//! ```

mod cells;
mod columns;
mod networks;
mod pace;
mod peers;
mod view;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use api::{Client, ClientError};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use units::Span;

use crate::client::AgentArgs;
use crate::ending::{self, Outcome};
use pace::{Pace, Sort};
use view::View;

const EXAMPLES: &str = "\
Examples:
  zovn top                                   the agent at its usual place
  zovn top --socket /tmp/a.sock --sort in    another agent, the busiest sender first
  zovn top --once                            a table, once
  zovn top --json --interval 100ms           one status a line, ten times a second";

/// How long a live view waits for an agent: no key is heard meanwhile.
const PATIENCE: Duration = Duration::from_millis(500);

/// Watch an agent's ports live.
///
/// For each port: its rates, both its queues, how much of the time its sender was held back,
/// refusals, UDP flows that wait for their socket, and whether the law holds: what was accepted was
/// delivered or refused, or is held. For each virtual network: its rates, what it is promised of
/// the uplink, for how much of the time it waited there for others, and for whom. For each host
/// that tunnels lead to: whether frames go there, its rates, round trip and window, frames sent
/// again, and flows that wait for credit.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    agent: AgentArgs,
    /// How often to look.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Span,
    /// Which ports come first.
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// Print once and exit, as it does where there is no terminal.
    #[arg(long)]
    once: bool,
    /// Print the agent's own status as JSON, one object a line.
    #[arg(long)]
    json: bool,
}

/// Runs until `q`, or once.
pub fn run(args: Args) -> Outcome {
    let client = args.agent.client()?;
    let interval = Duration::from(args.interval).max(Duration::from_millis(10));
    if args.json {
        print_json(&client, interval, args.once)?;
    } else if args.once || !io::stdout().is_terminal() {
        print_once(&client, interval, args.sort)?;
    } else {
        let client = client.with_patience(PATIENCE);
        let view = View::new(Pace::of(client.status()?), args.sort);
        let mut terminal = ratatui::try_init()?;
        let outcome = watch(&mut terminal, &client, interval, view);
        ratatui::restore();
        outcome?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(
    client: &Client,
    interval: Duration,
    once: bool,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    loop {
        writeln!(io::stdout(), "{}", serde_json::to_string(&client.status()?)?)?;
        if once {
            return Ok(());
        }
        std::thread::sleep(interval);
    }
}

fn print_once(
    client: &Client,
    interval: Duration,
    sort: Sort,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut pace = Pace::of(client.status()?);
    std::thread::sleep(interval);
    pace.advance(client.status()?);
    write!(io::stdout(), "{}", View::new(pace, sort).to_text())?;
    Ok(())
}

/// Draws, looks at the keys until it is time to look at the agent again, and so on.
fn watch(
    terminal: &mut DefaultTerminal,
    client: &Client,
    interval: Duration,
    mut view: View,
) -> io::Result<()> {
    let mut next_look = Instant::now() + interval;
    loop {
        terminal.draw(|frame| view.draw(frame))?;
        if event::poll(next_look.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()?
                && let Wish::Leave = obey(key, &mut view)
            {
                return Ok(());
            }
            continue;
        }
        next_look = Instant::now() + interval;
        match client.status() {
            Ok(status) => view.advance(status),
            Err(error) => view.complain(told(&error)),
        }
    }
}

enum Wish {
    Stay,
    Leave,
}

fn obey(key: KeyEvent, view: &mut View) -> Wish {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return Wish::Leave,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Wish::Leave,
        KeyCode::Down | KeyCode::Char('j') => view.scroll(1),
        KeyCode::Up | KeyCode::Char('k') => view.scroll(-1),
        KeyCode::PageDown => view.scroll(10),
        KeyCode::PageUp => view.scroll(-10),
        KeyCode::Char(letter) => {
            if let Some(sort) = Sort::from_key(letter) {
                view.sort(sort);
            }
        }
        _ => {}
    }
    Wish::Stay
}

fn told(error: &ClientError) -> String {
    ending::sentence(error)
}
