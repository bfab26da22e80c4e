//! One legal order of calls and results, for everything that is sent to a model.
//!
//! All providers agree on this order: the results of a message's calls stand directly after it, one
//! for each call. [`arrange`] brings any list of messages into it. The providers' differences are
//! in the table of [`exchange`](super).

use std::collections::{HashMap, HashSet};

use super::anthropic;
use super::export::Unpaired;
use super::turn::is_models;
use crate::session_file::answered_call;
use crate::session_file::{Message, ToolCall};

/// The result for a call without one, with [`Unpaired::Answer`].
const NO_RESULT: &str = "[no result]";

/// Messages in an order that every model accepts.
#[derive(Debug, Default)]
pub struct MessageSequence {
    /// The messages, each with its former place.
    pub messages: Vec<(usize, Message)>,
    /// The number of messages that were left out.
    pub gone: usize,
    /// The faults found, in order.
    pub faults: Vec<SequenceFault>,
}

/// Something that a model would refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceFault {
    /// The place of the message.
    pub at: usize,
    /// The call's id.
    pub id: String,
    /// The kind of fault.
    pub kind: FaultKind,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A call has no result.
    CallWithoutResult,
    /// A result has no call.
    ResultWithoutCall,
    /// A call has more than one result.
    SecondResult,
    /// A message has two calls of one id.
    SecondCall,
    /// A call in a message of another role than the assistant.
    CallOfOthers,
    /// Only reasoning is left of the message, which no model takes alone.
    Reasoning,
    /// The results do not stand directly after their calls.
    Apart,
}

impl FaultKind {
    /// The fault as a report names it; `None` if nothing is lost by it.
    #[must_use]
    pub fn loss(self) -> Option<&'static str> {
        Some(match self {
            Self::CallWithoutResult => "a tool call without its result",
            Self::ResultWithoutCall => "a tool's result without its call",
            Self::SecondResult => "a second result of a tool call",
            Self::SecondCall => "a tool call that was there twice",
            Self::CallOfOthers => "tool calls of a message that is not the assistant's",
            Self::Reasoning => "reasoning that led to nothing but tool calls without results",
            Self::Apart => return None,
        })
    }
}

/// Puts the results of calls directly after the message with the calls, in the order of the calls;
/// messages in between follow them. A result answers the first open call of its id in the newest
/// message that has one. Calls and results without their other half are left out, and so are
/// duplicates; the rest of a message with such calls stays. With [`Unpaired::Answer`] a call
/// without a result gets one that says so.
#[must_use]
pub fn arrange(messages: Vec<Message>, unpaired: Unpaired) -> MessageSequence {
    let mut arranged = MessageSequence::default();
    let mut plan = SequencePlan::of(messages, &mut arranged);
    for at in 0..plan.steps.len() {
        plan.carry_out(at, unpaired, &mut arranged);
    }
    arranged.faults.sort_by_key(|fault| fault.at);
    arranged
}

/// One message, while its place is being decided.
struct SequenceStep {
    /// Its former place.
    at: usize,
    /// The message; `None` for a result once it was placed with its call.
    message: Option<Message>,
    /// The steps that answer its calls, one for each.
    answers: Vec<Option<usize>>,
    is_result: bool,
}

struct SequencePlan {
    steps: Vec<SequenceStep>,
}

impl SequencePlan {
    fn of(messages: Vec<Message>, arranged: &mut MessageSequence) -> Self {
        let mut steps: Vec<SequenceStep> = Vec::with_capacity(messages.len());
        // The calls without a result so far, by id: the step, and the index of the call in it.
        let mut open: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
        let mut answered = HashSet::new();
        for (at, message) in messages.into_iter().enumerate() {
            for mut message in plain(message) {
                let calls;
                (message, calls) = take_calls(message, at, arranged);
                let step = steps.len();
                let result = answered_call(&message).map(str::to_owned);
                if let Some(id) = &result {
                    let Some((asked, call)) = next_open(&mut open, id) else {
                        let kind = if answered.contains(id) {
                            FaultKind::SecondResult
                        } else {
                            FaultKind::ResultWithoutCall
                        };
                        arranged.gone += 1;
                        arranged.note(at, id, kind);
                        continue;
                    };
                    steps[asked].answers[call] = Some(step);
                    answered.insert(id.clone());
                }
                for (call, id) in calls.iter().enumerate() {
                    open.entry(id.clone()).or_default().push((step, call));
                }
                steps.push(SequenceStep {
                    at,
                    answers: vec![None; calls.len()],
                    message: Some(message),
                    is_result: result.is_some(),
                });
            }
        }
        Self { steps }
    }

