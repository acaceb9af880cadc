//! A backend of a kind that this version knows by name alone, or whose settings cannot be used: everything asked of it fails
//! with the reason.

use super::{About, Ask, Backend, BackendError, Family, Link, Members, Reached, Shell, Start};
use crate::model::{BackendKind, Capabilities};
use futures::future::{BoxFuture, FutureExt, ready};
use tokio::sync::watch;

/// A backend that cannot be used.
pub struct Absent {
    about: About,
    why: BackendError,
}

impl Absent {
    /// Makes one with its reason.
    pub fn new(name: &str, kind: BackendKind, why: BackendError) -> Self {
        let link = watch::channel(Link { lost: Some(why.clone()), ..Link::default() }).1;
        let about = About { name: name.to_owned(), kind, address: String::new(), capabilities: Capabilities::default(), link };
        Self { about, why }
    }
}

impl Backend for Absent {
    fn about(&self) -> &About {
        &self.about
    }

    fn check(&self) -> BoxFuture<'_, Result<Reached, BackendError>> {
        ready(Err(self.why.clone())).boxed()
    }

    fn start(&self, _start: Start) -> BoxFuture<'_, Result<Shell, BackendError>> {
        ready(Err(self.why.clone())).boxed()
    }

    fn family(&self, _family: Family, _ask: Ask) -> BoxFuture<'_, Result<Members, BackendError>> {
        ready(Err(self.why.clone())).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
}
