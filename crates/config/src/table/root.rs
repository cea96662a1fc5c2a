//! The whole configuration.

use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options};

use super::guards::NAMED_LIMITS;
use super::jobs::{ScheduleOptions, SpoolerOptions};
use super::listeners::ListenerOptions;
use super::logs::{ACCESS_LOGS, SlowLogOptions};
use super::maps::MapOptions;
use super::routes::StepOptions;
use super::settings::SettingsOptions;
use super::streams::StreamStepOptions;
use super::upstreams::UpstreamGroup;

options! {
    /// The whole configuration
    pub struct RootOptions: ROOT = "configuration" {
        /// For editors: where the schema of this file is; the server ignores it
        schema: Unread [key("$schema"), kind(ValueKind::String(Text::Any)), beyond()],
        /// Sockets to accept requests on, by address
        listeners: Unread [kind(ValueKind::Map(Names::Listener, &ListenerOptions::KIND))],
        /// The route called `routes` (an array of steps), or several named routes (an object of arrays)
        routes: Unread [kind(ROUTES)],
        /// Applications, by name
        applications: Unread [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::Application))],
        /// Groups of servers to balance requests between, by name
        upstreams: Unread [kind(ValueKind::Map(Names::NotEmpty, &UpstreamGroup::KIND))],
        /// Steps for the connections of listeners with `stream`, by name
        streams: Unread [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::Array(&StreamStepOptions::KIND))), beyond()],
        /// Queues of jobs that are kept on disk until they are delivered, by name
        spoolers: Unread [kind(ValueKind::Map(Names::NotEmpty, &SpoolerOptions::KIND)), beyond()],
        /// Requests and commands that the server runs at certain times, by name
        schedules: Unread [kind(ValueKind::Map(Names::NotEmpty, &ScheduleOptions::KIND)), beyond()],
        /// Variables whose value depends on that of another text, by name: `$map_NAME`. A name has letters, digits and `_`
        maps: Unread [kind(ValueKind::Map(Names::Variable, &MapOptions::KIND)), beyond()],
        /// Limits on requests that several actions share, by name
        limits: Unread [kind(NAMED_LIMITS), beyond()],
        /// Settings of the whole server
        settings: Unread [kind(SettingsOptions::KIND)],
        /// A file with one line for each request, and the format of the line; or an array of several
        access_log: Unread [kind(ACCESS_LOGS)],
        /// An entry for each slow request: its phases, and a backtrace of the application
        slow_log: Unread [kind(SlowLogOptions::KIND), beyond()],
    }
}

/// Steps, or several routes of them by name.
const ROUTES: ValueKind = ValueKind::OneOf(&[STEPS, ValueKind::Map(Names::Any, &STEPS)]);
const STEPS: ValueKind = ValueKind::Array(&StepOptions::KIND);
