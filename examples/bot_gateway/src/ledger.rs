//! What the store owes us: for each chat, the effects of what it acknowledged.

use std::collections::HashSet;

use sessionlog::Message;

/// A message, or a summary, by its content.
pub(crate) type Fingerprint = u64;

/// What a reader of one chat sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChatState {
    /// The messages that are not truncated away, oldest first.
    pub(crate) visible: Vec<Fingerprint>,
    pub(crate) summary: Fingerprint,
}

/// What one command changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Append(Vec<Fingerprint>),
    /// All but the newest so many are gone, and there is a summary of them.
    Shrink(Fingerprint, usize),
}

impl ChatState {
    pub(crate) fn of(history: &[Message], summary: &str) -> Self {
        Self {
            visible: history.iter().map(fingerprint).collect(),
            summary: text_fingerprint(summary),
        }
    }

    /// A chat that nobody wrote to.
    pub(crate) fn empty() -> Self {
        Self::of(&[], "")
    }

    pub(crate) fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Append(messages) => self.visible.extend(messages),
            Effect::Shrink(summary, keep) => {
                self.summary = *summary;
                let gone = self.visible.len().saturating_sub(*keep);
                self.visible.drain(..gone);
            }
        }
    }

    pub(crate) fn after(&self, effect: &Effect) -> Self {
        let mut state = self.clone();
        state.apply(effect);
        state
    }
}

/// One chat's account.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) acknowledged: ChatState,
    /// A command whose outcome never became known: it may be there, whole, or
    /// not at all.
    pub(crate) in_doubt: Option<Effect>,
}

impl Ledger {
    pub(crate) fn starting_from(state: ChatState) -> Self {
        Self {
            acknowledged: state,
            in_doubt: None,
        }
    }

    /// Every state the store may rightly show.
    pub(crate) fn allowed(&self) -> Vec<ChatState> {
        let doubted = self
            .in_doubt
            .as_ref()
            .map(|effect| self.acknowledged.after(effect));
        std::iter::once(self.acknowledged.clone())
            .chain(doubted)
            .collect()
    }
}

/// Compares what a chat shows with what it may show; `Err` says what is wrong.
pub(crate) fn compare(actual: &ChatState, allowed: &[ChatState]) -> Result<(), String> {
    if allowed.contains(actual) {
        return Ok(());
    }
    let nearest = allowed.iter().min_by_key(|state| distance(actual, state));
    Err(nearest.map_or_else(
        || String::from("nothing is allowed here"),
        |s| difference(actual, s),
    ))
}

fn distance(actual: &ChatState, expected: &ChatState) -> usize {
    let (missing, surplus) = missing_and_surplus(actual, expected);
    missing + surplus + usize::from(actual.summary != expected.summary)
}

fn difference(actual: &ChatState, expected: &ChatState) -> String {
    let (missing, surplus) = missing_and_surplus(actual, expected);
    let mut faults = Vec::new();
    if missing > 0 {
        faults.push(format!("acknowledged messages missing: {missing}"));
    }
    if surplus > 0 {
        faults.push(format!("messages there that must not be: {surplus}"));
    }
    if missing + surplus == 0 && actual.visible != expected.visible {
        faults.push(String::from("the messages are out of order or repeated"));
    }
    if actual.summary != expected.summary {
        faults.push(String::from("the summary is not the acknowledged one"));
    }
    faults.join("; ")
}

fn missing_and_surplus(actual: &ChatState, expected: &ChatState) -> (usize, usize) {
    let there: HashSet<_> = actual.visible.iter().collect();
    let due: HashSet<_> = expected.visible.iter().collect();
    (
        due.difference(&there).count(),
        there.difference(&due).count(),
    )
}

/// Covers all that the bot writes into a message. The store adds `created_at`,
/// so the encoded line cannot serve.
pub(crate) fn fingerprint(message: &Message) -> Fingerprint {
    let fields = serde_json::to_value(message).unwrap_or_default();
    let mut hash = Fnv1a::new();
    hash.add(message.role());
    hash.add(&message.text());
    for name in ["media", "tool_calls", "tool_call_id"] {
        hash.add(
            &fields
                .get(name)
                .map(ToString::to_string)
                .unwrap_or_default(),
        );
    }
    hash.0
}

pub(crate) fn text_fingerprint(text: &str) -> Fingerprint {
    let mut hash = Fnv1a::new();
    hash.add(text);
    hash.0
}

/// FNV-1a, 64 bits: the same in every process and version, as the log of
/// acknowledgements needs it.
struct Fnv1a(u64);

impl Fnv1a {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// The closing 0xff, which UTF-8 never holds, keeps `("a", "bc")` apart
    /// from `("ab", "c")`.
    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(visible: &[u64]) -> ChatState {
        ChatState {
            visible: visible.to_vec(),
            summary: 0,
        }
    }

    #[test]
    fn a_truncation_keeps_the_newest() {
        let mut chat = state(&[1, 2, 3, 4]);
        chat.apply(&Effect::Shrink(chat.summary, 9));
        assert_eq!(chat, state(&[1, 2, 3, 4]));
        chat.apply(&Effect::Shrink(chat.summary, 2));
        chat.apply(&Effect::Append(vec![5]));
        assert_eq!(chat, state(&[3, 4, 5]));
    }

    #[test]
    fn a_command_in_doubt_may_be_there_whole_or_not_at_all() {
        let mut ledger = Ledger::starting_from(state(&[1, 2]));
        ledger.in_doubt = Some(Effect::Append(vec![3, 4]));
        assert_eq!(compare(&state(&[1, 2]), &ledger.allowed()), Ok(()));
        assert_eq!(compare(&state(&[1, 2, 3, 4]), &ledger.allowed()), Ok(()));
        assert!(compare(&state(&[1, 2, 3]), &ledger.allowed()).is_err());
    }

    #[test]
    fn a_difference_says_which_way_it_goes() {
        let allowed = [state(&[3, 4])];
        let fault = |actual: &[u64]| compare(&state(actual), &allowed).unwrap_err();
        assert_eq!(fault(&[4]), "acknowledged messages missing: 1");
        assert_eq!(fault(&[1, 2, 3, 4]), "messages there that must not be: 2");
        assert_eq!(fault(&[4, 3]), "the messages are out of order or repeated");
    }
}
