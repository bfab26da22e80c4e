//! Lazy replies (skeleton).
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use crate::Result;

/// A verb's answer. Nothing is submitted until it is awaited or waited for.
#[must_use = "nothing happens until the reply is awaited or waited for"]
pub struct Reply<T>(std::marker::PhantomData<T>);

impl<T> Reply<T> {
    /// Submits the command and blocks this thread until the answer arrives.
    pub fn wait(self) -> Result<T> { unimplemented!() }
}
impl<T> Future for Reply<T> {
    type Output = Result<T>;
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Result<T>> { unimplemented!() }
}
