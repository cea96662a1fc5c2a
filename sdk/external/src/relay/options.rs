//! How a program is told where to listen, from the application's options.

use std::time::Duration;

use tutti_options::Options as _;
use tutti_options::application::{Application as _, Common};
use tutti_options::external::External;
pub(crate) use tutti_options::external::Listen;
use tutti_worker::{Start, StartError};

/// `listen`, `probe` and `limits.start_timeout`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) listen: Listen,
    /// A path that is asked for until it is answered with less than 500.
    pub(crate) probe: Option<String>,
    /// How long a program may take to listen.
    pub(crate) start_limit: Duration,
}

impl Options {
    /// `None` where `protocol` is not `http`.
    pub(crate) fn of(start: &Start) -> Result<Option<Options>, StartError> {
        let external = External::from_json(&start.config)?;
        if !external.is_relayed() {
            return Ok(None);
        }
        let common = Common::from_json(&start.config)?;
        Ok(Some(Options {
            listen: external.listen,
            start_limit: common.limits.start_timeout,
            probe: external.probe,
        }))
    }
}
