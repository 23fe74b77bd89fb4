//! Answers of the API, and why a request is not done (RFC 9457).

use api::FieldProblem;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use logical::Fault;
use logical::objects::Identity;
use serde::{Deserialize, Serialize};
use store::{CommitError, StoreError};
use utoipa::ToSchema;

use crate::catalog::{OpenError, Refused};
use crate::patch::PatchError;

/// An answer: JSON, and a newline for whoever reads it on a terminal.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        json(&self.0, "application/json")
    }
}

fn json(value: &impl Serialize, media_type: &'static str) -> Response {
    match serde_json::to_vec(value) {
        Ok(mut body) => {
            body.push(b'\n');
            ([(header::CONTENT_TYPE, media_type)], body).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Why a request is not done (RFC 9457).
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `about:blank`: the status says which kind of problem it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the status means.
    pub title: String,
    /// The status.
    pub status: u16,
    /// What went wrong and what to do, in one sentence.
    pub detail: String,
    /// All that is wrong with objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    /// The object as it is now, if that is not as the request has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<logical::Object>)]
    pub current: Option<serde_json::Value>,
    /// Where a list goes on whose revision is forgotten: as `continue`, behind the last page, with
    /// what is there now.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
}

/// Why a request is not done.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    detail: String,
    errors: Vec<FieldProblem>,
    current: Option<serde_json::Value>,
    more: Option<String>,
}

impl Refusal {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), errors: Vec::new(), current: None, more: None }
    }

    /// What the answer's status is.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// An object is not there, for who asks.
    pub fn unknown(identity: &Identity) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {identity}"))
    }

    /// Objects are of nobody that who asks may write for.
    pub fn others<'a>(objects: impl Iterator<Item = &'a Identity>) -> Self {
        let message = "you have no such object: GET /v1/whoami says who you are";
        let error = |it: &Identity| FieldProblem {
            object: it.to_string(),
            path: "/metadata".into(),
            message: message.into(),
            line: None,
        };
        let errors = objects.map(error).collect();
        let detail = "objects are not yours: `errors` has them";
        Self { errors, ..Self::new(StatusCode::NOT_FOUND, detail) }
    }

    /// Nobody that is known asks (RFC 6750 §3).
    pub fn unauthenticated(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    /// The request is not understood.
    pub fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The revision of a list is forgotten, which can go on so.
    pub fn forgotten(more: Option<String>) -> Self {
        let detail = "the revision of the first page is forgotten: begin anew, or go on by `continue` with what is there now, which may miss what has changed on pages before";
        Self { more, ..Self::new(StatusCode::GONE, detail) }
    }

    /// One field of the object that was sent is wrong.
    pub fn field(object: String, path: &str, message: String) -> Self {
        let error = FieldProblem { object, path: path.into(), message, line: None };
        let detail = "the object cannot stand: `errors` says why";
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self { errors: vec![error], ..Self::new(status, detail) }
    }

    fn faults(status: StatusCode, detail: &str, faults: Vec<Fault>) -> Self {
        let field = |fault: Fault| FieldProblem {
            object: fault.object,
            path: fault.path,
            message: fault.message,
            line: fault.position.map(|position| position.line as u64),
        };
        Self { errors: faults.into_iter().map(field).collect(), ..Self::new(status, detail) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, detail, errors, current, more } = self;
        let problem = Problem {
            kind: "about:blank".into(),
            title: status.canonical_reason().unwrap_or_default().into(),
            status: status.as_u16(),
            detail,
            errors,
            current,
            more,
        };
        let mut response = json(&problem, "application/problem+json");
        *response.status_mut() = status;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer realm=\"zovn\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        response
    }
}

impl From<PatchError> for Refusal {
    fn from(error: PatchError) -> Self {
        let status = match error {
            PatchError::Unreadable(..) => StatusCode::BAD_REQUEST,
            PatchError::Untrue(..) => StatusCode::PRECONDITION_FAILED,
            PatchError::TooMany(_)
            | PatchError::TooDeep(_)
            | PatchError::Unsupported(_)
            | PatchError::Nowhere(..) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, error.to_string())
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unknown(identity) => Self::unknown(&identity),
            Refused::Stale(identity, current) => {
                let detail = match &current {
                    Some(_) => format!(
                        "{identity} is not as `If-Match` or its revision says: read it, and write it by its new ETag"
                    ),
                    None => format!("there is no {identity}"),
                };
                let current = current.and_then(|it| serde_json::to_value(it).ok());
                Self { current, ..Self::new(StatusCode::PRECONDITION_FAILED, detail) }
            }
            Refused::Unguarded(identity) => {
                let detail = format!(
                    "{identity} is there already: say by `If-Match` which revision of it you know"
                );
                Self::new(StatusCode::PRECONDITION_REQUIRED, detail)
            }
            Refused::Faults(faults) => {
                let detail = "the objects cannot stand: `errors` has all that is wrong";
                Self::faults(StatusCode::UNPROCESSABLE_ENTITY, detail, faults)
            }
            Refused::Needed(faults) => {
                let detail = "others need it: `errors` has who, and by which field";
                Self::faults(StatusCode::CONFLICT, detail, faults)
            }
            Refused::TooFar => {
                let detail =
                    "what needs it is needed in turn by too much for one request: delete in parts";
                Self::new(StatusCode::CONFLICT, detail)
            }
            Refused::InTheWay => {
                let detail =
                    "it contradicts, or would take away, what others have here: ask the operator";
                Self::new(StatusCode::CONFLICT, detail)
            }
            Refused::Reused => {
                let detail = "this `Idempotency-Key` was sent with something else: use another";
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
            }
            Refused::Full => {
                let detail = "no more `Idempotency-Key`s of yours can be remembered: send it without one, or in some hours";
                Self::new(StatusCode::TOO_MANY_REQUESTS, detail)
            }
            Refused::UsedUp(error) => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string())
            }
            Refused::Gone => {
                let detail = "your token or certificate has expired or was revoked, or its tenant is gone: nothing was changed";
                Self::unauthenticated(detail)
            }
            Refused::Store(error) => error.into(),
        }
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Store(error) => error.into(),
            OpenError::NoObject { .. } | OpenError::Unlabelled(_) | OpenError::UsedUp(_) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
        }
    }
}

impl From<CommitError> for Refusal {
    fn from(error: CommitError) -> Self {
        let status = match &error {
            CommitError::TooLarge { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            CommitError::Conflict(_) => StatusCode::SERVICE_UNAVAILABLE,
            CommitError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::Compacted { .. } => StatusCode::GONE,
            StoreError::Future { .. } => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}
