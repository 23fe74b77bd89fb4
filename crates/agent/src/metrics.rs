//! The agent's status as OpenMetrics text, which Prometheus scrapes.
//!
//! All values come from one [`AgentStatus`], so the values of one scrape belong to the same moment
//! and balance. Labels are few and bounded: a port's or a network's name or a peer's address, a
//! direction, one of eight classes, a reason for a refusal, of a port at most 16 sockets that are
//! full.

mod logical;
mod networks;
mod page;
mod peers;
mod thread;

use std::collections::BTreeSet;
use std::fmt;

use axum::http::{HeaderMap, header};
use lossless::Reason;
use model::{AgentStatus, GateStatus, LedgerStatus, Ledgers, PortState, PortStatus, SocketsStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::{Registry, Unit};

use page::{Labels, Page, reasons};

/// How a status is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4, which is older.
    Prometheus,
}

impl Format {
    /// How many there are.
    pub const COUNT: usize = 2;

    /// The one that a request's `Accept` prefers.
    pub fn asked_by(headers: &HeaderMap) -> Self {
        let accept = headers.get_all(header::ACCEPT).iter();
        Self::of(accept.filter_map(|accept| accept.to_str().ok()))
    }

    /// The one that the values of a request's `Accept` prefer; OpenMetrics if they say nothing of
    /// either.
    fn of<'a>(accept: impl Iterator<Item = &'a str>) -> Self {
        let (mut open, mut plain, mut any) = (None, None, 0.0);
        for range in accept.flat_map(|accept| accept.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            // RFC 9110 §12.4.2: without a weight it is 1.
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            let weight: f64 = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            match media.as_str() {
                "application/openmetrics-text" => open = Some(weight.max(open.unwrap_or(0.0))),
                "text/plain" | "text/*" => plain = Some(weight.max(plain.unwrap_or(0.0))),
                "*/*" => any = weight,
                _ => {}
            }
        }
        if plain.unwrap_or(any) > open.unwrap_or(any) {
            Self::Prometheus
        } else {
            Self::OpenMetrics
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes a status.
pub fn render(status: AgentStatus, format: Format) -> String {
    let mut registry = Registry::with_prefix("zovn");
    registry.register_collector(Box::new(Snapshot(status)));
    let mut page = String::new();
    text::encode(&mut page, &registry).expect("a string takes whatever is written to it");
    match format {
        Format::OpenMetrics => page,
        Format::Prometheus => as_prometheus(&page),
    }
}

/// A page of OpenMetrics as Prometheus' own text. There a counter is called as its samples are, and
/// a unit has no line.
fn as_prometheus(page: &str) -> String {
    let mut counters = BTreeSet::new();
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("# TYPE ").and_then(|it| it.strip_suffix(" counter"))
        {
            counters.insert(name);
        }
    }
    let mut text = String::with_capacity(page.len());
    for line in page.lines() {
        match line.strip_prefix("# ").and_then(|rest| rest.split_once(' ')) {
            Some((keyword @ ("HELP" | "TYPE"), rest)) => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let total = if counters.contains(name) { "_total" } else { "" };
                text.push_str(&format!("# {keyword} {name}{total} {rest}\n"));
            }
            _ if line.starts_with('#') => {}
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

#[derive(Debug)]
struct Snapshot(AgentStatus);

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut page = Page(encoder);
        self.encode_agent(&mut page)?;
        self.encode_ports(&mut page)?;
        self.encode_frames(&mut page)?;
        networks::encode(&self.0.networks, &mut page)?;
        logical::encode(self.0.logical.as_ref(), &self.0.ports, &mut page)?;
        thread::encode(&self.0.thread, &mut page)?;
        self.0.uplink.iter().try_for_each(|uplink| peers::encode(uplink, &mut page))
    }
}

impl Snapshot {
    fn encode_agent(&self, page: &mut Page<'_>) -> fmt::Result {
        let Self(status) = self;
        let seconds = |ns| ns as f64 / 1e9;
        let version = vec![("version", status.version.clone())];
        page.gauge("build_info", "The version of the agent.", None, [(version, 1)])?;
        page.gauge("ports", "Attached ports.", None, [(vec![], status.ports.len() as i64)])?;
        let balanced = i64::from(status.balanced);
        page.gauge(
            "ledger_balanced",
            "1: accepted = delivered + refused + held, as the last round of audits found.",
            None,
            [(vec![], balanced)],
        )?;
        let gate = i64::from(status.udp_gate == GateStatus::On);
        page.gauge(
            "udp_gate",
            "1: UDP flows are held while their socket is full.",
            None,
            [(vec![], gate)],
        )?;
        let uptime = seconds(status.uptime_ns);
        page.gauge(
            "uptime",
            "Time since the agent started.",
            Some(Unit::Seconds),
            [(vec![], uptime)],
        )?;
        let busy = seconds(status.busy_ns);
        let help = "Time that the switch's thread was busy.";
        page.counter("worker_busy", help, Some(Unit::Seconds), [(vec![], busy)])
    }

    fn encode_ports(&self, page: &mut Page<'_>) -> fmt::Result {
        let states = self.ports().flat_map(|port| {
            PortState::ALL.map(|state| {
                let mut labels = name(port);
                labels.push(("state", state.to_string()));
                (labels, i64::from(port.state == state))
            })
        });
        page.gauge("port_state", "1 for the port's state.", None, states)?;
        let bytes = self.ports().flat_map(|port| {
            [("ingress", port.ingress_bytes), ("egress", port.egress_bytes)]
                .map(|(direction, bytes)| (directed(port, direction), bytes))
        });
        page.counter(
            "port",
            "Bytes received (ingress) and delivered (egress).",
            Some(Unit::Bytes),
            bytes,
        )?;
        let limits = self.ports().flat_map(|port| {
            [("ingress", port.ingress_limits), ("egress", port.egress_limits)]
                .map(|(direction, limits)| (directed(port, direction), i64::from(limits.frames)))
        });
        page.gauge("queue_limit_frames", "The limit of a queue.", None, limits)?;
        let rates = self
            .ports()
            .filter_map(|port| Some((name(port), port.rate?.bits_per_sec() as f64 / 8.0)));
        page.gauge(
            "egress_rate_bytes_per_second",
            "The declared rate of the egress.",
            None,
            rates,
        )?;
        let rates = self
            .ports()
            .filter_map(|port| Some((name(port), port.send_rate?.bits_per_sec() as f64 / 8.0)));
        page.gauge(
            "ingress_rate_bytes_per_second",
            "The declared rate of the sender.",
            None,
            rates,
        )?;
        let paused = self.ports().map(|port| (name(port), port.paused.as_secs_f64()));
        page.counter(
            "sender_paused",
            "Time that the sender was paused.",
            Some(Unit::Seconds),
            paused,
        )?;
        let moved = self.ports().map(|port| (name(port), port.moved_addresses));
        let help = "Ethernet addresses that have moved to this port, or are declared of another.";
        page.counter("moved_addresses", help, None, moved)?;
        let missed = self.ports().filter_map(|port| Some((name(port), port.missed?)));
        let help = "Frames that came by the host's interface and found no room in the kernel.";
        page.counter("missed_frames", help, None, missed)?;
        let flows = self.ports().map(|port| (name(port), i64::from(port.held_flows)));
        page.gauge("held_udp_flows", "UDP flows held because their socket is full.", None, flows)?;
        let flows = self.ports().map(|port| (name(port), i64::from(port.stalled_flows)));
        let help = "UDP flows refused because their socket takes nothing.";
        page.gauge("stalled_udp_flows", help, None, flows)?;
        let sockets = self.ports().flat_map(|port| {
            port.held_sockets.iter().map(|held| {
                let mut labels = name(port);
                labels.push(("socket", held.socket.to_string()));
                labels.push(("stalled", held.stalled.to_string()));
                (labels, i64::from(held.held))
            })
        });
        let help = "Frames that wait for a UDP socket: at most 16 sockets of a port.";
        page.gauge("held_udp_socket_frames", help, None, sockets)?;
        let sockets = |count: fn(&SocketsStatus) -> u64| {
            self.ports()
                .filter_map(move |port| Some((name(port), count(port.udp_sockets.as_ref()?))))
        };
        let help = "Datagrams that found no room at a watched UDP socket.";
        page.counter("udp_lost_datagrams", help, None, sockets(|sockets| sockets.lost))?;
        let help = "Datagrams for which no UDP socket is seen.";
        page.counter("udp_unseen_datagrams", help, None, sockets(|sockets| sockets.unseen))
    }

    fn encode_frames(&self, page: &mut Page<'_>) -> fmt::Result {
        let counted = |count: fn(&LedgerStatus) -> u64| {
            self.ledgers().map(move |(labels, ledger)| (labels, count(ledger)))
        };
        let help = "Frames accepted from the sender (ingress), or for the receiver (egress).";
        page.counter("accepted_frames", help, None, counted(|ledger| ledger.accepted))?;
        let help = "Frames delivered to their receiver.";
        page.counter("delivered_frames", help, None, counted(|ledger| ledger.delivered))?;
        let refused = self.sides().flat_map(|(labels, side)| {
            reasons(labels, Reason::ALL.map(Reason::name), &side.total.refused)
        });
        page.counter("refused_frames", "Frames refused, by reason.", None, refused)?;
        let held = self
            .ledgers()
            .map(|(labels, ledger)| (labels, i64::try_from(ledger.held).unwrap_or(i64::MAX)));
        page.gauge("held_frames", "Frames held now.", None, held)
    }

    fn ports(&self) -> impl Iterator<Item = &PortStatus> {
        self.0.ports.iter()
    }

    /// Each direction of each port.
    fn sides(&self) -> impl Iterator<Item = (Labels, &Ledgers)> {
        self.ports().flat_map(|port| {
            [("ingress", &port.ingress), ("egress", &port.egress)]
                .map(|(direction, side)| (directed(port, direction), side))
        })
    }

    /// The ledger of each class, direction and port.
    fn ledgers(&self) -> impl Iterator<Item = (Labels, &LedgerStatus)> {
        self.sides().flat_map(|(labels, side)| {
            side.classes.iter().map(move |class| {
                let mut labels = labels.clone();
                labels.push(("class", class.class.to_string()));
                (labels, &class.ledger)
            })
        })
    }
}

fn name(port: &PortStatus) -> Labels {
    vec![("port", port.name.0.clone())]
}

fn directed(port: &PortStatus, direction: &str) -> Labels {
    vec![("port", port.name.0.clone()), ("direction", direction.to_owned())]
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    const DASHBOARD: &str = include_str!("../../../packaging/zovn-dashboard.json");

    const RULES: &str = include_str!("../../../packaging/zovn-alerts.yml");

    /// A page with every family: for an agent with a port and peers.
    fn page() -> String {
        page_as(Format::OpenMetrics)
    }

    fn page_as(format: Format) -> String {
        let (kind, ledger) = (model::ClassKind::Lossless, LedgerStatus::default());
        let side = || Ledgers {
            classes: vec![model::ClassStatus { class: 0, kind, ledger: ledger.clone() }],
            ..Ledgers::default()
        };
        let port = PortStatus {
            name: model::PortName("web".into()),
            attach: serde_json::from_str(
                r#"{"kind": "container", "netns": "a", "interface": "b"}"#,
            )
            .unwrap(),
            mac: None,
            network: None,
            label: None,
            logical: Some("shop/web-1".parse().unwrap()),
            logical_state: Some(model::LogicalPortStatus {
                realized: Some(model::Generation(3)),
                refused: [("policy".to_owned(), 4)].into(),
                taken: 2,
                last_refusals: vec![model::LastRefusal {
                    ago: units::Span::from_millis(3),
                    reason: "policy".into(),
                    at: Some("LogicalPort/shop/web-1".into()),
                    by: Some("Policy/shop/web-in/others".into()),
                    flow: Some("tcp 10.0.1.1:40000 > 10.0.2.1:22".into()),
                    generation: model::Generation(3),
                }],
            }),
            state: PortState::Up,
            rate: Some("1gbit".parse().unwrap()),
            send_rate: Some("1gbit".parse().unwrap()),
            egress_limits: model::Limits::egress(),
            ingress_limits: model::Limits::ingress(),
            class: units::Class::default(),
            declared_class: None,
            quota: None,
            pinned: Vec::new(),
            antispoof: None,
            mtu: 1500,
            scheduling: model::Scheduling::default(),
            storm: model::StormLimits::default(),
            share: model::PortShare::default(),
            ingress: side(),
            egress: side(),
            ingress_bytes: 0,
            egress_bytes: 0,
            paused: units::Span::ZERO,
            paused_by: None,
            vlan: None,
            moved_addresses: 0,
            held_flows: 0,
            missed: Some(7),
            stalled_flows: 0,
            held_sockets: vec![model::HeldSocket {
                socket: "10.0.0.2:53".parse().unwrap(),
                held: 3,
                silent: None,
                stalled: true,
            }],
            udp_sockets: Some(SocketsStatus {
                watched: 0,
                untracked: 0,
                lost: 0,
                unseen: 0,
                last_unseen: None,
            }),
            notes: Vec::new(),
        };
        render(AgentStatus { ports: vec![port], ..peers::tests::agent() }, format)
    }

    #[test]
    fn every_metric_of_the_alert_rules_and_the_dashboard_is_exported() {
        let page = page();
        let exported: BTreeSet<_> =
            page.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
        for text in [RULES, DASHBOARD] {
            let named: BTreeSet<_> = text
                .match_indices("zovn_")
                .map(|(at, _)| text[at..].split(|c| !is_part(c)).next().unwrap())
                // Those are a planner's and a controller's.
                .filter(|it| {
                    !["zovn_plan_", "zovn_controller_"].iter().any(|of| it.starts_with(of))
                })
                .collect();
            assert!(!named.is_empty());
            for metric in named {
                assert!(exported.contains(metric), "{metric} is not in {page}");
            }
        }
    }

    #[test]
    fn a_request_is_answered_in_the_format_that_it_prefers() {
        // What Prometheus 2.42 and curl send.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
                          version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("*/*", Format::OpenMetrics),
            ("", Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("text/plain", Format::Prometheus),
            ("text/plain;version=0.0.4", Format::Prometheus),
            ("text/plain;q=0.9, application/openmetrics-text;q=0.8", Format::Prometheus),
            ("text/plain, application/openmetrics-text", Format::OpenMetrics),
            ("text/plain;q=0.5, */*;q=0.1", Format::Prometheus),
            ("text/html", Format::OpenMetrics),
        ] {
            assert_eq!(Format::of([accept].into_iter()), format, "{accept}");
        }
        assert_eq!(Format::of([].into_iter()), Format::OpenMetrics);
    }

    #[test]
    fn a_planner_finds_as_many_ports_as_there_are() {
        for format in [Format::OpenMetrics, Format::Prometheus] {
            let page = page_as(format);
            let ports = page.matches("\nzovn_sender_paused_seconds_total{port=\"").count();
            assert!(page.contains(&format!("\nzovn_ports{{}} {ports}\n")), "{page}");
        }
    }

    #[test]
    fn the_older_text_has_the_same_samples() {
        let samples = |page: &str| -> Vec<String> {
            page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
        };
        let text = page_as(Format::Prometheus);
        assert_eq!(samples(&text), samples(&page()));
        assert!(text.contains("# TYPE zovn_accepted_frames_total counter\n"), "{text}");
        assert!(text.contains("# TYPE zovn_uptime_seconds gauge\n"), "{text}");
    }

    #[test]
    fn promtool_finds_nothing_wrong_with_the_older_text() {
        if !needs::program("promtool", "prometheus") {
            return;
        }
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let text = page_as(Format::Prometheus);
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let said = promtool.wait_with_output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }

    #[test]
    fn every_label_that_the_alert_rules_choose_by_is_exported() {
        let page = page();
        for label in ["reason", "state", "direction"] {
            for operator in ["=~", "!=", "="] {
                for chosen in RULES.split(&format!("{label}{operator}\"")).skip(1) {
                    for value in chosen.split('"').next().unwrap().split('|') {
                        let sample = format!("{label}=\"{value}\"");
                        assert!(page.contains(&sample), "{sample} is not in {page}");
                    }
                }
            }
        }
    }
}
