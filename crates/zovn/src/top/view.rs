//! How an agent looks: the law on top, a line for each port, keys at the bottom.

use model::{AgentStatus, PortState, PortStatus};
use ratatui::backend::TestBackend;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use ratatui::{Frame, Terminal};

use super::pace::{Pace, Rates, Sort, refused};

/// Wide enough for every column.
const TEXT_WIDTH: u16 = 118;

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

    /// Moves down the ports, or up.
    pub fn scroll(&mut self, lines: isize) {
        let last = self.pace.status().ports.len().saturating_sub(1);
        self.scroll = self.scroll.saturating_add_signed(lines).min(last);
    }

    /// Draws it.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let notes = self.notes();
        let [head, table, foot, keys] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Fill(1),
            Constraint::Length(notes.len() as u16),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_head(frame, head);
        frame.render_widget(self.table(), table);
        frame.render_widget(Paragraph::new(notes), foot);
        frame.render_widget(keys_line(self.sort), keys);
    }

    /// The same as plain text, every port included, without the keys.
    pub fn to_text(&self) -> String {
        let lines = 3 + 1 + self.pace.status().ports.len() + self.notes().len() + 1;
        let height = u16::try_from(lines).unwrap_or(u16::MAX);
        let Ok(mut terminal) = Terminal::new(TestBackend::new(TEXT_WIDTH, height));
        let Ok(_) = terminal.draw(|frame| self.draw(frame));
        let cells = terminal.backend().buffer().content();
        let lines = cells.chunks(usize::from(TEXT_WIDTH)).take(lines - 1);
        lines
            .map(|line| {
                line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n"
            })
            .collect()
    }

    /// The agent, and the law: accepted = delivered + refused + held.
    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let status = self.pace.status();
        let [agent, law, _] = Layout::vertical([Constraint::Length(1); 3]).areas(area);
        let busy = self.pace.busy_share();
        let mut left = vec![
            format!("zovn {}", status.version).bold().cyan(),
            format!("   up {}   {} ports   switch thread ", duration(status.uptime_ns), status.ports.len())
                .into(),
        ];
        left.extend(bar(busy));
        left.push(format!(" {}", share(busy)).into());
        frame.render_widget(Line::from(left), agent);

        let ledger = &status.ledger;
        let refused = ledger.refused_total();
        let mut equation = vec![
            grouped(ledger.accepted).bold(),
            " accepted = ".dim(),
            grouped(ledger.delivered).bold(),
            " delivered + ".dim(),
            grouped(refused).style(if refused > 0 {
                Style::new().yellow().bold()
            } else {
                Style::new().bold()
            }),
            " refused + ".dim(),
            grouped(ledger.held).bold(),
            " held   ".dim(),
        ];
        equation.push(if status.balanced { "✔ balanced".green() } else { "✘ NOT BALANCED".red().bold() });
        frame.render_widget(Line::from(equation), law);
    }

    fn table(&self) -> Table<'_> {
        let ports = self.pace.ports(self.sort);
        let rows = ports.into_iter().skip(self.scroll).map(|(port, rates)| row(port, rates));
        let widths = [
            Constraint::Min(10),
            Constraint::Length(7),
            Constraint::Length(7),
            Constraint::Length(8),
            Constraint::Length(7),
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Length(BAR as u16 + 6),
            Constraint::Length(BAR as u16 + 6),
            Constraint::Length(6),
            Constraint::Length(8),
            Constraint::Length(5),
            Constraint::Length(3),
        ];
        Table::new(rows, widths).header(self.header()).column_spacing(1)
    }

    fn header(&self) -> Row<'static> {
        let title = |text: &'static str, sort: Option<Sort>| {
            let style =
                if sort == Some(self.sort) { Style::new().underlined().bold() } else { Style::new().dim() };
            Span::styled(text, style)
        };
        let right = |text, sort| Cell::new(Line::from(title(text, sort)).alignment(Alignment::Right));
        let left = |text, sort| Cell::new(Line::from(title(text, sort)));
        Row::new([
            left("PORT", Some(Sort::Name)),
            left("STATE", None),
            right("IN f/s", None),
            right("IN bit/s", Some(Sort::In)),
            right("OUT f/s", None),
            right("OUT bit/s", Some(Sort::Out)),
            right("RATE", None),
            left("FROM IT WAIT", None),
            left("FOR IT WAIT", Some(Sort::Waiting)),
            right("PAUSED", Some(Sort::Paused)),
            right("REFUSED", Some(Sort::Refused)),
            right("FLOWS", None),
            right("LAW", None),
        ])
    }

    /// What the operator ought to know: of the agent, then of each port.
    fn notes(&self) -> Vec<Line<'_>> {
        let problem = self.problem.iter().map(|problem| Line::from(problem.as_str().red().bold()));
        let notes = self.pace.status().ports.iter().flat_map(|port| {
            port.notes.iter().map(|note| {
                Line::from(vec![format!("{}: ", port.name).bold().yellow(), note.as_str().into()])
            })
        });
        problem.chain(notes).take(6).collect()
    }
}

