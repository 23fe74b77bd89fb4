//! Objects as they are answered: as they are kept, of a tenant's what it may see, and with what is
//! so of them.

use std::borrow::Cow;

use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use logical::objects::Status;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use store::{Entry, Revision};

use super::app::App;
use crate::access::Principal;
use crate::catalog;
use crate::conditions::{Conditions, Subject};
use crate::problem::{Json, Refusal};

pub type Tag = [(HeaderName, String); 1];

pub fn tag(revision: Revision) -> Tag {
    [(header::ETAG, format!("\"r{revision}\""))]
}

/// An object, as they may see it, with its ETag.
pub fn told(
    app: &App,
    status: StatusCode,
    entry: &Entry,
    who: &Principal,
) -> Result<Response, Refusal> {
    let object = shown(entry, who, &mut app.progress.conditions(who.knows_hosts()))?;
    Ok((status, tag(entry.modified), Json(object)).into_response())
}

/// The parts of an object.
#[derive(Serialize, Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: &'a RawValue,
    #[serde(borrow)]
    spec: &'a RawValue,
    #[serde(skip_deserializing)]
    status: Status,
}

/// An object, as they may see it.
pub fn shown(
    entry: &Entry,
    who: &Principal,
    conditions: &mut Conditions<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let object = declared(entry, who)?;
    let mut parts: Parts<'_> = serde_json::from_str(object.get()).map_err(defect)?;
    parts.status = conditions.of(&Subject::of(entry).map_err(defect)?);
    to_raw_value(&parts).map_err(defect)
}

/// What is declared of an object, as far as they may see it.
pub fn declared(entry: &Entry, who: &Principal) -> Result<Box<RawValue>, Refusal> {
    if who.tenant().is_some() {
        let object = catalog::shown(&entry.key, &entry.value).map_err(defect)?;
        return to_raw_value(&object).map_err(defect);
    }
    let text = String::from_utf8(entry.value.clone()).map_err(defect)?;
    RawValue::from_string(text).map_err(defect)
}

/// What is kept is not what was written.
pub fn defect(error: impl std::fmt::Display) -> Refusal {
    let problem = format!("the store has what is no object ({error}): look at the log");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, problem)
}
