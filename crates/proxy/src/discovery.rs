//! Kubernetes Services as servers of an upstream: the ready endpoints that the API server reports.
//!
//! Runs on the monitor's thread, like the resolution of names. The files with the API server's certificate and our token are requested from
//! main: the router may not read them itself.
//!
//! Must never happen: that a failure of the API server removes working addresses.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tutti_config::model::{Kubernetes, Resolver, ServicePort, UpstreamAddress};
use tutti_dialer::BoxFuture;
use tutti_kubernetes::{
    ClusterAccess, ClusterEnvironment, News, Port, ReadyEndpoint, WatchedService, follow,
};
use tutti_upstream::{NameEvent, ResolvedTarget, ServerGroup};

/// A file to be read.
#[derive(Debug)]
pub struct FileWanted {
    /// Its path, from the configuration.
    pub path: PathBuf,
    /// Receives the content, or why it cannot be read.
    pub answer: oneshot::Sender<Result<Vec<u8>, String>>,
}

impl FileWanted {
    /// Requests a file from the receiver of these messages, and returns its content, or why it cannot be read.
    ///
    /// # Errors
    /// The file cannot be read, or the server stops.
    pub async fn read(files: &mpsc::UnboundedSender<Self>, file: &Path) -> Result<Vec<u8>, String> {
        let (answer, content) = oneshot::channel();
        let path = file.to_owned();
        let gone = || format!("`{}` cannot be read: the server stops", file.display());
        let sent = files.send(Self { path, answer });
        sent.map_err(|_| gone())?;
        content.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Gives the code that follows Services access to files and the DNS.
pub(crate) struct Around {
    pub(crate) files: mpsc::UnboundedSender<FileWanted>,
    pub(crate) resolver: Resolver,
}

impl ClusterEnvironment for Around {
    fn read<'s>(&'s self, file: &'s Path) -> BoxFuture<'s, Result<Vec<u8>, String>> {
        Box::pin(FileWanted::read(&self.files, file))
    }

    fn addresses<'s>(&'s self, host: &'s str) -> BoxFuture<'s, Result<Vec<IpAddr>, String>> {
        Box::pin(tutti_upstream::addresses(host, &self.resolver))
    }
}

/// Keeps the endpoints of a Service up to date as servers of an upstream, for as long as this runs. `index` is that of [`ServerGroup::names`].
/// `log` is called once when a problem begins, and once when it ends.
pub(crate) async fn keep_followed(
    upstream: Arc<ServerGroup>,
    index: usize,
    service: UpstreamAddress,
    api: Kubernetes,
    around: Around,
    log: impl Fn(NameEvent, &str) + Send + Sync,
) {
    let Some(wanted) = wanted(&service) else {
        return;
    };
    let reporter = Reporter {
        upstream,
        index,
        service: service.to_string(),
        state: Mutex::default(),
        log,
    };
    match access(&api, |name| std::env::var(name).ok()) {
        Some(access) => follow(&access, &wanted, &around, &|news| reporter.take(news)).await,
        None => reporter.take(News::Lost(
            "the address of the API server is unknown; hint: outside a cluster, set `server` in `settings.kubernetes`".to_owned(),
        )),
    }
}

fn wanted(service: &UpstreamAddress) -> Option<WatchedService> {
    let UpstreamAddress::Kubernetes {
        service,
        namespace,
        port,
        ..
    } = service
    else {
        return None;
    };
    Some(WatchedService {
        namespace: namespace.clone(),
        service: service.clone(),
        port: port.clone().map(|port| match port {
            ServicePort::Name(name) => Port::Name(name),
            ServicePort::Number(number) => Port::Number(number),
        }),
    })
}

/// The API server of the configuration, or else the one that Kubernetes announces to each pod
/// (<https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/>).
fn access(api: &Kubernetes, variable: impl Fn(&str) -> Option<String>) -> Option<ClusterAccess> {
    let (host, port) = match &api.server {
        Some(server) => server.clone(),
        None => {
            let host = variable("KUBERNETES_SERVICE_HOST").filter(|host| !host.is_empty())?;
            let port = variable("KUBERNETES_SERVICE_PORT")?.parse().ok()?;
            (host, port)
        }
    };
    Some(ClusterAccess {
        host,
        port,
        ca: api.options.ca.clone(),
        token_file: api.options.token_file.clone(),
    })
}

struct Reporter<S> {
    upstream: Arc<ServerGroup>,
    index: usize,
    service: String,
    state: Mutex<LastLogged>,
    log: S,
}

/// The last logged state.
#[derive(Default)]
struct LastLogged {
    /// Why the API server cannot be followed; `None` if it can.
    lost: Option<String>,
    /// Why there is no server; `None` if there is one.
    unavailable: Option<String>,
}

impl<S: Fn(NameEvent, &str)> Reporter<S> {
    fn take(&self, news: News) {
        // A panic cannot leave it half changed: each change is one assignment.
        let mut logged = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let service = &self.service;
        match news {
            News::Ready(endpoints, why) => {
                let targets = endpoints.into_iter().map(target).collect();
                self.upstream.resolved(self.index, Some(targets));
                let text = match (&why, &logged.unavailable) {
                    (Some(why), before) if before.as_ref() != Some(why) => {
                        Some(format!("the Service `{service}` has no server: {why}"))
                    }
                    (None, Some(_)) => Some(format!("the Service `{service}` has servers again")),
                    _ => None,
                };
                if let Some(text) = text {
                    let event = match why {
                        Some(_) => NameEvent::Lost,
                        None => NameEvent::Found,
                    };
                    (self.log)(event, &text);
                }
                logged.unavailable = why;
            }
            News::Followed => {
                if logged.lost.take().is_some() {
                    (self.log)(
                        NameEvent::Found,
                        &format!("the endpoints of the Service `{service}` are followed again"),
                    );
                }
            }
            News::Lost(why) => {
                let kept = match self.upstream.resolved(self.index, None) {
                    true => "; its last addresses are kept",
                    false => "",
                };
                if logged.lost.as_ref() != Some(&why) {
                    let text = format!(
                        "the endpoints of the Service `{service}` cannot be followed: {why}{kept}"
                    );
                    (self.log)(NameEvent::Lost, &text);
                }
                logged.lost = Some(why);
            }
        }
    }
}

/// Kubernetes gives all endpoints the same weight.
fn target(endpoint: ReadyEndpoint) -> ResolvedTarget {
    ResolvedTarget {
        priority: 0,
        host: endpoint.name.map(Into::into),
        address: endpoint.address,
        weight: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_knows_its_api_server() {
        let pod = |name: &str| {
            let value = match name {
                "KUBERNETES_SERVICE_HOST" => "fd00::1",
                "KUBERNETES_SERVICE_PORT" => "6443",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let api = Kubernetes::default();
        let found = access(&api, pod).unwrap();
        assert_eq!((found.host.as_str(), found.port), ("fd00::1", 6443));
        let folder = Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
        assert_eq!(found.ca, folder.join("ca.crt"));
        assert_eq!(found.token_file, folder.join("token"));
        assert_eq!(access(&api, |_| None), None);
        let written = Kubernetes {
            server: Some(("api".to_owned(), 443)),
            ..api
        };
        assert_eq!(access(&written, pod).unwrap().host, "api");
    }
}
