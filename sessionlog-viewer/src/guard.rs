//! The checks that every request passes, and the headers of every answer.
//!
//! A page of another site must not read a store through the browser of a person with access: not by
//! a name that it has made to mean this host (the `Host` header), not by requests that carry the
//! cookie along (`SameSite`, `Sec-Fetch-Site`, `Origin`), not in a frame or as a script (the
//! headers of the answers).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::connections::Place;
use crate::failure::Failure;
use crate::token::Token;

/// Allows no other host, no script or style that is not one of the viewer's files, no markup made
/// of text, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// The rules of access.
pub(crate) struct Guard {
    pub(crate) token: Option<Token>,
    pub(crate) beyond_loopback: bool,
    pub(crate) hosts: Vec<String>,
}

/// Lets a request in, or answers it.
pub(crate) async fn pass(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match guard.check(&request) {
        Ok(Asker::Known) if !may_stay(&request) => {
            let message = "too many connections are open";
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, message).into_response()
        }
        Ok(_) => next.run(request).await,
        Err(answer) => answer,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// It showed the token, or none is needed.
    Known,
    /// It asks for a page that needs no token.
    Stranger,
}

/// Gives the connection of a known asker a place that no stranger takes. A server of the caller's
/// own has no such places.
fn may_stay(request: &Request) -> bool {
    let place = request.extensions().get::<ConnectInfo<Place>>();
    place.is_none_or(|ConnectInfo(place)| place.admit())
}

impl Guard {
    #[expect(
        clippy::result_large_err,
        reason = "the answer of a refusal is made once per request"
    )]
    fn check(&self, request: &Request) -> Result<Asker, Response> {
        let refuse = |status, message: &str| Err(Failure::new(status, message).into_response());
        let headers = request.headers();
        if !self.knows_host(request.uri(), headers) {
            let message = "this name of the host is not known to the viewer; use its address, \
                or name it in the viewer's options";
            return refuse(StatusCode::MISDIRECTED_REQUEST, message);
        }
        if !self.knows_origin(headers) {
            let message = "only the viewer's own page may ask";
            return refuse(StatusCode::FORBIDDEN, message);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = Failure::new(StatusCode::METHOD_NOT_ALLOWED, "the viewer only reads")
                .into_response();
            let allow = HeaderValue::from_static("GET, HEAD");
            answer.headers_mut().insert(header::ALLOW, allow);
            return Err(answer);
        }
        let is_open = is_open(request.uri().path());
        let Some(token) = &self.token else {
            Self::refuse_other_sites(request)?;
            return Ok(if is_open {
                Asker::Stranger
            } else {
                Asker::Known
            });
        };
        if request.uri().path() == "/"
            && let Some(shown) = query_token(request.uri())
        {
            if token.is(shown) {
                return Err(let_in(token));
            }
            return refuse(StatusCode::UNAUTHORIZED, WRONG_TOKEN);
        }
        let is_shown = token.is_shown(headers);
        if is_open && !is_shown {
            return Ok(Asker::Stranger);
        }
        Self::refuse_other_sites(request)?;
        if is_shown {
            return Ok(Asker::Known);
        }
        refuse(StatusCode::UNAUTHORIZED, WRONG_TOKEN)
    }

    /// Refuses requests of other sites: a browser names the site that asked. To its cookies, pages
    /// on other ports of this host are the same site.
    #[expect(
        clippy::result_large_err,
        reason = "the answer of a refusal is made once per request"
    )]
    fn refuse_other_sites(request: &Request) -> Result<(), Response> {
        let site = request.headers().get("sec-fetch-site");
        let site = site.and_then(|value| value.to_str().ok());
        match site {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) if is_open(request.uri().path()) => Ok(()),
            Some(_) => {
                let message = "only the viewer's own page may ask";
                Err(Failure::new(StatusCode::FORBIDDEN, message).into_response())
            }
        }
    }

    /// Checks the origin: a browser names the page that asked, unless it is certainly this host's.
    /// The origin must be the requested host, or one that the options name.
    fn knows_origin(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
        let named = headers.get_all(header::ORIGIN).into_iter();
        let mut named = named.map(|value| value.to_str().unwrap_or_default());
        named.all(|origin| {
            let authority = origin.split_once("://").map_or("", |(_, rest)| rest);
            let is_asked = host.is_some_and(|host| authority.as_bytes().eq_ignore_ascii_case(host));
            is_asked || self.hosts.contains(&authority.to_ascii_lowercase())
        })
    }

    fn knows_host(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let named = headers.get_all(header::HOST).into_iter();
        let mut named = named.map(|value| value.to_str().unwrap_or_default());
        let (Some(host), None) = (named.next(), named.next()) else {
            return false;
        };
        let in_uri = uri.authority().map(axum::http::uri::Authority::as_str);
        self.is_known(host) && in_uri.is_none_or(|host| self.is_known(host))
    }

    fn is_known(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = without_port(&host);
        if self
            .hosts
            .iter()
            .any(|known| *known == host || known == name)
            || name == "localhost"
        {
            return true;
        }
        let address = name.strip_prefix('[').and_then(|v6| v6.strip_suffix(']'));
        let address = address.unwrap_or(name).parse::<IpAddr>();
        // An address is not a name that an attacker could make to mean another one.
        address.is_ok_and(|address| address.is_loopback() || self.beyond_loopback)
    }
}

const WRONG_TOKEN: &str =
    "open the viewer by the whole URL that was printed when it started: it has the token";

/// Returns true for paths that need no token: the page without any content.
fn is_open(path: &str) -> bool {
    !path.starts_with("/api/")
}

fn query_token(uri: &Uri) -> Option<&str> {
    let mut pairs = uri.query()?.split('&');
    pairs.find_map(|pair| pair.strip_prefix("token="))
}

/// Moves the token from the address bar and the history into a cookie.
fn let_in(token: &Token) -> Response {
    let Ok(cookie) = HeaderValue::from_str(&token.set_cookie()) else {
        return Failure::bad("the token is none").into_response();
    };
    let to = HeaderValue::from_static("/");
    let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, to)];
    (StatusCode::SEE_OTHER, headers).into_response()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => host,
    }
}
