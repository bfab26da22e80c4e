//! Which session a message belongs to.

use sessionlog::scope::{
    Allocation, InboundContext, SessionPolicy, allocate_route_session, resolve_linked_sender,
};

use crate::config::Config;

/// Where a linked person's private conversation takes place: on no platform in
/// particular. A key covers the channel, so on each platform it would be another.
const EVERYWHERE: &str = "everywhere";

/// Finds sessions as the configuration says.
pub(crate) struct Sessions {
    config: Config,
    /// The person alone tells such a conversation apart.
    of_a_person: SessionPolicy,
}

impl Sessions {
    /// The dimensions by which conversations are told apart.
    pub(crate) fn dimensions(&self) -> &[String] {
        &self.config.session.dimensions
    }

    /// What an operator should know of the links.
    pub(crate) fn doubts(&self) -> Vec<String> {
        self.config.claimed_twice()
    }

    pub(crate) fn new(config: Config) -> Self {
        let of_a_person = SessionPolicy {
            dimensions: vec![String::from("sender")],
            ..SessionPolicy::default()
        };
        Self {
            config,
            of_a_person,
        }
    }

    /// A private message of a linked person continues the person's one
    /// conversation, whatever platform it comes from; any other message belongs
    /// to the chat it was said in. The ids come from strangers, so allocations
    /// are isolated.
    pub(crate) fn find(&self, context: &InboundContext) -> Allocation {
        let Config { agent_id, session } = &self.config;
        let person = match &*context.chat_type {
            "direct" => self.person(context),
            _ => None,
        };
        let allocation = match person {
            Some(name) => {
                let context = InboundContext {
                    channel: EVERYWHERE.into(),
                    sender_id: name.into(),
                    ..InboundContext::default()
                };
                allocate_route_session(agent_id, &context, &self.of_a_person)
            }
            None => allocate_route_session(agent_id, context, session),
        };
        allocation.isolated()
    }

    /// The linked person who wrote a message. A sender who only calls itself by a
    /// linked id, another platform's prefix included, is none.
    pub(crate) fn person(&self, context: &InboundContext) -> Option<&str> {
        let links = &self.config.session.identity_links;
        resolve_linked_sender(links, &context.channel, &context.sender_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(channel: &str, chat_type: &str, sender: &str) -> String {
        let context = InboundContext {
            channel: channel.into(),
            chat_type: chat_type.into(),
            chat_id: format!("chat of {sender}"),
            sender_id: sender.into(),
            ..InboundContext::default()
        };
        Sessions::new(Config::checked_in())
            .find(&context)
            .session_key
    }

    #[test]
    fn a_linked_person_has_one_private_conversation_on_two_platforms() {
        let sam = key("telegram", "direct", "353714237");
        assert_eq!(sam, key("slack", "direct", "T0AINS0N29J/U0J3UM5AUCW"));
        assert_ne!(sam, key("telegram", "group", "353714237"));
    }

    #[test]
    fn nobody_else_gets_into_it() {
        let sam = key("telegram", "direct", "353714237");
        for (channel, sender) in [
            ("slack", "353714237"),
            ("discord", "353714237"),
            ("telegram", "T0AINS0N29J/U0J3UM5AUCW"),
            ("slack", "U0J3UM5AUCW"),
            ("slack", "T1OTHER/U0J3UM5AUCW"),
            ("slack", "telegram:353714237"),
            ("slack", "x:telegram:353714237"),
            ("discord", "slack:T0AINS0N29J/U0J3UM5AUCW"),
            ("slack", "sam"),
            ("everywhere", "sam"),
            ("slack", "someone|sender=sam"),
        ] {
            assert_ne!(sam, key(channel, "direct", sender), "{channel} {sender}");
        }
    }
}
