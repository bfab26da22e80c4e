//! The hidden control records that are still in effect.

use std::borrow::Cow;

use super::control::{Control, encode_lost_checkpoint};
use super::line::{Decoded, decode, lines};

/// The control records among skipped lines whose effect outlives them: the last token usage, the
/// last checkpoint, which numbers the next one, and the last system prompt. If they were dropped
/// with the lines around them, a compacted session would number its checkpoints anew and forget its
/// prompt.
#[derive(Debug, Default)]
pub struct CarriedControls {
    prompt: Option<Vec<u8>>,
    checkpoint: Option<Vec<u8>>,
    usage: Option<Vec<u8>>,
}

impl CarriedControls {
    /// Takes note of a skipped line.
    pub fn note(&mut self, raw: &[u8]) {
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

    /// Takes the record that numbers the next checkpoint, which must not be carried in front.
    fn take_checkpoint(&mut self) -> Option<Vec<u8>> {
        self.checkpoint.take()
    }

    /// The lines to keep.
    pub fn into_lines(self) -> impl Iterator<Item = Vec<u8>> {
        [self.prompt, self.checkpoint, self.usage]
            .into_iter()
            .flatten()
    }
}

/// A control record after the lines before it were dropped or replaced: a checkpoint becomes lost,
/// and only numbers the next one.
#[must_use]
pub fn without_place(raw: &[u8]) -> Cow<'_, [u8]> {
    match decode(raw) {
        Decoded::Control(Control::Checkpoint { id, lost: false }) => {
            Cow::Owned(encode_lost_checkpoint(id).into_bytes())
        }
        _ => Cow::Borrowed(raw),
    }
}

/// A session's lines for a reader that knows neither hidden lines nor lost checkpoints: the
/// `hidden` control records still in effect, then the `live` lines.
///
/// Such a reader would revert to a lost checkpoint, and if it stood in front, that would remove
/// everything. So it is kept only if it numbers the next one, and then at the end, where a revert
/// to it removes nothing.
#[must_use]
pub fn without_hidden(hidden: &[u8], live: &[u8]) -> Vec<u8> {
    let mut carried = CarriedControls::default();
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

/// True if a line is worth decoding when only control records matter. Rules out most lines.
pub(super) fn may_be_control(raw: &[u8]) -> bool {
    memchr::memmem::find(raw, b"\"_").is_some()
}

#[cfg(test)]
mod tests {
    use super::CarriedControls;

    #[test]
    fn the_last_control_of_each_kind_is_carried() {
        let mut carried = CarriedControls::default();
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
