//! What holds for every context and every policy.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use sessionlog::scope::{
    Allocation, InboundContext, SessionPolicy, SessionScope, allocate_route_session,
    build_legacy_direct_aliases, build_legacy_main_alias, build_legacy_peer_alias,
    build_main_session_key, build_opaque_session_key, build_session_key,
    canonical_session_identity_id, collides, is_explicit_session_key, is_legacy_agent_session_key,
    is_opaque_session_key, normalize_account_id, normalize_agent_id,
    parse_legacy_agent_session_key, resolve_agent_id, resolve_linked_peer_id, resolve_scope_key,
    same_conversation,
};
use sessionlog::testing::names::is_main_alias;

use crate::scope::inputs::{
    any_id, context, distinguishing, folded, forged_context, forged_id, forged_policy, parts,
    plain_id, policy,
};

type Contexts = Vec<InboundContext>;

/// Every two of several contexts, with their allocations.
fn for_every_two(
    contexts: &Contexts,
    policy: &SessionPolicy,
    mut check: impl FnMut([(&Allocation, Vec<String>); 2]) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let allocated: Vec<_> = contexts
        .iter()
        .map(|context| {
            let allocation = allocate_route_session("main", context, policy);
            (allocation, parts("main", context, policy))
        })
        .collect();
    for (i, (one, its)) in allocated.iter().enumerate() {
        for (other, others) in &allocated[..i] {
            check([(one, its.clone()), (other, others.clone())])?;
        }
    }
    Ok(())
}

/// White space around, and every letter in upper case whose lower case it is
/// again.
fn shouted(id: &str) -> String {
    let upper = |c: char| {
        let mut upper = c.to_uppercase();
        let single = upper.next().filter(|_| upper.next().is_none());
        single
            .filter(|u| folded(&u.to_string()) == folded(&c.to_string()))
            .unwrap_or(c)
    };
    format!(
        "\u{3000}\t{} \r\n",
        id.chars().map(upper).collect::<String>()
    )
}

