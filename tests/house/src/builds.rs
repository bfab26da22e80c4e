//! Which builds of the crate contain an item, by its `cfg` attributes.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Where an item may be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Builds {
    /// In what users build: no tests, no feature `testing`, no loom.
    pub(crate) shipped: bool,
    /// In some build that is not one of tests.
    pub(crate) outside_tests: bool,
}

impl Builds {
    pub(crate) const ALL: Self = Self {
        shipped: true,
        outside_tests: true,
    };

    /// What is left of these builds under the attributes.
    pub(crate) fn under(self, attributes: &[Attribute]) -> Self {
        attributes.iter().fold(self, |builds, attribute| {
            if attribute.path().is_ident("test") {
                return builds.and(Some(false), Some(false));
            }
            if !attribute.path().is_ident("cfg") {
                return builds;
            }
            let condition: Meta = attribute.parse_args().expect("a cfg has one condition");
            builds.and(holds(&condition, Some(false)), holds(&condition, None))
        })
    }

    /// What nobody knows to be false may be so.
    fn and(self, shipped: Option<bool>, outside_tests: Option<bool>) -> Self {
        Self {
            shipped: self.shipped && shipped != Some(false),
            outside_tests: self.outside_tests && outside_tests != Some(false),
        }
    }
}

/// Whether a condition holds outside of tests, where it can be known; `extras` says
/// whether the feature `testing` and the cfgs of the models are on.
fn holds(condition: &Meta, extras: Option<bool>) -> Option<bool> {
    match condition {
        Meta::Path(path) if path.is_ident("test") => Some(false),
        Meta::Path(path) if path.is_ident("sessionlog_loom") => extras,
        Meta::NameValue(pair) if pair.path.is_ident("feature") => extras,
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            let parts = parts.expect("conditions of a cfg, with commas between");
            let parts: Vec<_> = parts.iter().map(|part| holds(part, extras)).collect();
            if list.path.is_ident("not") {
                parts[0].map(|held| !held)
            } else {
                one_decides(&parts, list.path.is_ident("any"))
            }
        }
        _ => None,
    }
}

/// Of `any`, one that holds decides; of `all`, one that does not.
fn one_decides(parts: &[Option<bool>], decisive: bool) -> Option<bool> {
    if parts.contains(&Some(decisive)) {
        return Some(decisive);
    }
    let all_known = parts.iter().all(Option::is_some);
    all_known.then_some(!decisive)
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::Builds;

    fn builds(attribute: Attribute) -> (bool, bool) {
        let Builds {
            shipped,
            outside_tests,
        } = Builds::ALL.under(&[attribute]);
        (shipped, outside_tests)
    }

    use syn::Attribute;

    /// What a user's build contains decides, not which words a condition has.
    #[test]
    fn a_condition_is_understood_rather_than_searched_for_words() {
        assert_eq!(builds(parse_quote!(#[cfg(test)])), (false, false));
        assert_eq!(builds(parse_quote!(#[test])), (false, false));
        assert_eq!(
            builds(parse_quote!(#[cfg(all(test, unix))])),
            (false, false)
        );
        assert_eq!(
            builds(parse_quote!(#[cfg(any(test, feature = "testing"))])),
            (false, true)
        );
        assert_eq!(builds(parse_quote!(#[cfg(sessionlog_loom)])), (false, true));
        assert_eq!(
            builds(parse_quote!(#[cfg(not(sessionlog_loom))])),
            (true, true)
        );
        assert_eq!(builds(parse_quote!(#[cfg(not(test))])), (true, true));
        assert_eq!(builds(parse_quote!(#[cfg(unix)])), (true, true));
        assert_eq!(builds(parse_quote!(#[cfg(not(unix))])), (true, true));
        assert_eq!(builds(parse_quote!(#[must_use])), (true, true));
    }
}
