//! How far hosts are with a revision.

use axum::extract::{Extension, RawPathParams, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use logical::objects::{Condition, Truth};
use serde::Serialize;
use southbound::Executing;
use store::Revision;
use utoipa::ToSchema;

use super::app::App;
use super::asked::waiter;
use super::document;
use crate::access::Principal;
use crate::conditions::compiled;
use crate::problem::{Json, Problem, Refusal};
use crate::progress::Written;

/// How many hosts are named.
const NAMED: usize = 100;

/// How far hosts are with a revision.
#[derive(Serialize, ToSchema)]
pub struct RevisionStatus {
    /// The revision.
    revision: u64,
    /// Whether it is `Compiled`, and `Realized`.
    conditions: Vec<Condition>,
    /// The hosts that do not execute it, at most 100. A tenant is not told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    behind: Vec<Behind>,
}

/// A host that does not execute a revision.
#[derive(Serialize, ToSchema)]
struct Behind {
    /// Its node.
    node: String,
    /// The revision up to which it executes everything.
    executes: u64,
    /// Whether its agent is connected.
    connected: bool,
    /// Why it does not take it.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl From<Executing> for Behind {
    fn from(host: Executing) -> Self {
        Self {
            node: host.node.to_string(),
            executes: host.until.0,
            connected: host.is_connected,
            refused: host.refused.map(|it| it.to_string()),
        }
    }
}

/// How far hosts are with a revision: those of the domains that it has changed. A tenant asks of
/// its own domains.
///
/// Of one that is older than some thousand revisions, or than the controller's start, it is not
/// known any more what it has changed: then all hosts count.
#[utoipa::path(get, path = document::REVISION, params(
    ("revision" = u64, Path, minimum = 1, description = "What a write has answered."),
    ("waitFor" = Option<String>, Query, pattern = "^Realized$", description = "`Realized`: answer once all hosts that have to do with it execute it, or `timeout` is over."),
    ("timeout" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s)$", description = "How long to wait, as `10s`: 30 s if it is not said, at most 300 s."),
), responses(
    (status = 200, body = RevisionStatus, description = "How far they are. If it was waited for in vain, `Realized` is not `True`."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The query is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such revision yet."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many wait, or too many of this tenant."),
))]
pub async fn revision(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    path: RawPathParams,
    request: Request,
) -> Result<Response, Refusal> {
    who.sees_some()?;
    let newest = app.catalog.store().revision();
    let said = path.iter().find_map(|(_, word)| word.parse().ok()).map(Revision);
    let revision = said.filter(|it| (Revision(1)..=newest).contains(it)).ok_or_else(|| {
        let problem = format!("there is no such revision yet: the newest is {newest}");
        Refusal::new(StatusCode::NOT_FOUND, problem)
    })?;
    let written = Written { revision, has_changed: true, unchanged: Vec::new() };
    let realized = || app.progress.realized(&written, who.tenant());
    if let Some(waiter) = waiter(&app, &who, request.uri())? {
        waiter.wait(&app, &who, || realized().0.status == Truth::True).await;
        if !app.door.admits(&who) {
            return Err(crate::catalog::Refused::Gone.into());
        }
    }
    let (condition, (told, hosts)) = realized();
    let behind = hosts.into_iter().filter(|it| it.until.0 < revision.0 && who.tenant().is_none());
    Ok(Json(RevisionStatus {
        revision: revision.0,
        conditions: vec![compiled(revision, told), condition],
        behind: behind.take(NAMED).map(Behind::from).collect(),
    })
    .into_response())
}
