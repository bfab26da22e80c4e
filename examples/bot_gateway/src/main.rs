//! The main job of a session store: a gateway that serves many chats of three
//! platforms at once and never forgets what it acknowledged.
//!
//! ```sh
//! cargo run --release --example bot_gateway
//! ```

use std::process::ExitCode;

fn main() -> ExitCode {
    bot_gateway::run()
}
