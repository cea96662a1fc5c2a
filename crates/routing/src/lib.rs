//! From a request to an action: compiled routes, patterns, variables, the access log's format.
//!
//! Makes the decision and nothing else: opens no file and contacts no application. The server calls [`Router::decide`] once for each
//! request, on the listen thread, and [`Router::fallback`] if a share has no file. A decision takes about as long with a thousand steps as
//! with ten, allocates nothing (except for a `rewrite`), and always terminates: chains of routes are cut after [`HOP_LIMIT`].

#![forbid(unsafe_code)]

mod access_log;
mod action;
mod compile;
mod conditions;
mod fields;
mod index;
mod info;
mod json;
mod map;
mod pass;
mod path;
mod render;
mod rewrite;
mod router;
mod rule_set;
mod rules;
mod scope_walk;
mod scopes;
mod script;
mod seen;
mod variables;

pub use access_log::LogLine;
pub use action::{ApplicationRef, Below, CompiledShare, Decision, DecisionKind, Guards, NotBelow};
pub use info::{ConnectionNumbers, LogSecond, LogTime, RequestInfo, ResponseInfo, RouteEvent};
pub use render::{is_true, render};
pub use rewrite::rewrite;
pub use router::{HOP_LIMIT, Router};
pub use rule_set::RuleSet;
pub use rules::{InternalNumber, PageNumber, Rulebook};
pub use scopes::{Combination, Combinations, ScopeNumber};
pub use script::ScriptFailed;
pub use seen::Seen;
pub use tutti_config::model::{OutOfSteps, ResponseHeader, Return};
pub use tutti_script::{Modules, ScriptError};
pub use variables::request_id;
