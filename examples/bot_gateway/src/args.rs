//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use sessionlog::Durability;

/// A bot gateway on one session store.
///
/// Reads inbound updates of Telegram, Slack and Discord, drives all chats
/// concurrently through one handle (the user's message; the assistant's tool
/// call, its result and the answer as one atomic append; a summary and a
/// truncation once a chat holds more than 40 messages), then reopens the store
/// and checks that every acknowledged message is there.
///
/// Exits with 0 if the check holds, 1 if not or if the run failed.
#[derive(Parser)]
#[command(name = "bot_gateway")]
pub(crate) struct Args {
    /// Directory of the store; created if missing, continued if it holds one.
    #[arg(long, value_name = "DIR", default_value = "bot-gateway-sessions")]
    pub(crate) dir: PathBuf,

    /// Updates to read, one JSON object per line; `-` is the standard input
    /// [default: the updates.jsonl beside the example's source].
    ///
    /// A line is {"platform":"telegram"|"slack"|"discord","body":{…}}, the body
    /// being what the platform sends: a Telegram `Update`, a Slack Events API
    /// request, a Discord gateway payload. A bare body is recognised by its
    /// shape. Lines that are none of these are reported and skipped.
    #[arg(long, value_name = "FILE|-", default_value = default_updates(), hide_default_value = true)]
    pub(crate) updates: PathBuf,

    /// What tells conversations apart and who is one person, as JSON
    /// [default: the gateway.json beside the example's source].
    ///
    /// `{"agent_id":…,"session":{"dimensions":[…],"identity_links":{…}}}`, the
    /// dimensions being of `space`, `chat`, `topic` and `sender`. All but
    /// `identity_links` is required, and other names are refused. A link is
    /// `telegram:<user>`, `discord:<user>` or `slack:<team>/<user>`.
    #[arg(long, value_name = "FILE", default_value = default_config(), hide_default_value = true)]
    pub(crate) config: PathBuf,

    /// Turns under way at once.
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) concurrency: u32,

    /// What an acknowledged message survives: `durable` a power loss,
    /// `buffered` the death of the process.
    #[arg(long, value_enum, default_value_t = Level::Durable)]
    pub(crate) durability: Level,

    /// Replay the updates N times, as more turns in the same chats.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) repeat: u64,

    /// Bring all session files up to date on disk every MS milliseconds, as for
    /// a backup; otherwise the store does so by itself when it is idle.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) flush_every: Option<u64>,

    /// Append to FILE what is asked of the store and what it acknowledges, as
    /// it happens, for --verify-acks; `-` is the standard output (the report
    /// then goes to the standard error).
    #[arg(long, value_name = "FILE|-")]
    pub(crate) ack_log: Option<PathBuf>,

    /// Run nothing: open the store, which recovers it if a run was killed, and
    /// check it against a file that --ack-log wrote.
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["updates", "config", "concurrency", "durability", "repeat", "flush_every", "ack_log"])]
    pub(crate) verify_acks: Option<PathBuf>,
}

/// [`Durability`] as a word.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Level {
    Durable,
    Buffered,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Buffered => "buffered",
        }
    }
}

impl From<Level> for Durability {
    fn from(level: Level) -> Self {
        match level {
            Level::Durable => Self::Durable,
            Level::Buffered => Self::Buffered,
        }
    }
}

fn default_updates() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/updates.jsonl")
}

fn default_config() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/gateway.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
