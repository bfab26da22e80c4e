//! The token that a browser shows for access.

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};

use crate::options::Choice;
use crate::viewer::ViewerError;

/// Bytes of a random token: it cannot be guessed.
const RANDOM_BYTES: usize = 32;

const LENGTHS: std::ops::RangeInclusive<usize> = 16..=256;

/// A token, and the name of the cookie that keeps it.
pub(crate) struct Token {
    secret: String,
    /// Cookies do not tell ports apart: two viewers on one address need two names.
    cookie: String,
}

impl Token {
    /// # Errors
    /// If the given one is too short or has other characters, or the system gives no random bytes.
    pub(crate) fn choose(choice: Choice) -> Result<Option<Self>, ViewerError> {
        let secret = match choice {
            Choice::None => return Ok(None),
            Choice::Random => random()?,
            Choice::Given(token) => token,
        };
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !LENGTHS.contains(&secret.len()) || !secret.bytes().all(is_plain) {
            return Err(ViewerError::InvalidToken);
        }
        let name = hex(&Sha256::digest(secret.as_bytes())[..4]);
        let cookie = format!("sessionlog-{name}");
        Ok(Some(Self { secret, cookie }))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.secret
    }

    /// Returns true if this is the token. The time it takes does not reveal how much of it is
    /// right.
    pub(crate) fn is(&self, shown: &str) -> bool {
        constant_time_eq::constant_time_eq(shown.as_bytes(), self.secret.as_bytes())
    }

    /// Returns true if a request shows it, as a cookie or, for a script, as a header.
    pub(crate) fn is_shown(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get(header::AUTHORIZATION);
        let bearer = bearer.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let cookies = headers.get_all(header::COOKIE).into_iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut kept = cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|cookie| cookie.trim().strip_prefix(&*self.cookie)?.strip_prefix('='));
        bearer.is_some_and(|token| self.is(token)) || kept.any(|token| self.is(token))
    }

    /// Returns the header that has a browser keep it until the browser is closed: scripts cannot
    /// reach it, and other sites' pages do not send it along.
    pub(crate) fn set_cookie(&self) -> String {
        let Self { secret, cookie } = self;
        format!("{cookie}={secret}; Path=/; HttpOnly; SameSite=Strict")
    }
}

fn random() -> Result<String, ViewerError> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(|e| ViewerError::NoRandom(e.to_string()))?;
    Ok(hex(&bytes))
}

/// Returns two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
