//! Options that a listener and an action have, and that apply to the requests that pass through them.

use tutti_options::{Typed as _, Unread, options};

use super::delivery::MaintenanceOptions;
use super::logs::OWN_ACCESS_LOGS;

options! {
    /// Options of a listener or an action for the requests that pass through it; an inner action's own take precedence
    pub struct ScopeOptions: SCOPE = "scope" {
        /// Access logs of the requests, instead of the outer ones: one, or an array of several, each with its own
        /// format and condition; `false` or an empty array: none
        access_log: Unread [kind(OWN_ACCESS_LOGS), beyond()],
        /// Maintenance mode of this part: its requests get 503 while this is present. `settings.maintenance` applies, too
        maintenance: Unread [kind(MaintenanceOptions::KIND), beyond()],
    }
}
