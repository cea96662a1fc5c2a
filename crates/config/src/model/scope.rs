//! Settings of a listener or an action for the requests that pass through it.

use std::collections::BTreeMap;

use tutti_document::Pointer;

use super::delivery::Maintenance;
use super::logs::AccessLog;
use super::settings::HttpLevel;
use crate::pattern::Patterns;
use crate::table::ReplacementOptions;
use crate::template::Template;

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
    /// `charset`; empty: none.
    pub charset: Option<String>,
    /// `charset_types`.
    pub charset_types: Option<Patterns>,
    /// `default_type`; empty: none.
    pub default_type: Option<String>,
    /// `mime_types`: extensions or file names to types.
    pub mime_types: Option<BTreeMap<String, String>>,
    /// `limit_rate`, in bytes per second; 0: no limit.
    pub limit_rate: Option<u64>,
    /// `limit_rate_after`.
    pub limit_rate_after: Option<u64>,
    /// `trailers`.
    pub trailers: Option<Vec<(String, Template)>>,
    /// `replace`.
    pub replace: Option<Vec<Replacement>>,
    /// `replace_types`.
    pub replace_types: Option<Patterns>,
}

/// A text to replace in the body of a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// The text in its place.
    pub with: Template,
    /// The remaining options.
    pub options: ReplacementOptions,
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
            charset,
            charset_types,
            default_type,
            mime_types,
            limit_rate,
            limit_rate_after,
            trailers,
            replace,
            replace_types,
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
            && (charset.is_none() || any(&|scope| scope.charset.is_some()))
            && (charset_types.is_none() || any(&|scope| scope.charset_types.is_some()))
            && (default_type.is_none() || any(&|scope| scope.default_type.is_some()))
            && (mime_types.is_none() || any(&|scope| scope.mime_types.is_some()))
            && (limit_rate.is_none() || any(&|scope| scope.limit_rate.is_some()))
            && (limit_rate_after.is_none() || any(&|scope| scope.limit_rate_after.is_some()))
            && (trailers.is_none() || any(&|scope| scope.trailers.is_some()))
            && (replace.is_none() || any(&|scope| scope.replace.is_some()))
            && (replace_types.is_none() || any(&|scope| scope.replace_types.is_some()))
    }
}
