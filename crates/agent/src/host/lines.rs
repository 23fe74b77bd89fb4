//! Lines that logical networks write into the agent's log: of rules, and of backends that come up
//! or go down.

use std::net::SocketAddr;

use binding::{HealthNews, Line, Networks};
use logical::objects::Severity;
use units::Instant;

use super::Host;

/// Says once how a line is told, at whichever level.
macro_rules! tell {
    ($level:ident, $line:expr, $severity:expr) => {{
        let Line { at, by, what, flow, generation, suppressed, .. } = $line;
        let tenant = at.tenant.as_ref().map(|it| it.as_str().to_owned());
        let flow = flow.map(|it| it.to_string());
        let (policy, rule) = (&by.policy, &by.rule);
        match what {
            Some(verdict) => tracing::$level!(
                target: "zovn::rules",
                severity = $severity, tenant, port = %at, %policy, %rule, verdict, flow, generation, suppressed,
                "a rule has decided"
            ),
            None => tracing::$level!(
                target: "zovn::rules",
                severity = $severity, tenant, port = %at, %policy, %rule, generation, suppressed,
                "lines of a rule were held back by its meter"
            ),
        }
    }};
}

impl Host {
    /// Writes the lines that rules have asked for.
    pub(super) fn tell_lines(&mut self, now: Instant) {
        let Some(networks) = self.plane.logical_mut() else { return };
        if networks.lines_due().is_none_or(|due| due > now) {
            return;
        }
        networks.take_lines(now).for_each(tell);
    }

    /// When there are lines to write, although nothing else happens.
    pub(super) fn lines_due(&self) -> Option<Instant> {
        self.plane.logical()?.lines_due()
    }

    /// Has backends of load balancers checked that are due, and writes a line of each that has come
    /// up or gone down. Whether any was checked.
    pub(super) fn check_backends(&mut self, now: Instant) -> bool {
        let Some(networks) = self.plane.logical_mut() else { return false };
        let is_due = networks.checks_due().is_some_and(|due| due <= now);
        if is_due {
            networks.check(now);
        }
        for HealthNews { balancer, backend: (address, port), is_up, is_here } in
            networks.take_health_news()
        {
            let backend = SocketAddr::new(address, port);
            match is_up {
                true => tracing::info!(%balancer, %backend, here = is_here, "a backend is up"),
                false => tracing::warn!(
                    %balancer, %backend, here = is_here,
                    "a backend is down: it gets no new connections until it is up"
                ),
            }
        }
        is_due
    }

    /// Tells once if there is no memory for as many known flows as are declared.
    pub(super) fn tell_short_flows(&mut self) {
        let short = self.plane.logical().and_then(Networks::short_of_flows);
        if let Some(flows) = short.filter(|_| !self.has_told_short) {
            self.has_told_short = true;
            tracing::warn!(
                flows,
                "no memory for as many known flows as are declared: fewer are remembered, and others \
                 decided frame by frame; lower `flows` in [logical], or give the host more memory"
            );
        }
    }

    /// Has routers ask their neighbours, and what was held go on. Whether anything was due.
    pub(super) fn attend_neighbours(&mut self, now: Instant) -> bool {
        let Some(networks) = self.plane.logical_mut() else { return false };
        let is_due = networks.neighbours_due().is_some_and(|due| due <= now);
        if is_due {
            networks.attend(now);
        }
        is_due
    }

    /// When something is to be done about neighbours of routers.
    pub(super) fn neighbours_due(&self) -> Option<Instant> {
        self.plane.logical()?.neighbours_due()
    }

    /// When a backend of a load balancer is to be checked, or has not answered.
    pub(super) fn checks_due(&self) -> Option<Instant> {
        self.plane.logical()?.checks_due()
    }
}

fn tell(line: Line) {
    match line.severity {
        Severity::Alert => tell!(error, line, "alert"),
        Severity::Error => tell!(error, line, "error"),
        Severity::Warning => tell!(warn, line, "warning"),
        Severity::Notice => tell!(info, line, "notice"),
        Severity::Info => tell!(info, line, "info"),
        Severity::Debug => tell!(debug, line, "debug"),
    }
}
