//! The shapes of conversations.

/// The shape of a conversation in `StoreHandle::export` and
/// `StoreHandle::import`.
///
/// Exports for a model are conversations that it accepts: the results of tools stand directly after
/// their calls, ids and arguments are valid, no message is blank.
/// [`Export::left_out`](crate::exchange::Export::left_out) lists what was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The session's lines that are not hidden, as they stand in its file: messages with all their
    /// fields, and control records, including the last hidden ones that are still in effect. The
    /// import leaves control records out, and refuses lines that are not messages.
    Jsonl,
    /// A transcript for people: the title, and the messages, each with a heading. It cannot be
    /// imported.
    Markdown,
    /// The `messages` of OpenAI's chat completions, as a JSON array: system prompt and summary
    /// first. Media of tool results are sent as the user's.
    OpenAi,
    /// The `input` of OpenAI's responses, as a JSON array of items.
    OpenAiResponses,
    /// The input of Anthropic's messages API, as a JSON object with `system` and `messages`.
    /// Consecutive messages of one side are joined, and all system messages become `system`.
    Anthropic,
    /// The request body of Google's Gemini: a JSON object with `systemInstruction` and `contents`.
    Gemini,
    /// A session of Claude Code, `projects/*/*.jsonl`. This shape and the following ones are
    /// imported, not exported.
    ClaudeCode,
    /// A session of Codex, `sessions/**/rollout-*.jsonl`.
    Codex,
    /// A session of Gemini CLI, `chats/session-*.json`.
    GeminiCli,
    /// A context file of kimi-cli; `export_kimi` writes one.
    KimiCli,
    /// The records of an agent of Kimi Code, `agents/*/wire.jsonl`.
    KimiCode,
    /// Messages of `LangChain`, as `messages_to_dict` or `dumpd` writes them: a JSON array, or one
    /// a line.
    LangChain,
    /// A session of `OpenClaw`, or of another agent with pi's files.
    OpenClaw,
    /// A session of PicoClaw's older manager, one JSON object;
    /// `export_picoclaw` writes the files of its store.
    Picoclaw,
}
