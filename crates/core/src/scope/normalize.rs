//! The ids of agents and accounts, made fit for keys and file names.

use crate::session_file::fold;

/// The most bytes of an id.
const MAX_ID_BYTES: usize = 64;

/// An agent's id in lower case, with every run of characters other than `a-z 0-9 _ -` as one `-`,
/// and at most 64 bytes of it; `main` if nothing is left.
///
/// ```
/// use sessionlog::scope::normalize_agent_id;
///
/// assert_eq!(normalize_agent_id(" Sales Team "), "sales-team");
/// assert_eq!(normalize_agent_id("中文"), "main");
/// ```
#[must_use]
pub fn normalize_agent_id(id: &str) -> String {
    normalize_id(id, "main")
}

/// The bot's account on a platform, by the rules of [`normalize_agent_id`];
/// `default` if nothing is left.
#[must_use]
pub fn normalize_account_id(id: &str) -> String {
    normalize_id(id, "default")
}

fn normalize_id(id: &str, default: &str) -> String {
    let id = fold(id);
    if is_valid(&id) {
        return id.into_owned();
    }
    let mut normal = String::with_capacity(id.len().min(MAX_ID_BYTES * 2));
    let mut replaced = false;
    for character in id.chars() {
        if is_id_char(character) {
            normal.push(character);
        } else if !replaced {
            normal.push('-');
        }
        replaced = !is_id_char(character);
    }
    let normal = normal.trim_matches('-');
    // Cut after trimming: PicoClaw's ids may end in the `-` at byte 64.
    let normal = &normal[..normal.len().min(MAX_ID_BYTES)];
    if normal.is_empty() { default } else { normal }.to_owned()
}

/// True for a valid id. It keeps a trailing `-`, which a normalised one loses.
fn is_valid(id: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&id.len())
        && !id.starts_with(['-', '_'])
        && id.chars().all(is_id_char)
}

fn is_id_char(character: char) -> bool {
    matches!(character, 'a'..='z' | '0'..='9' | '_' | '-')
}