fn row(port: &PortStatus, rates: Rates) -> Row<'static> {
    let right = |text: Span<'static>| Cell::new(Line::from(text).alignment(Alignment::Right));
    let quiet = |text: String, is_zero: bool| right(if is_zero { text.dim() } else { text.into() });
    let refusals = refused(port);
    let refused_style = match (refusals, rates.refused > 0.0) {
        (0, _) => Style::new().dim(),
        (_, false) => Style::new().yellow(),
        (_, true) => Style::new().red().bold(),
    };
    let paused = Style::new().fg(if rates.paused_share > 0.0 { Color::Yellow } else { Color::DarkGray });
    Row::new([
        Cell::new(port.name.to_string().bold()),
        Cell::new(match port.state {
            PortState::Up => "up".green(),
            PortState::Stalled => "stalled".yellow().bold(),
            PortState::Failed => "failed".red().bold(),
        }),
        quiet(si(rates.in_frames), rates.in_frames == 0.0),
        quiet(si(rates.in_bits), rates.in_bits == 0.0),
        quiet(si(rates.out_frames), rates.out_frames == 0.0),
        quiet(si(rates.out_bits), rates.out_bits == 0.0),
        port.rate.map_or_else(|| quiet("–".into(), true), |rate| right(rate.to_string().into())),
        queue(port.ingress.total.held, port.ingress_limits.frames),
        queue(port.egress.total.held, port.egress_limits.frames),
        right(Span::styled(share(rates.paused_share), paused)),
        right(Span::styled(si(refusals as f64), refused_style)),
        quiet(port.held_flows.to_string(), port.held_flows == 0),
        right(if port.balances() { "✔".green() } else { "✘".red().bold() }),
    ])
}

/// A queue as a bar, and how many frames are in it.
fn queue(frames: u64, limit: u32) -> Cell<'static> {
    let mut line = bar(frames as f64 / f64::from(limit));
    let count = format!(" {:<5}", si(frames as f64));
    line.push(if frames == 0 { count.dim() } else { count.into() });
    Cell::new(Text::from(Line::from(line)))
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
    let mut line = vec![" q ".reversed(), " quit  ".into()];
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
        let name = format!(" {name}  ");
        line.push(if order == sort { name.bold() } else { name.dim() });
    }
    line.extend([" ↑↓ ".reversed(), " scroll".into()]);
    Line::from(line)
}

/// Three significant digits and a prefix of the International System.
fn si(value: f64) -> String {
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
fn share(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 1.0 => "<1 %".into(),
        percent => format!("{percent:.0} %"),
    }
}

/// A whole number with its thousands apart.
fn grouped(number: u64) -> Span<'static> {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text.into()
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
    fn thousands_stand_apart() {
        assert_eq!(grouped(0).content, "0");
        assert_eq!(grouped(123).content, "123");
        assert_eq!(grouped(1_234_567).content, "1,234,567");
    }

    #[test]
    fn a_bar_is_never_wider_than_its_place() {
        for share in [-1.0, 0.0, 0.001, 0.5, 0.999, 1.0, 7.0] {
            let width: usize = bar(share).iter().map(Span::width).sum();
            assert_eq!(width, BAR, "{share}");
        }
    }
}
