//! How an agent looks: the law on top, a line for each port, each network and each host that
//! tunnels lead to, keys at the bottom.

use figures::count;
use model::{AgentStatus, GateStatus, HeldSocket, Ledgers, Limits, PortState, PortStatus};
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, HorizontalAlignment, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};
use ratatui::{Frame, Terminal};

use super::cells::{abridged, figure, percent, si};
use super::pace::{Pace, Rates, Sort, refused};
use super::{networks, peers};

/// How wide the first column is where no name asks for more.
const NAME: u16 = 12;

/// How many cells a queue's bar takes.
const BAR: usize = 8;

/// A screen and what it shows.
#[derive(Debug)]
pub struct View {
    pace: Pace,
    sort: Sort,
    scroll: usize,
    problem: Option<String>,
}

impl View {
    /// Shows a pace.
    pub fn new(pace: Pace, sort: Sort) -> Self {
        Self { pace, sort, scroll: 0, problem: None }
    }

    /// Shows the next status.
    pub fn advance(&mut self, status: AgentStatus) {
        self.pace.advance(status);
        self.problem = None;
    }

    /// Shows that there is no next status. The last one stays.
    pub fn complain(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// Puts other ports first.
    pub fn sort(&mut self, sort: Sort) {
        self.sort = sort;
        self.scroll = 0;
    }

    /// Moves down the ports and peers, or up.
    pub fn scroll(&mut self, lines: isize) {
        let ports = self.pace.status().ports.len();
        let last = ports.max(self.pace.peers().len()).max(self.pace.networks().len());
        let last = last.saturating_sub(1);
        self.scroll = self.scroll.saturating_add_signed(lines).min(last);
    }

    /// Draws it.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let notes = self.notes();
        // Of many networks and peers, those that fit into a third of the screen each.
        let height = frame.area().height;
        let ports = 1 + self.pace.status().ports.len() as u16;
        let lower = [networks::height(&self.pace), peers::height(&self.pace)];
        let mut left = height.saturating_sub(3 + ports);
        let [networks, peers] = lower.map(|lines| {
            let lines = (lines as u16).min(left.max(height / 3));
            left = left.saturating_sub(lines);
            lines
        });
        let [head, table, shared, far, foot, keys] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Fill(1),
            Constraint::Length(networks),
            Constraint::Length(peers),
            Constraint::Length(notes.len() as u16),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_head(frame, head);
        frame.render_widget(self.table(table.width), table);
        let below = |area| {
            let [_, table] =
                Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
            table
        };
        let (shared, far) = (below(shared), below(far));
        frame.render_widget(networks::table(&self.pace, self.scroll, shared.width), shared);
        frame.render_widget(peers::table(&self.pace, self.scroll, far.width), far);
        frame.render_widget(Paragraph::new(notes), foot);
        frame.render_widget(keys_line(self.sort), keys);
    }

    /// The same as plain text, every port and peer included, without the keys.
    pub fn to_text(&self) -> String {
        let notes = self.notes().iter().map(|note| note.width() as u16).max();
        let ports = total(&COLUMNS) - NAME + self.longest();
        let width = notes.unwrap_or(0).max(ports).max(peers::WIDTH).max(networks::WIDTH);
        let lower = networks::height(&self.pace) + peers::height(&self.pace);
        let rows = self.pace.status().ports.len() + lower;
        let lines = 3 + 1 + rows + self.notes().len() + 1;
        let height = u16::try_from(lines).unwrap_or(u16::MAX);
        let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
        let Ok(_) = terminal.draw(|frame| self.draw(frame));
        let cells = terminal.backend().buffer().content();
        let lines = cells.chunks(usize::from(width)).take(lines - 1);
        lines
            .map(|line| {
                line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
                    + "\n"
            })
            .collect()
    }