    fn carry_out(&mut self, at: usize, unpaired: Unpaired, arranged: &mut MessageSequence) {
        let step = &mut self.steps[at];
        if step.is_result {
            return;
        }
        let Some(message) = step.message.take() else {
            return;
        };
        let place = step.at;
        let answers = std::mem::take(&mut step.answers);
        if answers.is_empty() {
            arranged.messages.push((place, message));
            return;
        }
        let mut calls = Vec::new();
        let mut results = Vec::new();
        for (number, (call, answer)) in message.tool_calls().iter().zip(&answers).enumerate() {
            let id = match &*call.id {
                "" => format!("call_{place}_{number}"),
                id => id.to_owned(),
            };
            if answer.is_none() {
                arranged.note(place, &call.id, FaultKind::CallWithoutResult);
                if unpaired != Unpaired::Answer {
                    continue;
                }
            }
            let result = match *answer {
                Some(step) => {
                    let result = &mut self.steps[step];
                    (result.at, result.message.take())
                }
                None => (
                    place,
                    Some(Message::tool("", NO_RESULT).with_field("is_error", Some("true"))),
                ),
            };
            results.extend(result.1.map(|message| (result.0, message.answering(&id))));
            let mut call = call.clone();
            call.id = id;
            calls.push(call);
        }
        let mut places: Vec<usize> = answers.iter().flatten().copied().collect();
        places.sort_unstable();
        if let Some((_, apart)) = (at + 1..).zip(&places).find(|(near, is)| near != *is) {
            let id = answers.iter().position(|answer| *answer == Some(*apart));
            let id = id
                .map_or("", |call| &message.tool_calls()[call].id)
                .to_owned();
            arranged.note(place, &id, FaultKind::Apart);
        }
        if calls.is_empty() && !message.says_something() {
            if message.has_reasoning() {
                arranged.note(place, &message.tool_calls()[0].id, FaultKind::Reasoning);
            }
            arranged.gone += 1;
            return;
        }
        arranged.messages.push((place, message.with_calls(calls)));
        arranged.messages.append(&mut results);
    }
}

impl MessageSequence {
    fn note(&mut self, at: usize, id: &str, kind: FaultKind) {
        let id = id.to_owned();
        self.faults.push(SequenceFault { at, id, kind });
    }
}

/// The call that a result with this id answers.
fn next_open(open: &mut HashMap<String, Vec<(usize, usize)>>, id: &str) -> Option<(usize, usize)> {
    let waiting = open.get_mut(id)?;
    let newest = waiting.last()?.0;
    let older = waiting.iter().rev().take_while(|(step, _)| *step == newest);
    let first = waiting.len() - older.count();
    Some(waiting.remove(first))
}

/// The ids of the calls that a message keeps. Drops duplicates, and calls of roles other than the
/// assistant.
fn take_calls(
    message: Message,
    at: usize,
    arranged: &mut MessageSequence,
) -> (Message, Vec<String>) {
    if message.tool_calls().is_empty() {
        return (message, Vec::new());
    }
    let mut kept: Vec<ToolCall> = Vec::new();
    if is_models(message.role()) {
        for call in message.tool_calls() {
            if !call.id.is_empty() && kept.contains(call) {
                arranged.note(at, &call.id, FaultKind::SecondCall);
            } else {
                kept.push(call.clone());
            }
        }
    } else {
        let id = message.tool_calls()[0].id.clone();
        arranged.note(at, &id, FaultKind::CallOfOthers);
    }
    let ids = kept.iter().map(|call| call.id.clone()).collect();
    (message.with_calls(kept), ids)
}

