//! What was written, for those who see everything.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::app::{App, blocking};
use super::asked::{PAGE, query};
use super::document;
use crate::access::Principal;
use crate::audit::Newest;
use crate::problem::{Json, Problem, Refusal};

/// The most lines of an answer.
const MOST: usize = 1_000;

/// Which lines are asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    from: Option<String>,
    limit: Option<usize>,
    refused: Option<bool>,
}

/// Lines of the audit log.
#[derive(Serialize, ToSchema)]
pub struct AuditLines {
    /// They, the newest first.
    #[schema(value_type = Vec<Object>)]
    lines: Vec<Box<RawValue>>,
    /// Whether there may be older ones: the controller's folder has them.
    more: bool,
}

/// The newest lines of the audit log: who has written what.
///
/// At most a megabyte of lines is read.
#[utoipa::path(get, path = document::AUDIT, params(
    ("from" = Option<String>, Query, pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$", description = "No lines that are older: a time as lines have it, `2026-11-28T17:40:01Z`."),
    ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most; 100 if it is not said."),
    ("refused" = Option<bool>, Query, description = "Those of requests that were refused, instead of those of writes."),
), responses(
    (status = 200, body = AuditLines, description = "The lines."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The query is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "Who asks does not see everything."),
    (status = 500, body = Problem, content_type = "application/problem+json", description = "The log cannot be read."),
))]
pub async fn audit(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    request: Request,
) -> Result<Json<AuditLines>, Refusal> {
    who.sees_all()?;
    let Asked { from, limit, refused } = query(request.uri())?;
    if from.as_deref().is_some_and(|it| !is_time(it)) {
        return Err(Refusal::bad("`from` is a time in UTC: `2026-11-28T17:40:01Z`"));
    }
    let limit = limit.unwrap_or(PAGE);
    if !(1..=MOST).contains(&limit) {
        return Err(Refusal::bad(format!("`limit` lies outside 1 to {MOST}")));
    }
    let audit = Arc::clone(&app.audit);
    let is_of_refusals = refused.unwrap_or(false);
    let read = blocking(move || audit.newest(is_of_refusals, from.as_deref(), limit)).await?;
    let Newest { lines, has_more } = read.map_err(|error| {
        tracing::error!(%error, "the audit log cannot be read");
        let problem = "the audit log cannot be read: look at the controller's log";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, problem)
    })?;
    Ok(Json(AuditLines { lines, more: has_more }))
}

/// Whether a text is a time as lines have it.
fn is_time(text: &str) -> bool {
    let form = "0000-00-00T00:00:00Z";
    let fits = |(wanted, is): (u8, u8)| wanted == is || (wanted == b'0' && is.is_ascii_digit());
    text.len() == form.len() && form.bytes().zip(text.bytes()).all(fits)
}