    /// The agent, and the law: accepted = delivered + refused + held.
    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let [agent, law, _] = Layout::vertical([Constraint::Length(1); 3]).areas(area);
        frame.render_widget(longest([self.agent(true), self.agent(false)], agent.width), agent);
        frame.render_widget(longest([self.law(count), self.law(si_of)], law.width), law);
    }

    /// The agent, and what it is busy with. Without everything it has what is to be acted on.
    fn agent(&self, everything: bool) -> Line<'static> {
        let status = self.pace.status();
        let busy = self.pace.busy_share();
        let mut line = vec![format!("zovn {}", status.version).bold().cyan()];
        if everything {
            let up = duration(status.uptime_ns);
            line.push(format!("   up {up}   {} ports   switch thread ", status.ports.len()).into());
            line.extend(bar(busy));
            line.push(format!(" {}   UDP gate ", percent(busy)).into());
        } else {
            line.push(format!("  busy {}  gate ", percent(busy)).into());
        }
        line.push(match status.udp_gate {
            GateStatus::On => "on".green(),
            GateStatus::Off(_) => "off".yellow().bold(),
        });
        Line::from(line)
    }

    /// The books, with their figures written so.
    fn law(&self, figure: fn(u64) -> String) -> Line<'static> {
        let AgentStatus { ledger, balanced, .. } = self.pace.status();
        let refused = ledger.refused_total();
        let style = Style::new().bold();
        let verdict =
            if *balanced { "✔ balanced".green() } else { "✘ NOT BALANCED".red().bold() };
        Line::from(vec![
            figure(ledger.accepted).bold(),
            " accepted = ".dim(),
            figure(ledger.delivered).bold(),
            " delivered + ".dim(),
            Span::from(figure(refused)).style(if refused > 0 { style.yellow() } else { style }),
            " refused + ".dim(),
            figure(ledger.held).bold(),
            " held   ".dim(),
            verdict,
        ])
    }

    fn table(&self, width: u16) -> Table<'_> {
        let columns = columns(width, self.longest());
        let ports = self.pace.ports(self.sort);
        let scroll = self.scroll.min(ports.len().saturating_sub(1));
        let rows = ports.into_iter().skip(scroll).map(|(port, rates)| {
            Row::new(columns.iter().map(|column| {
                let cell = abridged((column.show)(port, rates), column.width.into());
                Line::from(cell).alignment(column.alignment)
            }))
        });
        let titles = columns.iter().map(|column| {
            let is_first = column.sort == Some(self.sort);
            let style =
                if is_first { Style::new().bold().underlined() } else { Style::new().dim() };
            Line::styled(column.title, style).alignment(column.alignment)
        });
        let header = Row::new(titles);
        let widths = columns.iter().map(|column| Constraint::Length(column.width));
        Table::new(rows, widths).header(header).column_spacing(1)
    }

    /// How wide the longest name is.
    fn longest(&self) -> u16 {
        let names = self.pace.status().ports.iter().map(|port| port.name.0.len() as u16);
        names.max().unwrap_or(0).max(NAME)
    }

    /// What the operator ought to know: of the agent, then of each port.
    fn notes(&self) -> Vec<Line<'_>> {
        let problem = self.problem.iter().map(|problem| Line::from(problem.as_str().red().bold()));
        let gate = match &self.pace.status().udp_gate {
            GateStatus::On => None,
            GateStatus::Off(why) => {
                Some(Line::from(vec!["UDP gate: ".bold().yellow(), why.as_str().into()]))
            }
        };
        let notes = self.pace.status().ports.iter().flat_map(|port| {
            port.notes.iter().map(|note| {
                Line::from(vec![format!("{}: ", port.name).bold().yellow(), note.as_str().into()])
            })
        });
        let held = self.pace.status().ports.iter().flat_map(|port| {
            port.held_sockets.iter().map(|held| {
                let socket = format!("{}: ", port.name).bold().yellow();
                Line::from(vec![socket, sentence(held).into()])
            })
        });
        let uplink = self.pace.status().uplink.iter().flat_map(|uplink| {
            let unsent = uplink.last_send_error.iter().map(|error| {
                format!(
                    "the kernel did not send {} datagrams, the last as: {error}",
                    uplink.send_errors
                )
            });
            unsent.chain(uplink.notes.iter().cloned())
        });
        let uplink = uplink.map(|note| Line::from(vec!["uplink: ".bold().yellow(), note.into()]));
        problem.chain(gate).chain(uplink).chain(notes).chain(held).take(6).collect()
    }
}

/// What is to be said of a socket that is full.
fn sentence(held: &HeldSocket) -> String {
    let HeldSocket { socket, held, stalled, .. } = held;
    match held {
        _ if *stalled => format!("UDP socket {socket} takes nothing: what is for it is refused"),
        1 => format!("UDP socket {socket} is full: 1 frame waits for it"),
        frames => {
            format!("UDP socket {socket} is full: {} frames wait for it", count(u64::from(*frames)))
        }
    }
}

