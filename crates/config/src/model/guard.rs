//! What stands before an action.

use std::sync::Arc;
use std::time::Duration;

use crate::pattern::Patterns;
use crate::pointer::Pointer;
use crate::table::{CorsOptions, LimitOptions};
use crate::template::Template;

/// Everything that stands before one action. A request that passes several actions meets them all.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// Where the action was written.
    pub pointer: Pointer,
    /// Bounds, in the order they were written.
    pub limits: Vec<Arc<Limit>>,
    /// Which pages may read the answers.
    pub cors: Option<Cors>,
}

/// A bound on requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Where it was written.
    pub pointer: Pointer,
    /// Its name; `None` of one that stands in an action.
    pub name: Option<String>,
    /// `None`: the client's address.
    pub key: Option<Template>,
    /// Requests in a time.
    pub rate: Option<Rate>,
    /// The rest of it.
    pub options: LimitOptions,
}

/// So many requests in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// At least one.
    pub requests: u32,
    /// Not zero.
    pub per: Duration,
}

impl Rate {
    /// The time that each request has to itself.
    pub fn interval(&self) -> Duration {
        (self.per / self.requests).max(Duration::from_nanos(1))
    }
}

/// Which pages of other origins may read answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Cors {
    /// `None`: those of all.
    pub origins: Option<Patterns>,
    /// The rest of it.
    pub options: CorsOptions,
}
