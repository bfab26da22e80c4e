//! The rule book: what a verb does to a session, decided once for every store.
//!
//! Everything here is pure: from the state of a session and an order to an error or a decision. The
//! engine stages what is decided, the stores in memory apply it, and `sessionlog-postgres` turns it
//! into statements.
//!
//! * [`names`]: which session a key means.
//! * [`lines`]: which lines messages become, and their limits.
//! * [`update`]: whether an update applies, does nothing, or is refused.
//! * [`dates`]: which times an imported session gets.
//! * [`identity`]: which scope and aliases a session may have, and whose history it takes over.
//! * [`moving`]: whether a session may go on under another key.

pub mod dates;
pub mod identity;
pub mod lines;
pub mod moving;
pub mod names;
pub mod update;