/// A column of the table.
struct Column {
    title: &'static str,
    width: u16,
    alignment: HorizontalAlignment,
    /// The order that it shows.
    sort: Option<Sort>,
    /// Where room is short, columns go in the order of this number; those of 0 stay.
    goes: u8,
    show: fn(&PortStatus, Rates) -> Vec<Span<'static>>,
}

const COLUMNS: [Column; 13] = {
    use HorizontalAlignment::{Left, Right};
    const QUEUE: u16 = BAR as u16 + 6;
    const fn column(
        title: &'static str,
        width: u16,
        alignment: HorizontalAlignment,
        sort: Option<Sort>,
        goes: u8,
        show: fn(&PortStatus, Rates) -> Vec<Span<'static>>,
    ) -> Column {
        Column { title, width, alignment, sort, goes, show }
    }
    [
        column("PORT", NAME, Left, Some(Sort::Name), 0, |port, _| {
            vec![port.name.to_string().bold()]
        }),
        column("STATE", 7, Left, None, 0, |port, _| vec![state(port.state)]),
        column("IN f/s", 7, Right, None, 4, |_, rates| figure(rates.in_frames)),
        column("IN bit/s", 8, Right, Some(Sort::In), 10, |_, rates| figure(rates.in_bits)),
        column("INGRESS", QUEUE, Left, None, 3, |port, _| {
            queue(&port.ingress, port.ingress_limits)
        }),
        column("PAUSED", 6, Right, Some(Sort::Paused), 7, |_, rates| {
            vec![paused(rates.paused_share)]
        }),
        column("OUT f/s", 7, Right, None, 5, |_, rates| figure(rates.out_frames)),
        column("OUT bit/s", 9, Right, Some(Sort::Out), 9, |_, rates| figure(rates.out_bits)),
        column("RATE", 8, Right, None, 2, |port, _| {
            vec![port.rate.map_or_else(|| "–".dim(), |rate| rate.to_string().into())]
        }),
        column("EGRESS", QUEUE, Left, Some(Sort::Waiting), 6, |port, _| {
            queue(&port.egress, port.egress_limits)
        }),
        column("FLOWS", 5, Right, None, 1, |port, _| figure(port.held_flows.into())),
        column("REFUSED", 7, Right, Some(Sort::Refused), 8, |port, rates| {
            vec![refusals(port, rates)]
        }),
        column("LAW", 3, Right, None, 0, |port, _| {
            vec![if port.balances() { "✔".green() } else { "✘".red().bold() }]
        }),
    ]
};

/// The columns that fit, where the longest name is so long. It takes the place of those that go
/// first.
fn columns(width: u16, name: u16) -> Vec<Column> {
    let mut columns = Vec::from(COLUMNS);
    let stays = |column: &&Column| !(1..=5).contains(&column.goes);
    let others = columns.iter().skip(1).filter(stays).map(|column| column.width + 1);
    columns[0].width = name.min(width.saturating_sub(others.sum())).max(NAME);
    for goes in 1..=10 {
        if total(&columns) > width {
            columns.retain(|column| column.goes != goes);
        }
    }
    columns
}

/// The first of two lines that fits, or else the end of the second: that is what has to be seen.
fn longest(lines: [Line<'static>; 2], width: u16) -> Line<'static> {
    let fits = |line: &Line<'_>| line.width() <= usize::from(width);
    match lines {
        [first, _] if fits(&first) => first,
        [_, second] if fits(&second) => second,
        [_, mut second] => Line::from(second.spans.split_off(second.spans.len() - 1)),
    }
}

fn si_of(value: u64) -> String {
    si(value as f64)
}

/// How wide columns are with a space between two.
fn total(columns: &[Column]) -> u16 {
    columns.iter().map(|column| column.width + 1).sum::<u16>() - 1
}

fn state(state: PortState) -> Span<'static> {
    match state {
        PortState::Up => state.name().green(),
        PortState::Stalled => state.name().yellow().bold(),
        PortState::Down => state.name().yellow(),
        PortState::Failed => state.name().red().bold(),
    }
}

fn paused(paused: f64) -> Span<'static> {
    if paused == 0.0 { percent(paused).dim() } else { percent(paused).yellow() }
}

