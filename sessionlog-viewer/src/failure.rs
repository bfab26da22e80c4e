//! The reason that a request failed, as JSON.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use sessionlog::Error;

/// An answer that describes a failure.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    message: String,
}

pub(crate) type Answer<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn missing(key: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            format!("session {key:?} does not exist"),
        )
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Returns the failure for an index or position that is not of the present session any more.
    pub(crate) fn outdated() -> Self {
        let message = "the session was truncated, replaced or compacted meanwhile; load it again";
        Self::new(StatusCode::CONFLICT, message)
    }

    pub(crate) fn busy(what: &str) -> Self {
        let message = format!("too many {what} at once; try again");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = self.status.as_u16();
        let body = Json(json!({ "error": self.message, "status": code }));
        (self.status, body).into_response()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::InvalidKey { .. } | Error::InvalidPattern { .. } => StatusCode::BAD_REQUEST,
            Error::SessionNotFound { .. } => StatusCode::NOT_FOUND,
            Error::PositionNotFound { .. } => return Self::outdated(),
            Error::Closed | Error::Overloaded { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::warn!(%error, "the viewer could not read the store");
        }
        Self::new(status, error.to_string())
    }
}
