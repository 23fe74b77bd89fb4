//! Lines that rules of logical networks write into the agent's log.

use binding::Line;
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
