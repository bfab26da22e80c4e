//! The verbs that a store passes on to one of its fields.

/// Implements the verbs of a [`SessionStore`](super::SessionStore) that a field has under the same
/// names.
macro_rules! verbs_of {
    ($field:ident) => {
        fn append_all(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
            self.$field.append_all(key, messages)
        }

        fn history(&self, key: &str) -> Reply<Vec<Message>> {
            self.$field.history(key)
        }

        fn set_history(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
            self.$field.set_history(key, messages)
        }

        fn truncate_history(&self, key: &str, keep_last: usize) -> Reply<()> {
            self.$field.truncate_history(key, keep_last)
        }

        fn summary(&self, key: &str) -> Reply<String> {
            self.$field.summary(key)
        }

        fn set_summary(&self, key: &str, summary: &str) -> Reply<()> {
            self.$field.set_summary(key, summary)
        }

        fn tail(&self, key: &str, n: usize) -> Reply<Vec<Message>> {
            self.$field.tail(key, n)
        }

        fn count(&self, key: &str) -> Reply<usize> {
            self.$field.count(key)
        }

        fn exists(&self, key: &str) -> Reply<bool> {
            self.$field.exists(key)
        }

        fn update(&self, key: &str, update: $crate::Update) -> Reply<$crate::Version> {
            self.$field.update(key, update)
        }

        fn edit(
            &self,
            key: &str,
            position: $crate::Position,
            message: Message,
        ) -> Reply<$crate::Version> {
            self.$field.edit(key, position, message)
        }

        fn remove(&self, key: &str, position: $crate::Position) -> Reply<$crate::Version> {
            self.$field.remove(key, position)
        }

        fn set_history_at(
            &self,
            key: &str,
            version: $crate::Version,
            messages: Vec<Message>,
        ) -> Reply<$crate::Version> {
            self.$field.set_history_at(key, version, messages)
        }

        fn truncate_to(&self, key: &str, keep: $crate::Keep) -> Reply<()> {
            self.$field.truncate_to(key, keep)
        }

        fn window(&self, key: &str, budget: $crate::Budget) -> Reply<$crate::Window> {
            self.$field.window(key, budget)
        }

        fn sessions(&self, query: $crate::SessionQuery) -> Reply<$crate::SessionPage> {
            self.$field.sessions(query)
        }

        fn list_sessions(&self) -> Reply<Vec<String>> {
            self.$field.list_sessions()
        }

        fn resolve_session_key(&self, key: &str) -> Reply<Option<String>> {
            self.$field.resolve_session_key(key)
        }
    };
}

pub(crate) use verbs_of;
