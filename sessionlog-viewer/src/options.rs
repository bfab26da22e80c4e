//! The options of a viewer.

use std::time::Duration;

/// Options of a [`Viewer`](crate::Viewer). The default: a random token, the loopback interface
/// only.
#[derive(Clone)]
#[must_use = "it does nothing until it is given to Viewer::new"]
pub struct ViewerOptions {
    pub(crate) token: Choice,
    pub(crate) beyond_loopback: bool,
    pub(crate) hosts: Vec<String>,
    pub(crate) title: String,
    pub(crate) limits: Limits,
}

/// The load limits of a viewer.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) poll_every: Duration,
    pub(crate) streams: usize,
    pub(crate) searches: usize,
    pub(crate) connections: usize,
}

/// Without the token: this ends up in logs.
impl std::fmt::Debug for ViewerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewerOptions")
            .field("beyond_loopback", &self.beyond_loopback)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// The choice of a viewer's token.
#[derive(Clone, Default)]
pub(crate) enum Choice {
    #[default]
    Random,
    Given(String),
    None,
}

impl Default for ViewerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ViewerOptions {
    /// Returns the defaults: a random token, the loopback interface only.
    pub fn new() -> Self {
        Self {
            token: Choice::default(),
            beyond_loopback: false,
            hosts: Vec::new(),
            title: String::from("sessions"),
            limits: Limits {
                poll_every: Duration::from_secs(1),
                streams: 32,
                searches: 2,
                connections: 128,
            },
        }
    }

    /// Sets this token in place of a random one, so that a URL outlives the process: 16 to 256
    /// letters, digits, `-` and `_`.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Choice::Given(token.into());
        self
    }

    /// Uses no token: every user and program of this machine may read. Only with the loopback
    /// interface.
    pub fn without_token(mut self) -> Self {
        self.token = Choice::None;
        self
    }

    /// Sets whether [`serve`](crate::Viewer::serve) accepts a listener on an address that other
    /// machines reach. It does not by default, and never without a token. Nothing is encrypted: put
    /// a proxy with TLS in front, or use a tunnel.
    pub fn beyond_loopback(mut self, allow: bool) -> Self {
        self.beyond_loopback = allow;
        self
    }

    /// Adds a name that browsers may use for the viewer's host, with or without a port. Known
    /// without it are `localhost`, the loopback addresses and, [beyond
    /// loopback](Self::beyond_loopback), every IP address.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// Sets the page's name for the store, such as its directory. Default: `sessions`.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the interval at which a store that reports no changes, such as one opened read-only, is
    /// looked at while a page watches: at least 50 ms, and longer if needed so that looking takes
    /// at most a tenth of the time. Default: 1 s.
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.limits.poll_every = interval.max(Duration::from_millis(50));
        self
    }

    /// Sets the number of pages that may be live at once; others get 503, and show the content they
    /// have. At least one. Default: 32.
    pub fn max_streams(mut self, most: usize) -> Self {
        self.limits.streams = most.max(1);
        self
    }

    /// Sets the number of searches that may run at once; others wait up to 5 s, then get 503. At
    /// least one. Default: 2.
    pub fn max_searches(mut self, most: usize) -> Self {
        self.limits.searches = most.max(1);
        self
    }

    /// Sets the number of connections that showed the token that [`serve`](crate::Viewer::serve)
    /// holds at once; others get 503. At least one. Default: 128.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.limits.connections = most.max(1);
        self
    }
}
