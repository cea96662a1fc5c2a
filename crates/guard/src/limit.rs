//! A bound of the configuration, and what has been counted for it.

use std::sync::Arc;

use tutti_config::model;

use crate::concurrency::Concurrency;
use crate::rate::RateLimiter;

/// One of them.
#[derive(Debug)]
pub struct Limit {
    /// As it is configured.
    pub model: Arc<model::Limit>,
    /// Requests in a time.
    pub rate: Option<RateLimiter>,
    /// Requests at once.
    pub concurrency: Option<Arc<Concurrency>>,
}

impl Limit {
    /// Nothing has been counted.
    pub fn new(model: &Arc<model::Limit>) -> Self {
        let options = &model.options;
        let rate = model.rate;
        Self {
            model: Arc::clone(model),
            rate: rate.map(|rate| RateLimiter::new(rate, options.burst, options.keys)),
            concurrency: options.concurrent.map(Concurrency::new),
        }
    }

    /// True if it is this one: what it has counted stands.
    pub fn is(&self, model: &model::Limit) -> bool {
        *self.model == *model
    }

    /// As clients know it.
    pub fn name(&self) -> &str {
        self.model.name.as_deref().unwrap_or("default")
    }
}
