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
    /// Router threads; `None`: as many as there are CPUs to run on.
    pub listen_threads: Option<u32>,
    /// HTTP settings.
    pub http: Http,
    /// How names of upstreams' servers are looked up.
    pub resolver: Resolver,
    /// How the API server of Kubernetes is reached, where servers are Services.
    pub kubernetes: Kubernetes,
    /// `js_module`: what templates may use, in the order it is loaded.
    pub js_modules: Vec<StoredName>,
    /// Those modules.
    pub modules: Modules,
    /// `None`: requests are not traced.
    pub telemetry: Option<Telemetry>,
    /// Requests get 503; `None`: they do not.
    pub maintenance: Option<Maintenance>,
    /// `None`: there is none.
    pub dashboard: Option<Dashboard>,
    /// Accounts for automatic certificates, by name.
    pub acme: BTreeMap<String, AcmeAccount>,
    /// The store that this configuration comes from; `None`: there is none, or that of `--source`.
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
    /// `None`: responses are sent as they are.
    pub compression: Option<Compression>,
    /// `static.mime_types`: extensions or file names to types, added to the built-in ones.
    pub mime_types: BTreeMap<String, String>,
    /// `None`: nobody is told the ids of requests.
    pub request_id: Option<RequestId>,
}

/// `settings.http.request_id`: the requests that bring their id, and the recipients of ids.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestId {
    /// The clients whose requests bring their id; `None`: no client's.
    pub source: Option<AddressSet>,
    /// The rest of it.
    pub options: RequestIdOptions,
}

impl Deref for Http {
    type Target = HttpOptions;

    fn deref(&self) -> &HttpOptions {
        &self.options
    }
}

impl Http {
    /// Time for what has begun at a graceful stop, unless the configuration says another: a service manager, a container's or
    /// a test's, waits 10 to 15 seconds before it kills.
    pub const STOP_TIME: Duration = Duration::from_secs(10);

    /// The same after an upgrade, when nobody waits for the former router: an hour, for downloads.
    pub const UPGRADE_TIME: Duration = Duration::from_secs(3600);
}
