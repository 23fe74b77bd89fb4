//! The figures of logical networks.

use std::fmt;
use std::net::SocketAddr;

use model::{BackendState, FrameCount, LogicalStatus, NeighbourState, PortStatus};

use super::page::{Labels, Page};

/// Writes what logical networks have done, and what their ports are to them. A port has only the
/// reasons that there were, as there are many.
pub fn encode(
    status: Option<&LogicalStatus>,
    ports: &[PortStatus],
    page: &mut Page<'_>,
) -> fmt::Result {
    let Some(status) = status else { return Ok(()) };
    let number = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    let one = |value: u64| [(Labels::new(), value)].into_iter();
    let gauge = |value: u64| [(Labels::new(), number(value))].into_iter();
    let help = "The generation of logical networks that was applied last.";
    page.gauge("logical_generation", help, None, gauge(status.generation.0))?;
    let help =
        "Seconds since the controller that is followed was heard; 0 while its session lasts.";
    let silence = status.silence_seconds.map(|it| (Labels::new(), number(it)));
    page.gauge("logical_silence_seconds", help, None, silence)?;
    let help = "Connections of logical networks that are followed now.";
    page.gauge("logical_connections", help, None, gauge(status.connections))?;
    let help = "The most connections of logical networks that can be followed.";
    page.gauge("logical_most_connections", help, None, gauge(status.most_connections))?;
    let help = "Answers that logical networks have given to machines.";
    page.counter("logical_answers", help, None, one(status.answers))?;
    let help = "Answers that logical networks have not given, as a port asked too much.";
    page.counter("logical_limited_answers", help, None, one(status.limited_answers))?;
    let help = "Flows of logical networks of which it is remembered what was decided.";
    page.gauge("logical_flows", help, None, gauge(status.flows))?;
    let help = "Frames that logical networks have decided, as those of their flow before or anew.";
    let decided = [("known", status.known_frames), ("anew", status.decided_frames)];
    let decided = decided.map(|(how, count)| (vec![("how", how.to_owned())], count));
    page.counter("logical_decided_frames", help, None, decided)?;
    let help = "Frames that came back from hosts that their ports had left, to be sent again.";
    page.counter("logical_returned_frames", help, None, one(status.returned_frames))?;
    let help = "Lines of rules' logs that their meters have held back.";
    page.counter("logical_suppressed_lines", help, None, one(status.suppressed_lines))?;
    let help = "Checks of load balancers' backends that this host has made.";
    page.counter("logical_checks", help, None, one(status.checks))?;
    let help = "Checks of load balancers' backends that have failed.";
    page.counter("logical_failed_checks", help, None, one(status.failed_checks))?;
    let up = status.backends.iter().map(|it| {
        let backend = SocketAddr::new(it.address, it.port).to_string();
        let labels = vec![("balancer", it.balancer.clone()), ("backend", backend)];
        (labels, i64::from(it.state == BackendState::Up))
    });
    let help = "Whether a backend of a load balancer with a health check gets new connections.";
    page.gauge("logical_backend_up", help, None, up)?;
    let help = "Guarantees of ports here, and of their tenants, that the uplink has no room for.";
    let refused = gauge(status.refused_guarantees.into());
    page.gauge("logical_refused_guarantees", help, None, refused)?;
    let neighbours = NeighbourState::ALL.map(|state| {
        let count = status.neighbours.iter().filter(|it| it.state == state).count();
        (vec![("state", state.name().to_owned())], count as i64)
    });
    let help = "Neighbours of routers that nobody declares, by what is known of them.";
    page.gauge("logical_neighbours", help, None, neighbours)?;
    let counts = |of: fn(&FrameCount) -> u64| {
        status.rules.iter().flat_map(move |it| {
            let tenant = it.tenant.clone().unwrap_or_default();
            [("admitted", &it.admitted), ("refused", &it.refused)].map(|(verdict, count)| {
                (vec![("tenant", tenant.clone()), ("verdict", verdict.to_owned())], of(count))
            })
        })
    };
    let help = "Frames that rules have admitted and refused, by their policies' tenants.";
    page.counter("logical_rule_frames", help, None, counts(|it| it.frames))?;
    let help = "Bytes of frames that rules have admitted and refused, by their policies' tenants.";
    page.counter("logical_rule_bytes", help, None, counts(|it| it.bytes))?;
    let states = || ports.iter().filter_map(|port| Some((port, port.logical_state.as_ref()?)));
    let realized = states().map(|(port, it)| (named(port), i64::from(it.realized.is_some())));
    let help = "Whether a generation that has a logical port decides about its frames.";
    page.gauge("logical_port_realized", help, None, realized)?;
    let refused = states().flat_map(|(port, it)| {
        let of = move |(reason, count): (&String, &u64)| {
            let mut labels = named(port);
            labels.push(("reason", reason.clone()));
            (labels, *count)
        };
        it.refused.iter().map(of)
    });
    let help = "Frames of a logical port, or for it, that its network refused, by reason.";
    page.counter("logical_port_refused_frames", help, None, refused)?;
    let taken = states().map(|(port, it)| (named(port), it.taken));
    let help = "Frames of a logical port that its network itself has answered or heard.";
    page.counter("logical_port_taken_frames", help, None, taken)
}

fn named(port: &PortStatus) -> Labels {
    vec![("port", port.name.to_string())]
}
