//! The base of the processes that main starts for itself and that have no privileges: controller, router, acme and fleet.
//!
//! All begin in the same way and speak with main over the same kind of line, and read the same configuration with the same code: the
//! controller to judge it, the router to serve it. What must never happen: that such a process has rights of main's user and
//! has read anything.
//!
//! | Module | does |
//! |---|---|
//! | [`start`] | the first steps: hide, become another user, give up rights |
//! | [`link`] | the line to main: requests with answers, and news |
//! | [`faults`] | faults of a configuration on their way over a line |
//! | [`grants`] | what a configuration lets a router have |
//! | [`role_state`] | whether changes are made now: running, frozen, stopping |
//! | [`partial`] | what is left of a configuration of which parts cannot be served |
//! | [`automatic`] | automatic certificates that nobody is likely to give |
//! | [`certificates`], [`js_modules`] | what is stored beside the configuration |

#![forbid(unsafe_code)]

pub mod automatic;
pub mod certificates;
mod configuration;
pub mod faults;
pub mod grants;
pub mod js_modules;
pub mod link;
pub mod own_log;
pub mod partial;
pub mod role_state;
pub mod start;

pub use configuration::{context, fault, log_faults, log_remarks};
