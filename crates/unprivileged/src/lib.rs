//! The common base of the unprivileged processes that main starts for itself: controller, router, acme and fleet.
//!
//! All start in the same way, use the same kind of connection to main, and read the same configuration with the same
//! code: the controller to check it, the router to serve it. Must never happen: that such a process has privileges of
//! main's user and has read any data.
//!
//! | Module | does |
//! |---|---|
//! | [`start`] | the first steps: hide, switch to another user, drop privileges |
//! | [`link`] | the connection to main: requests with answers, and news |
//! | [`faults`] | faults of a configuration in messages |
//! | [`grants`] | what a configuration lets a router have |
//! | [`role_state`] | whether changes are accepted: running, frozen, stopping |
//! | [`partial`] | the rest of a configuration if parts of it cannot be served |
//! | [`automatic`] | automatic certificates that are unlikely to be issued |
//! | [`certificates`], [`js_modules`] | objects stored beside the configuration |

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
