//! The guide for authors and operators of gateways, one chapter each. Every example runs in the
//! tests.

#[doc = include_str!("guide/tutorial.md")]
pub mod tutorial {}

#[doc = include_str!("guide/verbs.md")]
pub mod verbs {}

#[doc = include_str!("guide/promises.md")]
pub mod promises {}

#[doc = include_str!("guide/keys.md")]
pub mod keys {}

#[doc = include_str!("guide/conversations.md")]
pub mod conversations {}

#[doc = include_str!("guide/files.md")]
pub mod files {}

#[doc = include_str!("guide/moving.md")]
pub mod moving {}

#[doc = include_str!("guide/damage.md")]
pub mod damage {}

#[doc = include_str!("guide/operating.md")]
pub mod operating {}

#[doc = include_str!("guide/inside.md")]
pub mod inside {}

#[doc = include_str!("guide/comparison.md")]
pub mod comparison {}
