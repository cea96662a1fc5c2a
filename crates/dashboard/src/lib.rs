//! The dashboard: web pages that show what the server does, and change nothing.
//!
//! Owns its connections, who is let in, the numbers of the last hour, and the pages. Called by the controller, which binds nothing here: it
//! gives a listening socket and the [`DashboardAccess`], and takes both away again. Everything shown comes from the control API's [`Service`], whose
//! orders are never called. The pages need no script; where there is one, it fetches them again and shows what is new.
//!
//! Must never happen: a request that changes something but who is logged in; a page for somebody who has not shown the token or a
//! certificate; a name or a message of a stranger that a browser takes for markup; a question to the router for each request, which would
//! make a flood here one there; a secret of the configuration in a page.
//!
//! | Module | does |
//! |---|---|
//! | [`serve`] | accepts, one task per connection, TLS |
//! | `connection` | reads requests, writes replies, times out |
//! | `door` | who is let in: token, sessions |
//! | `site` | request to page |
//! | `watch` | asks the server, keeps the last hour |
//! | `graph` | the last hour as SVG |
//! | `listing` | a configuration as lines that know their places |
//! | `redact` | which values of a configuration are not shown |
//! | `search` | what has a text in its name |
//! | `page` and its kin | HTML |

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

pub use access::DashboardAccess;
pub use listener::serve;
pub use site::Site;
