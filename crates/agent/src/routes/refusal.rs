//! Answers of the API, and why a request is not done.

use api::Problem;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::InvalidConfig;
use serde::Serialize;

use crate::host::{
    AttachError, CaptureError, ChangeError, DetachError, HandoverError, PacketTraceError,
    TraceError,
};
use crate::worker::{PutError, ReplaceError, Stopped, TakeOverError};

/// An answer: JSON, and a newline for whoever reads it on a terminal.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut body = Vec::new();
        match serde_json::to_writer(&mut body, &self.0) {
            Ok(()) => {
                body.push(b'\n');
                ([(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

/// Why a request is not done.
pub struct Refusal(pub StatusCode, pub String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(status, error) = self;
        (status, Json(Problem { error, errors: Vec::new() })).into_response()
    }
}

impl From<Stopped> for Refusal {
    fn from(stopped: Stopped) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, stopped.to_string())
    }
}

impl From<InvalidConfig> for Refusal {
    fn from(error: InvalidConfig) -> Self {
        Self(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
    }
}

impl From<ReplaceError> for Refusal {
    fn from(error: ReplaceError) -> Self {
        let status = match error {
            ReplaceError::Invalid(_) | ReplaceError::BesideLogical(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            ReplaceError::UnknownNetwork(_) => StatusCode::NOT_FOUND,
            ReplaceError::Stale(_) => StatusCode::PRECONDITION_FAILED,
        };
        Self(status, error.to_string())
    }
}

impl From<AttachError> for Refusal {
    fn from(error: AttachError) -> Self {
        let status = match error {
            AttachError::NameTaken(_) => StatusCode::CONFLICT,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self(status, error.to_string())
    }
}

impl From<PutError> for Refusal {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Attach(error) => error.into(),
            PutError::Change(error) => error.into(),
            PutError::Otherwise { .. } => Self(StatusCode::CONFLICT, error.to_string()),
        }
    }
}

impl From<CaptureError> for Refusal {
    fn from(error: CaptureError) -> Self {
        let status = match error {
            CaptureError::UnknownPort(_) | CaptureError::NotHere(_) => StatusCode::NOT_FOUND,
            CaptureError::TooMany => StatusCode::TOO_MANY_REQUESTS,
        };
        Self(status, error.to_string())
    }
}

impl From<TraceError> for Refusal {
    fn from(error: TraceError) -> Self {
        let status = match error {
            TraceError::UnknownPort(_) => StatusCode::NOT_FOUND,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self(status, error.to_string())
    }
}

impl From<PacketTraceError> for Refusal {
    fn from(error: PacketTraceError) -> Self {
        let status = match error {
            PacketTraceError::UnknownPort(_) | PacketTraceError::NotHere(_) => {
                StatusCode::NOT_FOUND
            }
            PacketTraceError::NotLogical(_) | PacketTraceError::NotRealized(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
        };
        Self(status, error.to_string())
    }
}

impl From<HandoverError> for Refusal {
    fn from(error: HandoverError) -> Self {
        match error {
            HandoverError::Port(error) => error.into(),
            HandoverError::OfAnother(_) => {
                Self(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
            }
        }
    }
}

impl From<TakeOverError> for Refusal {
    fn from(error: TakeOverError) -> Self {
        match error {
            TakeOverError::Host(error) => error.into(),
            TakeOverError::Unreadable(_) => Self(StatusCode::BAD_REQUEST, error.to_string()),
        }
    }
}

impl From<DetachError> for Refusal {
    fn from(error: DetachError) -> Self {
        let status = match error {
            DetachError::UnknownPort(_) => StatusCode::NOT_FOUND,
            DetachError::Interface(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.to_string())
    }
}

impl From<ChangeError> for Refusal {
    fn from(error: ChangeError) -> Self {
        let status = match error {
            ChangeError::UnknownPort(_) => StatusCode::NOT_FOUND,
            ChangeError::Invalid(_) | ChangeError::Memory { .. } => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
        };
        Self(status, error.to_string())
    }
}
