//! Connection strings: the TLS options that `libpq` knows and `tokio-postgres` does not.
//!
//! `sslmode=verify-full` and `verify-ca` mean the same as `require`. All of them always check the
//! signer of the certificate, and that the certificate is for this host. `sslrootcert` names a file
//! with the certificates of the permitted signers, or is `system`.

use std::path::PathBuf;

/// A connection string that `tokio-postgres` can read, and the options that were taken out of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Dsn {
    pub(crate) rest: String,
    pub(crate) root_certificates: Option<PathBuf>,
}

impl Dsn {
    pub(crate) fn read(dsn: &str) -> Self {
        let mut read = Self::default();
        read.rest = if dsn.starts_with("postgres://") || dsn.starts_with("postgresql://") {
            read.url(dsn)
        } else {
            read.pairs(dsn)
        };
        read
    }

    fn url(&mut self, dsn: &str) -> String {
        let Some((before, query)) = dsn.split_once('?') else {
            return dsn.to_owned();
        };
        let pairs = query.split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match self.judge(name, &decoded(value)) {
                Verdict::Stays => Some(pair.to_owned()),
                Verdict::Becomes(value) => Some(format!("{name}={value}")),
                Verdict::Goes => None,
            }
        });
        let query = pairs.collect::<Vec<_>>().join("&");
        format!("{before}?{query}")
    }

    fn pairs(&mut self, dsn: &str) -> String {
        let mut kept = String::new();
        let mut left = dsn.trim_start();
        while let Some((name, rest)) = left.split_once('=') {
            let (value, end) = value_of(rest.trim_start());
            let pair = &left[..left.len() - end.len()];
            let name = name.trim();
            match self.judge(name, &value) {
                Verdict::Stays => kept.push_str(pair.trim_end()),
                Verdict::Becomes(value) => kept.extend([name, "=", value]),
                Verdict::Goes => {}
            }
            kept.push(' ');
            left = end.trim_start();
        }
        kept.push_str(left);
        kept.trim_end().to_owned()
    }

    /// Takes an option in, and decides its fate in the string.
    fn judge(&mut self, name: &str, value: &str) -> Verdict {
        match (name, value) {
            ("sslrootcert", "system" | "") => Verdict::Goes,
            ("sslrootcert", path) => {
                self.root_certificates = Some(PathBuf::from(path));
                Verdict::Goes
            }
            ("sslmode", "verify-full" | "verify-ca") => Verdict::Becomes("require"),
            _ => Verdict::Stays,
        }
    }
}

/// The fate of an option in a connection string.
enum Verdict {
    Stays,
    Becomes(&'static str),
    Goes,
}

/// Returns the value that begins here, and the text after it. The value is in quotes, or ends at
/// white space.
fn value_of(text: &str) -> (String, &str) {
    let (quoted, text) = match text.strip_prefix('\'') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return (value, &text[at + 1..]),
            c if !quoted && c.is_whitespace() => return (value, &text[at..]),
            c => value.push(c),
        }
    }
    (value, "")
}

/// Decodes `%41` and the like.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut left = value.as_bytes();
    while let [first, rest @ ..] = left {
        let hex = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let (b'%', Some(byte)) = (first, byte) {
            bytes.push(byte);
            left = &rest[2..];
        } else {
            bytes.push(*first);
            left = rest;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dsn: &str) -> (String, Option<String>) {
        let Dsn {
            rest,
            root_certificates: root,
        } = Dsn::read(dsn);
        let parsed: Result<tokio_postgres::Config, _> = rest.parse();
        assert!(parsed.is_ok(), "{rest}: {parsed:?}");
        (rest, root.map(|path| path.display().to_string()))
    }

    #[test]
    fn what_libpq_says_of_tls_is_understood_in_both_kinds_of_string() {
        let root = Some(String::from("/a b/root.pem"));
        assert_eq!(
            read(
                "postgres://bot:p%3D@db1,db2/chats?sslmode=verify-full&sslrootcert=/a%20b/root.pem&connect_timeout=3"
            ),
            (
                "postgres://bot:p%3D@db1,db2/chats?sslmode=require&connect_timeout=3".into(),
                root.clone()
            )
        );
        assert_eq!(
            read(
                r"host=db1 password='a\'b = c'  sslmode = verify-ca sslrootcert='/a b/root.pem' user=bot"
            ),
            (
                r"host=db1 password='a\'b = c' sslmode=require  user=bot".into(),
                root
            )
        );
        assert_eq!(
            read("postgres://db1?sslrootcert=system"),
            ("postgres://db1?".into(), None)
        );
    }

    #[test]
    fn what_says_nothing_of_it_stays_as_it_is() {
        for dsn in [
            "postgres://bot@db1/chats",
            "postgresql:///chats?host=/run/postgresql&sslmode=prefer",
            "host=db1 user=bot password='sslmode=verify-full' sslmode=require",
        ] {
            assert_eq!(read(dsn), (dsn.to_owned(), None));
        }
        assert_eq!(Dsn::read("nonsense").rest, "nonsense");
    }
}
