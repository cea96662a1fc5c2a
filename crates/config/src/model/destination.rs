//! The destination of a `pass`.

use crate::template::Template;

/// The destination of a `pass`: fixed, or computed for each request.
#[derive(Clone, Debug, PartialEq)]
pub enum Pass {
    /// It has no variables; its target exists in this configuration.
    Fixed(Destination),
    /// It has variables; the result may not exist (then the response is 404).
    Computed(Template),
}

/// The target of a request.
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
    /// `metrics`: the metrics of the server.
    Metrics,
    /// `metrics/stub_status`: the counts of connections and requests, as nginx reports them.
    StubStatus,
    /// `spoolers/NAME`.
    Spooler(String),
}