fn refusals(port: &PortStatus, rates: Rates) -> Span<'static> {
    let text = si(refused(port) as f64);
    match (refused(port), rates.refused > 0.0) {
        (0, _) => text.dim(),
        (_, false) => text.yellow(),
        (_, true) => text.red().bold(),
    }
}

/// How full the fullest class is, as a bar, and how many frames wait in all classes.
fn queue(side: &Ledgers, limit: Limits) -> Vec<Span<'static>> {
    let fullest = side.classes.iter().map(|class| class.ledger.held).max().unwrap_or(0);
    let frames = side.total.held;
    let mut line = bar(fullest as f64 / f64::from(limit.frames));
    let count = format!(" {}", si(frames as f64));
    line.push(if frames == 0 { count.dim() } else { count.into() });
    line
}

/// A share, from 0 to 1, in eighths of a cell on a dark ground.
fn bar(share: f64) -> Vec<Span<'static>> {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).ceil() as usize;
    let full = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    let rest = " ".repeat(BAR - eighths.div_ceil(8));
    let ground = Style::new().bg(Color::Indexed(236));
    vec![Span::styled(full, ground.fg(Color::Cyan)), Span::styled(rest, ground)]
}

fn keys_line(sort: Sort) -> Line<'static> {
    let mut line = vec![" q ".reversed(), " quit ".into()];
    let keys = [
        ("n", "name", Sort::Name),
        ("i", "in", Sort::In),
        ("o", "out", Sort::Out),
        ("w", "waiting", Sort::Waiting),
        ("p", "paused", Sort::Paused),
        ("r", "refused", Sort::Refused),
    ];
    for (key, name, order) in keys {
        line.push(format!(" {key} ").reversed());
        let name = format!(" {name} ");
        line.push(if order == sort { name.bold() } else { name.dim() });
    }
    line.extend([" ↑↓ ".reversed(), " scroll".into()]);
    Line::from(line)
}

/// How long, in its two largest units.
fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use model::{ClassKind, ClassStatus, LedgerStatus};

    use super::*;

    #[test]
    fn every_column_is_there_in_text_and_the_law_stays_in_a_terminal_of_eighty() {
        assert_eq!(columns(total(&COLUMNS), NAME).len(), COLUMNS.len());
        for name in [NAME, 20, 63] {
            let narrow = columns(80, name);
            assert!(total(&narrow) <= 80);
            assert!(narrow.iter().any(|column| column.title == "LAW"));
        }
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns_and_cuts_no_figure() {
        for width in 24..200 {
            for name in [NAME, 63] {
                let columns = columns(width, name);
                assert!(total(&columns) <= width, "{width}");
                assert_eq!(columns[0].title, "PORT");
            }
        }
        let titles: Vec<_> = columns(40, NAME).iter().map(|column| column.title).collect();
        assert_eq!(titles, ["PORT", "STATE", "IN bit/s", "LAW"]);
    }

    #[test]
    fn a_line_that_does_not_fit_gives_way_to_a_shorter_one() {
        let lines = || {
            let words = [&["123,456", " accepted  ", "balanced"][..], &["123k  ", "balanced"]];
            words.map(|words| {
                Line::from(words.iter().map(|word| (*word).into()).collect::<Vec<_>>())
            })
        };
        let shown = |width| longest(lines(), width).to_string();
        assert_eq!(shown(26), "123,456 accepted  balanced");
        assert_eq!(shown(25), "123k  balanced");
        assert_eq!(shown(13), "balanced");
    }

    #[test]
    fn a_queue_is_as_full_as_its_fullest_class() {
        let held = |held| LedgerStatus { held, ..LedgerStatus::default() };
        let class =
            |class, frames| ClassStatus { class, kind: ClassKind::Lossless, ledger: held(frames) };
        let side = Ledgers { total: held(8), classes: vec![class(0, 4), class(7, 4)] };
        let shown: String = queue(&side, Limits { frames: 8, ..Limits::egress() })
            .iter()
            .map(|span| &*span.content)
            .collect();
        assert_eq!(shown, "████     8");
    }

    #[test]
    fn a_bar_is_never_wider_than_its_place() {
        for share in [-1.0, 0.0, 0.001, 0.5, 0.999, 1.0, 7.0] {
            let width: usize = bar(share).iter().map(Span::width).sum();
            assert_eq!(width, BAR, "{share}");
        }
    }
}
