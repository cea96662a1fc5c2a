//! Settings of a listener or an action for the requests that pass through it.

use tutti_document::Pointer;

use super::delivery::Maintenance;
use super::logs::AccessLog;
use super::settings::HttpLevel;

/// Settings that replace the outer ones for the requests that pass through a listener or an action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope {
    /// The listener or the action.
    pub pointer: Pointer,
    /// `http`.
    pub http: HttpLevel,
    /// `access_log`; `None`: the outer ones, empty: none.
    pub access_logs: Option<Vec<AccessLog>>,
    /// `maintenance`, in addition to the outer one.
    pub maintenance: Option<Maintenance>,
}

impl Scope {
    /// True if it has no settings.
    pub(crate) fn is_empty(&self) -> bool {
        let nothing = Scope {
            pointer: self.pointer.clone(),
            ..Scope::default()
        };
        *self == nothing
    }

    /// True if each of its settings is replaced by one of `inner`.
    pub fn is_covered_by<'s>(&self, inner: impl Iterator<Item = &'s Scope> + Clone) -> bool {
        let any = |has: &dyn Fn(&Scope) -> bool| inner.clone().any(has);
        let Scope {
            pointer: _,
            http,
            access_logs,
            maintenance,
        } = self;
        let HttpLevel {
            options: _,
            given,
            given_websocket,
            compression,
            request_id: _,
        } = http;
        let is_nested = |name: &str| matches!(name, "websocket" | "compression");
        let covered =
            |name: &&str| is_nested(name) || any(&|scope: &Scope| scope.http.given.contains(name));
        given.iter().all(covered)
            && given_websocket
                .iter()
                .all(|name| any(&|scope| scope.http.given_websocket.contains(name)))
            && (compression.types.is_none() || any(&|scope| scope.http.compression.types.is_some()))
            && (compression.compressors.is_none()
                || any(&|scope| scope.http.compression.compressors.is_some()))
            && (access_logs.is_none() || any(&|scope| scope.access_logs.is_some()))
            && maintenance.is_none()
    }
}
