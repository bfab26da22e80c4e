//! Random conversations: everything that bots, people and models do to a history.

use serde_json::{Value, json};

/// A generator that one number seeds.
pub(super) struct Draw(u64);

const IDS: [&str; 8] = [
    "call_1",
    "call_2",
    "functions.shell:0",
    "functions.shell:1",
    "a/b c#d",
    "",
    "toolu_01",
    "an-id-that-is-much-longer-than-the-forty-characters-that-openai-takes-for-one-of-its-own-calls",
];

const ARGUMENTS: [&str; 8] = [
    "{}",
    r#"{"a":1,"big":12345678901234567890123}"#,
    "",
    r#"description": "pack"}"#,
    r#"{"a":1}{"b":2}"#,
    "[1,2]",
    "null",
    "  ",
];

const FUNCTIONS: [&str; 5] = [
    "shell",
    "mcp.server/tool",
    "",
    "3d_render",
    "wetter_für_köln",
];

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn text(&mut self, words: &mut usize) -> String {
        match self.below(8) {
            0 => String::new(),
            1 => " \n".into(),
            2 => {
                *words += 1;
                format!("word{words}. \n")
            }
            _ => {
                *words += 1;
                format!("word{words}.")
            }
        }
    }

    fn part(&mut self, words: &mut usize) -> Value {
        let kind = self.below(18);
        let text = match kind {
            0..=6 | 12 | 17 => self.text(words),
            _ => String::new(),
        };
        match kind {
            0..=5 => json!({"type": "text", "text": text}),
            6 => json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}),
            7 => {
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}})
            }
            8 => {
                json!({"type": "image_url", "image_url": {"url": self.one(&["https://x.org/a.png", "http://x.org/a", "data:image/svg+xml;base64,AAAA", "data:image/gif;base64,AAAA", "data:image/jpg;base64,AAAA", "media://7"])}})
            }
            9 => {
                json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": self.one(&["wav", "mp3", "ogg"])}})
            }
            10 => {
                let mut file = json!({"file_data": "data:application/pdf;base64,AAAA"});
                if self.below(2) == 0 {
                    file["filename"] = "a.pdf".into();
                }
                json!({"type": "file", "file": file})
            }
            11 => json!({"type": "video_url", "video_url": {"url": "https://x.org/a.mp4"}}),
            12 => {
                json!({"type": "think", "think": text, "encrypted": self.one(&["EqQBCgIYAhIM", "gAAAAABo"])})
            }
            13 => {
                json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}})
            }
            14 => {
                json!({"type": "image", "source": {"type": "base64", "media_type": self.one(&["image/png", "image/tiff"]), "data": "AAAA"}})
            }
            15 => json!({"type": "refusal", "refusal": "no"}),
            16 => json!({"type": "hologram", "light": 7}),
            _ => json!({"type": "thinking", "thinking": text, "signature": self.one(&["", "sig"])}),
        }
    }

    fn content(&mut self, words: &mut usize) -> Value {
        if self.below(3) > 0 {
            return self.text(words).into();
        }
        let many = self.below(4);
        (0..many).map(|_| self.part(words)).collect()
    }

    fn call(&mut self) -> Value {
        let id = self.one(&IDS);
        let name = self.one(&FUNCTIONS);
        if self.below(8) == 0 {
            return json!({"id": id, "type": "custom", "custom": {"name": name, "input": "do it"}});
        }
        let arguments = self.one(&ARGUMENTS);
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    }

    /// The lines of a conversation, and how many words were said in it.
    pub(super) fn conversation(&mut self) -> (Vec<Value>, usize) {
        let (mut lines, mut words) = (Vec::<Value>::new(), 0);
        for _ in 0..self.below(14) {
            let line = match self.below(16) {
                0..=3 => json!({"role": "user", "content": self.content(&mut words)}),
                4..=6 => json!({"role": "assistant", "content": self.content(&mut words)}),
                7..=9 => {
                    let mut line =
                        json!({"role": "assistant", "content": self.content(&mut words)});
                    let calls: Vec<Value> = (0..=self.below(3)).map(|_| self.call()).collect();
                    line["tool_calls"] = calls.clone().into();
                    lines.push(line);
                    // Usually its results follow, some late, some never, some twice.
                    for call in calls {
                        if self.below(5) == 0 {
                            lines
                                .push(json!({"role": "user", "content": self.content(&mut words)}));
                        }
                        if self.below(8) > 0 {
                            lines.push(self.result(call["id"].as_str().unwrap()));
                        }
                    }
                    continue;
                }
                10 => {
                    let id = self.one(&IDS);
                    self.result(id)
                }
                11 => {
                    json!({"role": self.one(&["system", "developer"]), "content": self.content(&mut words)})
                }
                12 => {
                    let mut line = json!({"role": "assistant", "content": self.content(&mut words),
                        "reasoning_content": "hm"});
                    match self.below(4) {
                        0 => {
                            line["thinking_blocks"] =
                                json!([{"type": "thinking", "thinking": "hm", "signature": "s"}]);
                        }
                        1 => {
                            line["reasoning_items"] = json!([{"type": "reasoning", "id": "rs_1", "summary": [],
                            "encrypted_content": "gAAAA"}]);
                        }
                        2 => line["audio"] = json!({"id": "audio_1", "transcript": "aloud"}),
                        _ => line["refusal"] = "I will not".into(),
                    }
                    line
                }
                13 => {
                    let name = self.one(&["ann", "Jo Smith", ""]);
                    json!({"role": "user", "name": name, "content": self.content(&mut words),
                        "media": ["data:image/png;base64,AAAA", "media://1"],
                        "attachments": [{"type": "file", "url": "https://x.org/a.pdf", "filename": "a.pdf"}]})
                }
                14 => {
                    lines.push(json!({"role": "assistant", "content": null,
                        "function_call": {"name": "old", "arguments": "{}"}}));
                    json!({"role": "function", "name": "old", "content": "42"})
                }
                _ => {
                    json!({"role": self.one(&["critic", "user", "ipython"]), "content": self.content(&mut words),
                    "tool_calls": [self.call()]})
                }
            };
            lines.push(line);
            if self.below(12) == 0 {
                lines.extend(lines.last().cloned());
            }
        }
        (lines, words)
    }

    fn result(&mut self, id: &str) -> Value {
        let mut line = json!({"role": "tool", "tool_call_id": id, "content": "done"});
        match self.below(6) {
            0 => line["content"] = "".into(),
            1 => line["is_error"] = true.into(),
            2 => {
                line["content"] = json!([{"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]);
            }
            _ => {}
        }
        line
    }
}
