//! A message without a list of parts: the parts are moved to PicoClaw's fields.

use super::content::{Content, ContentPart, Value, for_each_part};
use super::message::Message;
use super::parts::Attachment;

/// The prefixes of `media` that PicoClaw gives to a model: media within their URL, and media that
/// it keeps itself. It fetches nothing; other addresses are for people.
const MEDIA: [&str; 2] = ["data:", "media://"];

impl Message {
    /// The message with a text as its content, as PicoClaw reads it, and the number of parts that
    /// have no place in such a message or lose something.
    ///
    /// Texts are joined. Thoughts become the reasoning, if it is empty. Media become media or
    /// attachments, after the existing ones.
    #[doc(hidden)]
    #[must_use]
    pub fn flattened(mut self) -> (Self, usize) {
        let Content::Parts(parts) = &self.content else {
            return (self, 0);
        };
        let mut flat = Flat::default();
        for_each_part(parts, |part| flat.take(part));
        if self.reasoning_content.is_empty() {
            self.reasoning_content = flat.thoughts;
        } else if flat.thoughts != self.reasoning_content {
            flat.homeless += flat.thinking;
        }
        self.content = Content::Text(flat.text);
        self.media.append(&mut flat.media);
        self.attachments.append(&mut flat.attachments);
        (self, flat.homeless)
    }
}

/// The result of the parts read so far.
#[derive(Default)]
struct Flat {
    text: String,
    thoughts: String,
    /// The number of parts in `thoughts`, without those that lose something anyway.
    thinking: usize,
    media: Vec<String>,
    attachments: Vec<Attachment>,
    /// The number of parts that have no place, or lose something.
    homeless: usize,
}

impl Flat {
    fn take(&mut self, part: ContentPart<'_>) {
        let encrypted = matches!(&part.encrypted, Value::Text(text) if !text.is_empty());
        let loses = part.has_more || encrypted;
        let whole = match part.kind.as_deref() {
            Some("text") => push(&mut self.text, part.text) && !loses,
            Some("think") => {
                self.thinking += usize::from(!loses);
                push(&mut self.thoughts, part.think) && !loses
            }
            Some("image_url") => self.medium("image", part.image_url) && !loses,
            Some("audio_url") => self.medium("audio", part.audio_url) && !loses,
            Some("video_url") => self.medium("video", part.video_url) && !loses,
            _ => false,
        };
        self.homeless += usize::from(!whole);
    }

    /// Takes in a medium; returns true if nothing of it was lost.
    fn medium(&mut self, kind: &str, link: Value<'_>) -> bool {
        let Value::Link { url, has_more } = link else {
            return false;
        };
        if MEDIA.iter().any(|scheme| url.starts_with(scheme)) {
            self.media.push(url.into());
        } else {
            let mut attachment = Attachment::new(kind, "");
            attachment.url = url.into();
            self.attachments.push(attachment);
        }
        !has_more
    }
}

fn push(onto: &mut String, text: Value<'_>) -> bool {
    let Value::Text(text) = text else {
        return false;
    };
    onto.push_str(&text);
    true
}

#[cfg(test)]
mod tests {
    use super::Message;
    use crate::session_file::{Decoded, decode, encode};

    fn flat(line: &str) -> (String, usize) {
        let Decoded::Message(message) = decode(line.as_bytes()) else {
            panic!("no message: {line}");
        };
        let (message, homeless): (Message, _) = message.flattened();
        (
            String::from_utf8(encode(&message, None)).expect("it was text"),
            homeless,
        )
    }

    #[test]
    fn parts_go_where_picoclaw_has_a_place_for_them() {
        let parts = r#"{"role":"assistant","content":[
            {"type":"think","think":"hm ","encrypted":null},{"type":"text","text":"a"},
            {"type":"image_url","image_url":{"url":"data:image/png;base64,AA","id":null}},
            {"type":"video_url","video_url":{"url":"https://x/v"}},
            {"type":"think","think":"so"},{"type":"text","text":"b"}],"media":["media://1"],"k":1}"#;
        let line = r#"{"role":"assistant","content":"ab","media":["media://1","data:image/png;base64,AA"],"attachments":[{"type":"video","url":"https://x/v"}],"reasoning_content":"hm so","k":1}"#;
        assert_eq!(flat(parts), (line.into(), 0));
        assert_eq!(flat(line), (line.into(), 0));
    }

    #[test]
    fn what_has_no_place_is_counted() {
        for (part, kept) in [
            (r#"{"type":"new","text":"x"}"#, ""),
            (r#"{"type":"text","text":"x","lang":"en"}"#, "x"),
            (r#"{"type":"think","think":"other"}"#, ""),
            (r#"{"type":"think","think":"x","encrypted":"e"}"#, ""),
        ] {
            let line = format!(r#"{{"role":"user","content":[{part}],"reasoning_content":"x"}}"#);
            let left = format!(r#"{{"role":"user","content":"{kept}","reasoning_content":"x"}}"#);
            assert_eq!(flat(&line), (left, 1), "{part}");
        }
        let image = r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x","id":"7"}}]}"#;
        let left = r#"{"role":"user","content":"","media":["data:x"]}"#;
        assert_eq!(flat(image), (left.into(), 1));
    }
}
