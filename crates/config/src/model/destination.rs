//! Where requests go: the destination of a `pass`.

use crate::template::Template;

/// The destination of a `pass`: known now, or computed from each request.
#[derive(Clone, Debug, PartialEq)]
pub enum Pass {
    /// It has no variables; what it names exists in this configuration.
    Fixed(Destination),
    /// It has variables; what comes out may exist or not (then the answer is 404).
    Computed(Template),
}

/// Something a request can be passed to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// `routes` (then the name is `None`) or `routes/NAME`.
    Route(Option<String>),
    /// `applications/NAME` or `applications/NAME/TARGET`.
    Application {
        /// Key of `Config::applications`.
        name: String,
        /// Key of the application's targets.
        target: Option<String>,
    },
    /// `upstreams/NAME`.
    Upstream(String),
    /// `metrics`: the numbers of the server.
    Metrics,
    /// `spoolers/NAME`.
    Spooler(String),
}
