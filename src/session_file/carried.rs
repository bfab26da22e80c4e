//! What skipped control records still say.

use super::control::Control;
use super::line::{Decoded, decode};

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
        // Control records start like this, give or take blanks; most lines are
        // ruled out without being decoded.
        if memchr::memmem::find(&raw[..raw.len().min(64)], b"\"_").is_none() {
            return;
        }
        let Decoded::Control(control) = decode(raw) else {
            return;
        };
        let place = match control {
            Control::Usage { .. } => &mut self.usage,
            Control::Checkpoint { .. } => &mut self.checkpoint,
            Control::SystemPrompt { .. } => &mut self.prompt,
            Control::Foreign => return,
        };
        *place = Some(raw.to_vec());
    }

    /// The lines to carry on.
    pub(crate) fn into_lines(self) -> impl Iterator<Item = Vec<u8>> {
        [self.prompt, self.checkpoint, self.usage]
            .into_iter()
            .flatten()
    }
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
                br#"{"role": "_checkpoint", "id": 1}"#.to_vec(),
                br#"{"role":"_usage","token_count":7}"#.to_vec(),
            ]
        );
    }
}