fn map(context: &InboundContext, f: impl Fn(&str) -> String) -> InboundContext {
    InboundContext {
        channel: f(&context.channel),
        account: f(&context.account),
        chat_id: f(&context.chat_id),
        chat_type: f(&context.chat_type),
        topic_id: f(&context.topic_id),
        space_id: f(&context.space_id),
        space_type: f(&context.space_type),
        sender_id: f(&context.sender_id),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn allocation_is_the_same_every_time(
        agent in any_id(), context in context(any_id), policy in policy(any_id),
    ) {
        let first = allocate_route_session(&agent, &context, &policy);
        prop_assert_eq!(&first, &allocate_route_session(&agent, &context.clone(), &policy.clone()));
        prop_assert_eq!(first.clone().isolated(), first.isolated().isolated());
    }

    #[test]
    fn distinct_contexts_under_a_policy_that_distinguishes_them_never_share_a_key(
        contexts in vec(context(plain_id), 2..16),
    ) {
        let policy = distinguishing(BTreeMap::new());
        for_every_two(&contexts, &policy, |[(one, its), (other, others)]| {
            prop_assert_eq!(one.session_key == other.session_key, its == others);
            prop_assert!(!one.is_ambiguous());
            Ok(())
        })?;
    }

    #[test]
    fn isolated_conversations_never_share_a_key_whatever_their_ids_hold(
        contexts in vec(forged_context(), 2..24), policy in forged_policy(),
    ) {
        for_every_two(&contexts, &policy, |[(one, its), (other, others)]| {
            let (one, other) = (one.clone().isolated(), other.clone().isolated());
            prop_assert_eq!(one.session_key == other.session_key, its == others);
            if its != others {
                let shared = one.session_aliases.iter().find(|alias| other.session_aliases.contains(alias));
                prop_assert_eq!(shared, None);
            }
            Ok(())
        })?;
    }

    #[test]
    fn isolation_changes_no_conversation_that_only_its_own_ids_lead_to(
        contexts in vec(forged_context(), 2..24), policy in forged_policy(),
    ) {
        for_every_two(&contexts, &policy, |[(one, its), (other, others)]| {
            if its != others && one.session_key == other.session_key {
                prop_assert!(one.is_ambiguous() || other.is_ambiguous());
            }
            let isolated = one.clone().isolated();
            prop_assert_eq!(isolated.session_key == one.session_key, !one.is_ambiguous());
            prop_assert!(!one.is_ambiguous() || isolated.session_aliases.is_empty());
            let kept = &isolated.session_aliases;
            prop_assert!(kept.iter().all(|alias| one.session_aliases[1..].contains(alias)));
            prop_assert_eq!(&isolated.scope, &one.scope);
            Ok(())
        })?;
    }

    #[test]
    fn two_scopes_with_one_key_are_one_conversation_or_collide(
        contexts in vec(forged_context(), 2..24), policy in forged_policy(),
    ) {
        for_every_two(&contexts, &policy, |[(one, _), (other, _)]| {
            let (one, other) = (&one.scope, &other.scope);
            let shared = build_session_key(one) == build_session_key(other);
            prop_assert_eq!(collides(&one.to_raw(), other), shared && one != other);
            prop_assert_eq!(same_conversation(one, other), one == other);
            Ok(())
        })?;
    }

    #[test]
    fn linked_identities_share_a_key(
        ids in vec("[a-z0-9Ж]{1,8}", 2..5), name in "[A-Z][a-z]{9}", qualified in any::<u8>(),
    ) {
        let link = |(i, id): (usize, &String)| match qualified >> i & 1 {
            0 => id.clone(),
            _ => format!(" Slack:{} ", id.to_uppercase()),
        };
        let links = ids.iter().enumerate().map(link).collect();
        let policy = distinguishing([(name.clone(), links)].into());
        let key = |sender: &str| {
            let context = InboundContext {
                channel: "slack".into(),
                chat_id: "c1".into(),
                sender_id: sender.into(),
                ..InboundContext::default()
            };
            allocate_route_session("main", &context, &policy).isolated()
        };
        let first = key(&ids[0]);
        prop_assert_eq!(&first.scope.values["sender"], &name.to_lowercase());
        for id in &ids {
            prop_assert_eq!(&key(id).session_key, &first.session_key);
            prop_assert_eq!(&key(&format!("slack:{id}")).session_key, &first.session_key);
        }
        prop_assert_ne!(&key("a stranger").session_key, &first.session_key);
        prop_assert_ne!(&key(&name).session_key, &first.session_key);
    }

    #[test]
    fn a_sender_claimed_twice_is_the_person_whose_name_comes_first(
        links in btree_map("[ab ]{0,2}", vec("[12 ]{0,2}|slack:[12]", 0..3), 0..4), id in "[12 ]{0,2}",
    ) {
        let claims = |ids: &Vec<String>| {
            let id = id.trim();
            ids.iter().any(|claimed| {
                let claimed = claimed.trim();
                !id.is_empty() && (claimed == id || claimed == format!("slack:{id}"))
            })
        };
        let first = links.iter().find(|(name, ids)| !name.trim().is_empty() && claims(ids));
        prop_assert_eq!(
            resolve_linked_peer_id(&links, "slack", &id),
            first.map(|(name, _)| name.trim())
        );
    }

    #[test]
    fn case_and_surrounding_white_space_tell_nobody_apart(
        agent in plain_id(), context in context(plain_id), policy in policy(plain_id),
    ) {
        let loud = map(&context, shouted);
        prop_assert_eq!(
            allocate_route_session(&agent, &context, &policy),
            allocate_route_session(&shouted(&agent), &loud, &policy)
        );
    }

    #[test]
    fn a_legacy_key_comes_apart_as_it_was_built(
        agent in any_id(), channel in any_id(), account in any_id(), kind in any_id(), peer in any_id(),
    ) {
        let mut keys = build_legacy_direct_aliases(&agent, &channel, &account, &peer);
        prop_assert_eq!(keys.is_empty(), peer.trim().is_empty());
        keys.push(build_legacy_main_alias(&agent));
        keys.push(build_legacy_peer_alias(&agent, &channel, &kind, &peer));
        for key in keys {
            let parsed = parse_legacy_agent_session_key(&key).unwrap();
            prop_assert_eq!(&parsed.agent_id, &normalize_agent_id(&agent));
            prop_assert_eq!(format!("agent:{}:{}", parsed.agent_id, parsed.rest), key.clone());
            prop_assert_eq!(resolve_agent_id(None, &key), Some(normalize_agent_id(&parsed.agent_id)));
            prop_assert!(is_legacy_agent_session_key(&key) && is_explicit_session_key(&key));
        }
    }

    #[test]
    fn aliases_are_legacy_keys_all_different_and_never_the_key(
        agent in any_id(), context in context(any_id), policy in policy(any_id),
    ) {
        let allocation = allocate_route_session(&agent, &context, &policy);
        let aliases = &allocation.session_aliases;
        prop_assert_eq!(&aliases[..1], &allocation.main_aliases[..]);
        for (i, alias) in aliases.iter().enumerate() {
            prop_assert!(is_legacy_agent_session_key(alias), "{}", alias);
            prop_assert_eq!(alias.trim(), alias.as_str());
            prop_assert!(alias != &allocation.session_key && !aliases[..i].contains(alias));
        }
    }

    #[test]
    fn an_agent_has_one_main_session_that_no_conversation_shares(
        agent in any_id(), context in context(any_id), policy in policy(any_id),
    ) {
        let allocation = allocate_route_session(&agent, &context, &policy);
        prop_assert_eq!(&allocation.main_session_key, &build_main_session_key(&agent));
        prop_assert_eq!(&allocation.main_aliases, &vec![build_legacy_main_alias(&agent)]);
        prop_assert!(is_main_alias(&allocation.main_aliases[0]));
        prop_assert!(!allocation.session_aliases[1..].iter().any(|alias| is_main_alias(alias)));
        let main = allocation.main_session_key.clone();
        prop_assert!(allocation.session_key != main && allocation.isolated().session_key != main);
    }

    #[test]
    fn ids_of_agents_and_accounts_are_short_and_plain(id in any_id()) {
        for normalize in [normalize_agent_id, normalize_account_id] {
            let normal = normalize(&id);
            prop_assert!((1..=64).contains(&normal.len()));
            prop_assert!(normal.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-')));
            prop_assert!(!normal.starts_with('-'));
            // One that was cut behind a `-` may lose it the second time, as in PicoClaw.
            let again = normalize(&normal);
            prop_assert!(again == normal || normal.len() == 64 && again == normal.trim_end_matches('-'));
        }
    }

    #[test]
    fn opaque_keys_are_equal_exactly_where_folded_aliases_are(one in forged_id(), other in forged_id()) {
        let key = build_opaque_session_key;
        prop_assert_eq!(key(&one) == key(&other), folded(&one) == folded(&other));
        prop_assert_eq!(key(&one), key(&shouted(&one)));
        prop_assert_eq!(key(&one).is_empty(), one.trim().is_empty());
        prop_assert!(one.trim().is_empty() || (key(&one).len() == 70 && is_opaque_session_key(&key(&one))));
    }

    #[test]
    fn a_scope_survives_its_text(
        version in any::<i64>(), texts in any::<[String; 3]>(),
        dimensions in vec(any_id(), 0..4), values in btree_map(any_id(), any_id(), 0..4),
    ) {
        let [agent_id, channel, account] = texts;
        let scope = SessionScope { version, agent_id, channel, account, dimensions, values };
        let raw = scope.to_raw();
        prop_assert_eq!(&SessionScope::from_json(raw.get()).unwrap(), &scope);
        prop_assert_eq!(serde_json::to_string(&scope).unwrap(), raw.get());
        let value = serde_json::to_value(&scope).unwrap();
        prop_assert_eq!(serde_json::from_value::<SessionScope>(value).unwrap(), scope);
    }

    #[test]
    fn dimensions_keep_the_policys_order_and_none_is_empty(
        context in context(any_id), policy in policy(any_id),
    ) {
        let scope = allocate_route_session("main", &context, &policy).scope;
        let mut left = policy.dimensions.iter();
        for dimension in &scope.dimensions {
            prop_assert!(left.any(|wanted| wanted == dimension));
            prop_assert!(!scope.values[dimension].is_empty());
        }
        prop_assert!(scope.values.keys().all(|name| scope.dimensions.contains(name)));
    }

    #[test]
    fn forum_topics_are_apart_unless_the_policy_says_otherwise(
        chat in "-[0-9]{1,9}", topics in [1..1000_u32, 1000..2000_u32], named in any::<bool>(),
    ) {
        let key = |dimensions: &[&str], topic: u32| {
            let context = InboundContext {
                channel: " Telegram".into(),
                chat_id: chat.clone(),
                chat_type: "group".into(),
                topic_id: topic.to_string(),
                ..InboundContext::default()
            };
            let dimensions = dimensions.iter().map(|&name| name.into()).collect();
            let policy = SessionPolicy { dimensions, ..SessionPolicy::default() };
            allocate_route_session("main", &context, &policy).session_key
        };
        let apart: &[&str] = if named { &["chat", "topic"] } else { &["chat"] };
        prop_assert_ne!(key(apart, topics[0]), key(apart, topics[1]));
        let merged = ["chat", " TOPIC "];
        prop_assert_eq!(key(&merged, topics[0]), key(&merged, topics[1]));
    }

    #[test]
    fn an_explicit_incoming_key_wins_as_it_is(allocated in any_id(), incoming in any_id()) {
        let expected = if is_explicit_session_key(&incoming) { &incoming } else { &allocated };
        prop_assert_eq!(resolve_scope_key(&allocated, &incoming), expected);
        for prefix in [" Agent:", "SK_V1_"] {
            let explicit = format!("{prefix}{incoming}");
            prop_assert_eq!(resolve_scope_key(&allocated, &explicit), &explicit);
        }
    }

    #[test]
    fn no_text_read_as_a_scope_does_harm(text in any::<String>(), id in any_id()) {
        let quoted = serde_json::to_string(&id).unwrap();
        for json in [
            text,
            quoted.clone(),
            format!(r#"{{"version":{quoted}}}"#),
            format!(r#"{{"agent_id":{quoted},"values":{{{quoted}:{quoted}}},"dimensions":[{quoted}]}}"#),
        ] {
            if let Ok(scope) = SessionScope::from_json(&json) {
                prop_assert_eq!(&SessionScope::from_json(scope.to_raw().get()).unwrap(), &scope);
                prop_assert_eq!(build_session_key(&scope).len(), 70);
            }
        }
    }

    #[test]
    fn a_senders_id_in_a_scope_is_folded(channel in any_id(), id in any_id()) {
        let canonical = canonical_session_identity_id(&channel, &id, &BTreeMap::new());
        prop_assert_eq!(canonical.trim(), canonical.as_str());
        prop_assert_eq!(canonical.is_empty(), id.trim().is_empty());
        let again = canonical_session_identity_id(&channel, &canonical, &BTreeMap::new());
        prop_assert_eq!(again, canonical);
    }
}
