//! Taking over history from the sessions that a session's aliases had.

use serde_json::value::RawValue;
use sessionlog_core::error::{Error, Oversized, Result, check_size};
use sessionlog_core::rules::identity::{Heir, gives_away};
use sessionlog_core::session_file;

use super::{StoreHandle, blocking};
use crate::engine::catalog::Catalog;
use crate::engine::reader;
use crate::engine::shard::verbs::ensure::HistorySearch;
use crate::engine::shard::verbs::promote::{Candidate, Promote};
use crate::front::reply::{LookupPlace, Reply};

impl StoreHandle {
    /// Looks for something to take over. An alias without a session costs a look-up, not a read. So
    /// does an alias that the session claims already: its history was taken over or declined then,
    /// and must not come back to a session that was cleared since.
    pub(super) async fn look_for_inheritance(
        &self,
        catalog: &Catalog,
        key: &str,
        (scope, aliases): (Option<&RawValue>, &[String]),
        place: LookupPlace,
    ) -> Result<HistorySearch> {
        let names = session_file::normalize_aliases(key, aliases);
        if !names.iter().any(|name| catalog.knows(name)) {
            return Ok(HistorySearch::Vain);
        }
        let own = self.moment_of(key, place).await?.meta.text.clone();
        let fresh = |name: &&String| !own.aliases.contains(name) && catalog.knows(name);
        let fresh: Vec<String> = names.iter().filter(fresh).cloned().collect();
        if fresh.is_empty() {
            return Ok(HistorySearch::Vain);
        }
        if self.shows_something(key, place).await? {
            return Ok(HistorySearch::Needless);
        }
        let heir = Heir {
            names: &names,
            scopes: [scope, own.scope.as_deref()],
            claimed: &own.aliases,
        };
        let found = self.candidate(&fresh, heir, place).await?;
        Ok(found.map_or(HistorySearch::Vain, |(alias, candidate)| {
            HistorySearch::Found(alias, candidate)
        }))
    }

    /// The first of `aliases` with something to take over, and its contents.
    pub(super) async fn candidate(
        &self,
        aliases: &[String],
        heir: Heir<'_>,
        place: LookupPlace,
    ) -> Result<Option<(String, Candidate)>> {
        for alias in aliases.iter().filter(|alias| heir.may_ask(alias)) {
            let snapshot = self.moment_of(alias, place).await?;
            let text = snapshot.meta.text.clone();
            if !gives_away(alias, &text.aliases, text.scope.as_deref()) {
                continue;
            }
            let path = alias.clone();
            let live = blocking(place, move || {
                reader::live_lines(&snapshot)
                    .map_err(|e| Error::io("read", std::path::Path::new(&path), e))
            })
            .await?;
            if live.messages > 0 || !text.summary.trim().is_empty() {
                let candidate = Candidate {
                    lines: live.bytes,
                    summary: text.summary.clone(),
                };
                return Ok(Some((alias.clone(), candidate)));
            }
        }
        Ok(None)
    }

    async fn shows_something(&self, key: &str, place: LookupPlace) -> Result<bool> {
        let snapshot = self.moment_of(key, place).await?;
        if !snapshot.meta.text.summary.trim().is_empty() {
            return Ok(true);
        }
        let (counters, key) = (self.counters(), key.to_owned());
        blocking(place, move || {
            let newest = reader::tail(&snapshot, 1, &counters);
            newest.map_err(|e| Error::io("read", std::path::Path::new(&key), e))
        })
        .await
        .map(|newest| !newest.is_empty())
    }

    /// Gives the `lines`, however many, to a session that has neither live lines nor a summary;
    /// returns whether it did.
    pub(crate) fn adopt_lines(&self, key: &str, lines: Vec<u8>) -> Reply<bool> {
        let max = self.limits.line;
        self.write(key, move |_| {
            for (_, line) in session_file::lines(&lines) {
                check_size(Oversized::Message, line.len(), max)?;
            }
            let candidate = Candidate {
                lines,
                summary: String::new(),
            };
            Ok(Some(Promote {
                identity: None,
                candidate,
            }))
        })
    }
}
