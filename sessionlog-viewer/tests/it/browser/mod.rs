//! The page in a real browser, headless Chromium: Debian's packages `chromium` and
//! `chromium-driver`.
//!
//! Without them each test says SKIPPED on the terminal and passes, unless the environment
//! variable `SESSIONLOG_BROWSER` is `required`: then it fails.

mod conversation;
mod damage;
mod hostile;
mod keyboard;
mod live;
mod long;
mod looks;
mod rig;
mod trap;
