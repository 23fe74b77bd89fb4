//! Objects of logical networks, as the API takes and tells them.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{DomainRows, FieldProblem, LogicalNetworks, LogicalPort, Problem};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use logical::objects::Object;
use logical::{Fault, Position};
use model::PortStatus;

use super::refusal::{Json, Refusal};
use crate::logical::{ApplyError, Faults, Logical};
use crate::worker::Stopped;

/// Why objects are not applied.
pub enum Refused {
    /// For a reason that concerns none of them.
    Whole(Refusal),
    /// For all that is wrong with them.
    Faults(Vec<Fault>),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Whole(refusal)
    }
}

impl From<ApplyError> for Refused {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Faults(Faults(faults)) => Self::Faults(faults),
            ApplyError::Beside(_) | ApplyError::Followed => {
                Self::Whole(Refusal(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))
            }
            ApplyError::Stale(_) => {
                Self::Whole(Refusal(StatusCode::PRECONDITION_FAILED, error.to_string()))
            }
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let faults = match self {
            Self::Whole(refusal) => return refusal.into_response(),
            Self::Faults(faults) => faults,
        };
        let field = |fault: &Fault| FieldProblem {
            object: fault.object.clone(),
            path: fault.path.clone(),
            message: fault.message.clone(),
            line: fault.position.map(|Position { line, .. }| line as u64),
        };
        let errors = faults.iter().map(field).collect();
        let error = format!("the objects cannot stand: {}", Faults(faults));
        (StatusCode::UNPROCESSABLE_ENTITY, Json(Problem { error, errors })).into_response()
    }
}

/// Reads objects, and tells all that is wrong with them, with its place.
///
/// A body that says nothing is refused: a file that was not written would take every network away.
pub async fn parse(body: Bytes) -> Result<Vec<Object>, Refused> {
    let is_wrong = |problem: &str| Refusal(StatusCode::BAD_REQUEST, problem.into());
    let text =
        String::from_utf8(body.into()).map_err(|_| is_wrong("the body is no text: write UTF-8"))?;
    let parsed = tokio::task::spawn_blocking(move || {
        let source = logical::read(&text);
        if source.is_empty {
            return None;
        }
        let objects = source.objects.clone();
        Some(source.resolve().map(|_| objects))
    });
    let parsed = parsed.await.map_err(|_| Refusal::from(Stopped))?;
    let nothing = || is_wrong("the body says nothing: write `[]` to have no objects");
    parsed.ok_or_else(nothing)?.map_err(Refused::Faults)
}

/// What an agent has of logical networks.
pub fn told(
    logical: &Logical,
    ports: &[PortStatus],
    silence: Option<Duration>,
) -> Result<LogicalNetworks, serde_json::Error> {
    let here: BTreeMap<_, _> =
        ports.iter().filter_map(|port| Some((port.logical.clone()?, port))).collect();
    let names = logical.ports().cloned().chain(here.keys().cloned());
    let names: std::collections::BTreeSet<_> = names.collect();
    let port = |name| {
        let port = here.get(&name).copied();
        let state = port.and_then(|port| port.logical_state.as_ref());
        LogicalPort {
            name,
            port: port.map(|port| port.name.clone()),
            state: port.map(|port| port.state),
            realized: state.and_then(|it| it.realized),
            refused: state.map(|it| it.refused.clone()).unwrap_or_default(),
        }
    };
    let domain = |(domain, rows, here): (&logical::objects::Identity, usize, usize)| DomainRows {
        domain: domain.to_string(),
        rows: rows as u64,
        here: here as u64,
    };
    Ok(LogicalNetworks {
        generation: logical.generation(),
        objects: logical.objects().iter().map(serde_json::to_value).collect::<Result<_, _>>()?,
        ports: names.into_iter().map(port).collect(),
        domains: logical.rows().map(domain).collect(),
        silence_seconds: silence.map(|it| it.as_secs()),
    })
}
