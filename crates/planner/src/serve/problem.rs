//! What is answered instead of an answer.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::desk::Unanswered;

/// Why a question is not answered (RFC 9457).
pub struct Refusal(pub StatusCode, pub String);

impl From<Unanswered> for Refusal {
    fn from(why: Unanswered) -> Self {
        let detail = match why {
            Unanswered::Busy => "too many questions wait already: ask again in a second",
            Unanswered::Gone => "the planner has failed and ends: ask again when it was restarted",
        };
        Self(StatusCode::SERVICE_UNAVAILABLE, detail.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Problem<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            title: &'static str,
            status: u16,
            detail: &'a str,
        }
        let Self(status, detail) = self;
        let problem = Problem {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: &detail,
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, kind, body).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_for_now_is_told_when_to_ask_again() {
        let response = Refusal::from(Unanswered::Busy).into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
