//! Settings of the whole server.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tutti_options::Options as _;
use tutti_script::Modules;

use super::acme::AcmeAccount;
use super::cache::CacheStore;
use super::compression::{Compression, CompressionLevel};
use super::dashboard::Dashboard;
use super::delivery::Maintenance;
use super::kubernetes::Kubernetes;
use super::limit_store::LimitStore;
use super::source::Source;
use super::stored::StoredName;
use super::telemetry::Telemetry;
use super::upstream::Resolver;
use crate::address::AddressSet;
use crate::table::{
    HttpConnectionOptions, HttpListenerOptions, HttpOptions, Opt, RequestIdOptions,
};

/// `settings`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Router threads; `None`: one per available CPU.
    pub listen_threads: Option<u32>,
    /// HTTP settings.
    pub http: Http,
    /// Resolution of the names of upstream servers.
    pub resolver: Resolver,
    /// Access to the Kubernetes API server, if servers are Services.
    pub kubernetes: Kubernetes,
    /// `js_module`: the modules that templates may use, in load order.
    pub js_modules: Vec<StoredName>,
    /// Those modules.
    pub modules: Modules,
    /// `None`: requests are not traced.
    pub telemetry: Option<Telemetry>,
    /// Requests get 503; `None`: no maintenance.
    pub maintenance: Option<Maintenance>,
    /// `None`: no dashboard.
    pub dashboard: Option<Dashboard>,
    /// Accounts for automatic certificates, by name.
    pub acme: BTreeMap<String, AcmeAccount>,
    /// The store of this configuration; `None`: none, or that of `--source`.
    pub source: Option<Source>,
    /// Stores of responses, by name.
    pub caches: BTreeMap<String, CacheStore>,
    /// Stores of limits, by name.
    pub limit_stores: BTreeMap<String, Arc<LimitStore>>,
}

/// `settings.http`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Http {
    /// Numbers, switches and paths.
    pub options: HttpOptions,
    /// `None`, or without compressors: responses are not compressed.
    pub compression: Option<Compression>,
    /// `static.mime_types`: extensions or file names to types, added to the built-in ones.
    pub mime_types: BTreeMap<String, String>,
    /// `None`: ids of requests are not sent.
    pub request_id: Option<RequestId>,
}

/// `settings.http.request_id`: where ids of requests come from, and where they are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestId {
    /// The clients that are trusted to send an id; `None`: none.
    pub source: Option<AddressSet>,
    /// The remaining options.
    pub options: RequestIdOptions,
}

impl Deref for Http {
    type Target = HttpOptions;

    fn deref(&self) -> &HttpOptions {
        &self.options
    }
}

/// `http` of a listener or an action: the options that it has, in place of the outer ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpLevel {
    /// Numbers and switches; for an action, those of connections are absent.
    pub options: HttpListenerOptions,
    /// The names of the options that are present.
    pub given: Vec<&'static str>,
    /// The names of those of `websocket`.
    pub given_websocket: Vec<&'static str>,
    /// `compression`.
    pub compression: CompressionLevel,
    /// `request_id`.
    pub request_id: Option<RequestId>,
}

impl Http {
    /// Replaces the options that an inner level has.
    pub fn take(&mut self, level: &HttpLevel) {
        let outer = self.options.request.websocket.clone();
        let mut is_given = |option: &Opt| level.given.contains(&option.name);
        let (connection, request) = (&level.options.connection, &level.options.request);
        self.options.connection.take(connection, &mut is_given);
        self.options.request.take(request, &mut is_given);
        let websocket = &mut self.options.request.websocket;
        *websocket = outer;
        websocket.take(&request.websocket, &mut |option| {
            level.given_websocket.contains(&option.name)
        });
        if is_given(&HttpConnectionOptions::request_id) {
            self.request_id.clone_from(&level.request_id);
        }
        if level.compression != CompressionLevel::default() {
            let outer = self.compression.take().unwrap_or_default();
            self.compression = Some(outer.with(&level.compression));
        }
    }

    /// Default time for requests in progress at a graceful stop: a service manager, container runtime or test waits 10
    /// to 15 seconds before it kills.
    pub const STOP_TIME: Duration = Duration::from_secs(10);

    /// Default time for requests in progress after an upgrade, when nothing waits for the former router: an hour, for
    /// downloads.
    pub const UPGRADE_TIME: Duration = Duration::from_secs(3600);
}
