//! The dashboard: web pages that show the state of the server, and change nothing.
//!
//! Owns its connections, authentication, the numbers of the last hour, and the pages. Called by the controller, which
//! provides a listening socket and the [`DashboardAccess`], and takes both away again. All data comes from the control API's
//! [`Service`]; its operations that change something are never called. The pages need no script; if scripts run, one
//! refreshes the pages.
//!
//! Must never happen: a request that changes anything except a login; a page for an unauthenticated client; a name or
//! message from a stranger that a browser interprets as markup; a question to the router for each request, which would
//! turn a flood here into one there; a secret of the configuration in a page.
//!
//! | Module | does |
//! |---|---|
//! | [`serve`] | accepts, one task per connection, TLS |
//! | `connection` | reads requests, writes replies, times out |
//! | `access` | authentication: token, sessions, client certificates |
//! | `site` | request to page |
//! | `watch` | polls the server, keeps the last hour |
//! | `graph` | the last hour as SVG |
//! | `listing` | a configuration as lines with their places |
//! | `redact` | hides secret values of a configuration |
//! | `search` | finds objects by a part of their name |
//! | `page` and others | HTML |

#![forbid(unsafe_code)]

mod access;
mod alerts;
mod certificates;
mod comparison;
mod configuration;
mod connection;
mod graph;
mod jobs;
mod listener;
mod listing;
mod login;
mod markup;
mod numbers;
mod overview;
mod page;
mod problems;
mod redact;
mod reply;
mod running;
mod search;
mod site;
mod watch;

pub use access::{DashboardAccess, DashboardTls};
pub use listener::serve;
pub use site::Site;
