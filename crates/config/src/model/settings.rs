//! Settings of the whole server.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tutti_script::Modules;

use super::acme::AcmeAccount;
use super::cache::CacheStore;
use super::compression::Compression;
use super::dashboard::Dashboard;
use super::delivery::Maintenance;
use super::kubernetes::Kubernetes;
use super::limit_store::LimitStore;
use super::source::Source;
use super::stored::StoredName;
use super::telemetry::Telemetry;
use super::upstream::Resolver;
use crate::address::AddressSet;
use crate::table::{HttpOptions, RequestIdOptions};

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
    /// `None`: responses are not compressed.
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

impl Http {
    /// Default time for requests in progress at a graceful stop: a service manager, container runtime or test waits 10
    /// to 15 seconds before it kills.
    pub const STOP_TIME: Duration = Duration::from_secs(10);

    /// Default time for requests in progress after an upgrade, when nothing waits for the former router: an hour, for
    /// downloads.
    pub const UPGRADE_TIME: Duration = Duration::from_secs(3600);
}
