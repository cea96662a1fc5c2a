//! Control API: `/config`, `/status`, `/control`, `/history`, `/schema` and others over HTTP/1.1 on the control socket.
//!
//! Owns the socket's connections, the meaning of requests, and the order of changes; the effect of a change is behind
//! [`Service`], which the binary implements over `server`, `pool` and the state store. Runs on the control thread.
//!
//! Must never happen: two changes at once; a change applied to another document than its client had read (`If-Match`);
//! a change half done because its client disconnected; one client, slow or broken, that blocks others.
//!
//! | Module | does |
//! |---|---|
//! | [`serve`] | accepts, one task per connection |
//! | `access` | checks access: peers, the token, no web pages |
//! | [`serve_connection`] | HTTP/1.1 on a connection, by hyper, with a time limit for each wait |
//! | `connection` | reads requests, writes responses |
//! | `api` | request to response: sections, methods, conditions |
//! | `stored` | the objects under `/certificates` and `/js_modules` |
//! | `own` | parts of the configuration that a fleet leaves to its nodes |
//! | `change` | edits and applies, one at a time, in order of arrival |

#![forbid(unsafe_code)]

mod access;
mod api;
mod api_response;
mod change;
mod connection;
mod description;
mod etag;
mod jobs;
mod listener;
mod maintenance;
mod node_options;
mod open_connections;
mod purges;
mod service;
mod serving;
mod stored;

pub use access::{is_own_host, is_same_authority};
pub use change::{Changes, RefusedChange};
pub use description::openapi;
pub use listener::{ControlListener, serve};
pub use node_options::without as without_own;
pub use open_connections::OpenConnections;
pub use service::{RenewError, RestartError, Service, ServiceFuture, StopKind, StoreError};
pub use serving::{
    ApiRequest, BodyReadError, Response, closing, host, read_body, response, serve_connection,
};
/// Types that the API shares with main.
pub use tutti_protocol::{Cause, ControlAccess, StoreKind, Token};