/// The message with its calls and results in the usual fields: not in OpenAI's older
/// `function_call`, nor as Anthropic's blocks within the content.
fn plain(message: Message) -> Vec<Message> {
    let is_blocks = message
        .content_parts()
        .is_some_and(|parts| parts.contains("\"tool_use\"") || parts.contains("\"tool_result\""));
    if is_blocks && let Some(messages) = anthropic::split(&message) {
        return messages;
    }
    if message.role() == "function" {
        let id = message.tool_call_id().to_owned();
        return vec![message.with_role("tool").answering(&id)];
    }
    let old = message.unknown_field("function_call");
    let old: Option<serde_json::Value> = old.and_then(|call| serde_json::from_str(call).ok());
    let Some(name) = old.as_ref().and_then(|call| call["name"].as_str()) else {
        return vec![message];
    };
    let arguments = old.as_ref().and_then(|call| call["arguments"].as_str());
    let call = ToolCall::function("", name, arguments.unwrap_or_default());
    let mut calls = message.tool_calls().to_vec();
    calls.push(call);
    vec![message.with_calls(calls).with_field("function_call", None)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(ids: &[&str]) -> Message {
        let message = Message::assistant("");
        ids.iter().fold(message, |message, id| {
            message.with_tool_call(*id, "f", "{}")
        })
    }

    fn shown(messages: &[(usize, Message)]) -> Vec<String> {
        let shown = messages.iter().map(|(at, message)| {
            let ids: Vec<_> = message.tool_calls().iter().map(|call| &*call.id).collect();
            format!("{at}{}{}", message.tool_call_id(), ids.join(","))
        });
        shown.collect()
    }

    fn kinds(arranged: &MessageSequence) -> Vec<FaultKind> {
        arranged.faults.iter().map(|fault| fault.kind).collect()
    }

    #[test]
    fn results_stand_after_their_calls_and_the_rest_follows() {
        let messages = vec![
            call(&["a"]),
            call(&["b", "c"]),
            Message::user("hurry"),
            Message::tool("c", "3"),
            Message::tool("a", "1"),
            Message::tool("b", "2"),
        ];
        let arranged = arrange(messages, Unpaired::Drop);
        assert_eq!(
            shown(&arranged.messages),
            ["0a", "4a", "1b,c", "5b", "3c", "2"]
        );
        assert_eq!(kinds(&arranged), [FaultKind::Apart, FaultKind::Apart]);
        assert_eq!(arranged.gone, 0);
    }

    #[test]
    fn what_lacks_its_other_half_goes_and_the_rest_of_its_message_stays() {
        let messages = || {
            vec![
                Message::tool("gone", "1"),
                call(&["a", "b"]),
                Message::tool("a", "2"),
                Message::tool("a", "again"),
                Message::user("hm"),
                call(&["never"]),
                Message::assistant("I look").with_tool_call("neither", "f", "{}"),
            ]
        };
        let arranged = arrange(messages(), Unpaired::Drop);
        assert_eq!(shown(&arranged.messages), ["1a", "2a", "4", "6"]);
        assert_eq!(arranged.messages[3].1.text(), "I look");
        assert_eq!(arranged.gone, 3);
        assert_eq!(
            kinds(&arranged),
            [
                FaultKind::ResultWithoutCall,
                FaultKind::CallWithoutResult,
                FaultKind::SecondResult,
                FaultKind::CallWithoutResult,
                FaultKind::CallWithoutResult,
            ]
        );
        let answered = arrange(messages(), Unpaired::Answer);
        assert_eq!(
            shown(&answered.messages),
            [
                "1a,b", "2a", "1b", "4", "5never", "5never", "6neither", "6neither"
            ]
        );
    }

    #[test]
    fn ids_that_are_used_again_or_empty_are_matched_in_order() {
        let again = vec![
            call(&["0"]),
            Message::tool("0", "1"),
            call(&["0", "0"]),
            Message::tool("0", "2"),
            Message::tool("0", "3"),
            call(&[""]),
            Message::tool("", "4"),
        ];
        // Two calls with one id in one message are two calls only if they differ.
        let mut again = again;
        again[2] = Message::assistant("")
            .with_tool_call("0", "f", "{}")
            .with_tool_call("0", "g", "{}");
        let arranged = arrange(again, Unpaired::Drop);
        assert_eq!(kinds(&arranged), []);
        let texts: Vec<_> = arranged.messages.iter().map(|(_, m)| m.text()).collect();
        assert_eq!(texts, ["", "1", "", "2", "3", "", "4"]);
        assert_eq!(arranged.messages[6].1.tool_call_id(), "call_5_0");
    }

    #[test]
    fn the_older_function_calls_and_calls_among_the_parts_are_calls() {
        let json = |json: &str| Message::from_json(json.as_bytes()).unwrap();
        let messages = vec![
            json(
                r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}"#,
            ),
            json(r#"{"role":"function","name":"f","content":"1"}"#),
            json(
                r#"{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"g","input":{}}]}"#,
            ),
            json(
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"2"},{"type":"text","text":"y"}]}"#,
            ),
        ];
        let arranged = arrange(messages, Unpaired::Drop);
        assert_eq!(kinds(&arranged), []);
        let roles: Vec<_> = arranged.messages.iter().map(|(_, m)| m.role()).collect();
        assert_eq!(roles, ["assistant", "tool", "assistant", "tool", "user"]);
    }
}
