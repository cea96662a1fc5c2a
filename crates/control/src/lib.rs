//! Control API: `/config`, `/status`, `/control`, `/history`, `/schema` and their kin over HTTP/1.1 on the control socket.
//!
//! Owns the socket's connections, what a request means, and the order of changes; what a change *does* is behind
//! [`Service`], which the binary implements over `server`, `pool` and the state store. Runs on the control thread.
//!
//! Must never happen: two changes at once; a change applied to another document than the one its client was shown
//! (`If-Match`); a change half done because its client hung up; one client, slow or broken, keeping others from the API.
//!
//! | Module | does |
//! |---|---|
//! | [`serve`] | accepts, one task per connection |
//! | `access` | who may: peers, the token, no web pages |
//! | [`serve_connection`] | HTTP/1.1 on a connection, by hyper, with an end to each wait |
//! | `connection` | reads requests, makes responses of answers |
//! | `api` | request to answer: sections, methods, conditions |
//! | `stored` | what is under `/certificates` and `/js_modules` |
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
mod purges;
mod service;
mod serving;
mod stored;

pub use access::{is_own_host, is_same_authority};
pub use change::{Changes, RefusedChange};
pub use description::openapi;
pub use listener::{ControlListener, serve};
pub use node_options::without as without_own;
pub use service::{RenewError, RestartError, Service, ServiceFuture, StopKind, StoreError};
pub use serving::{
    ApiRequest, BodyReadError, Response, closing, host, read_body, response, serve_connection,
};
/// Words that the API shares with main.
pub use tutti_protocol::{Cause, ControlAccess, StoreKind, Token};
