//! What skipped control records still say.

use std::borrow::Cow;

use super::control::{Control, encode_lost_checkpoint};
use super::line::{Decoded, decode, lines};

/// The control records among skipped lines whose effect outlives them: the last
/// token usage, the last checkpoint, which numbers the next one, and the last
/// system prompt. Dropped with the lines around them, a compacted session would
/// number its checkpoints anew and forget its prompt.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    prompt: Option<Vec<u8>>,
    checkpoint: Option<Vec<u8>>,
    usage: Option<Vec<u8>>,
}

impl Carried {
    /// Takes note of a skipped line.
    pub(crate) fn note(&mut self, raw: &[u8]) {
        if !may_be_control(raw) {
            return;
        }
        let Decoded::Control(control) = decode(raw) else {
            return;
        };
        match control {
            Control::Usage { .. } => self.usage = Some(raw.to_vec()),
            Control::Checkpoint { .. } => self.checkpoint = Some(without_place(raw).into_owned()),
            Control::SystemPrompt { .. } => self.prompt = Some(raw.to_vec()),
            Control::Foreign => {}
        }
    }

    /// The record that numbers the next checkpoint, not to be carried in front.
    fn take_checkpoint(&mut self) -> Option<Vec<u8>> {
        self.checkpoint.take()
    }

    /// The lines to carry on.
    pub(crate) fn into_lines(self) -> impl Iterator<Item = Vec<u8>> {
        [self.prompt, self.checkpoint, self.usage]
            .into_iter()
            .flatten()
    }
}

/// A control record whose lines before it were dropped or replaced: a
/// checkpoint is lost then, and only numbers the next one.
pub(crate) fn without_place(raw: &[u8]) -> Cow<'_, [u8]> {
    match decode(raw) {
        Decoded::Control(Control::Checkpoint { id, lost: false }) => {
            Cow::Owned(encode_lost_checkpoint(id).into_bytes())
        }
        _ => Cow::Borrowed(raw),
    }
}

/// A session's lines for a reader that knows neither hidden lines nor lost
/// checkpoints: the `live` ones, after what the `hidden` ones still say.
///
/// A lost checkpoint would be gone back to there, and in front of everything it
/// would take all of it along. It is only left if it numbers the next one,
/// and then at the end, where going back to it takes nothing that stands here.
pub(crate) fn without_hidden(hidden: &[u8], live: &[u8]) -> Vec<u8> {
    let mut carried = Carried::default();
    for (_, raw) in lines(hidden) {
        carried.note(raw);
    }
    let mut numbering = carried.take_checkpoint();
    let mut out = Vec::with_capacity(live.len());
    let put = |out: &mut Vec<u8>, raw: &[u8]| {
        out.extend_from_slice(raw);
        out.push(b'\n');
    };
    for raw in carried.into_lines() {
        put(&mut out, &raw);
    }
    for (_, raw) in lines(live) {
        let control = may_be_control(raw).then(|| decode(raw));
        if let Some(Decoded::Control(Control::Checkpoint { lost, .. })) = control {
            numbering = lost.then(|| raw.to_vec());
            if lost {
                continue;
            }
        }
        put(&mut out, raw);
    }
    if let Some(raw) = numbering {
        put(&mut out, &raw);
    }
    out
}

/// Whether a line is worth decoding if only control records matter. Most
/// lines are ruled out.
pub(super) fn may_be_control(raw: &[u8]) -> bool {
    memchr::memmem::find(raw, b"\"_").is_some()
}

#[cfg(test)]
mod tests {
    use super::Carried;

    #[test]
    fn the_last_control_of_each_kind_is_carried() {
        let mut carried = Carried::default();
        for line in [
            r#"{"role":"_usage","token_count":1}"#,
            r#"{"role": "_checkpoint", "id": 0}"#,
            r#"{"role":"user","content":"x"}"#,
            r#"{"role": "_checkpoint", "id": 1}"#,
            r#"{"role":"_usage","token_count":7}"#,
            r#"{"role":"_note","content":"n"}"#,
        ] {
            carried.note(line.as_bytes());
        }
        let lines: Vec<_> = carried.into_lines().collect();
        assert_eq!(
            lines,
            [
                br#"{"role": "_checkpoint", "id": 1, "lost": true}"#.to_vec(),
                br#"{"role":"_usage","token_count":7}"#.to_vec(),
            ]
        );
    }
}
