//! Servers that are Services of Kubernetes: the endpoints that are ready become servers of an upstream, as the API server tells them.
//!
//! Runs on the monitor's thread, as the look-ups of names do. The files that say who vouches for the API server and who we are have to be
//! asked for: the router itself may not read them.
//!
//! Must never happen: that an API server which cannot be heard takes away addresses that were good.

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

/// A file that is to be read.
#[derive(Debug)]
pub struct FileWanted {
    /// Its path, which the configuration has.
    pub path: PathBuf,
    /// Takes the content, or why it cannot be read.
    pub answer: oneshot::Sender<Result<Vec<u8>, String>>,
}

impl FileWanted {
    /// Has a file read by whoever takes these; its content, or why it cannot be read.
    ///
    /// # Errors
    /// It cannot be read, or the server stops.
    pub async fn read(files: &mpsc::UnboundedSender<Self>, file: &Path) -> Result<Vec<u8>, String> {
        let (answer, content) = oneshot::channel();
        let path = file.to_owned();
        let gone = || format!("`{}` cannot be read: the server stops", file.display());
        let sent = files.send(Self { path, answer });
        sent.map_err(|_| gone())?;
        content.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// The way of following to files and to the DNS.
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

/// Keeps the endpoints of a Service up to date as servers of an upstream, for as long as this runs. `index` is that of
/// [`ServerGroup::names`]. `say` gets what is to be logged: once when something begins to be wrong, once when that is over.
pub(crate) async fn keep_followed(
    upstream: Arc<ServerGroup>,
    index: usize,
    service: UpstreamAddress,
    api: Kubernetes,
    around: Around,
    say: impl Fn(NameEvent, &str) + Send + Sync,
) {
    let Some(wanted) = wanted(&service) else {
        return;
    };
    let telling = Telling {
        upstream,
        index,
        service: service.to_string(),
        state: Mutex::default(),
        say,
    };
    match access(&api, |name| std::env::var(name).ok()) {
        Some(access) => follow(&access, &wanted, &around, &|news| telling.take(news)).await,
        None => telling.take(News::Lost(
            "nobody says where the API server is; hint: outside a cluster `server` of `settings.kubernetes` does".to_owned(),
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

/// The API server as the configuration says it, or else as Kubernetes tells it each pod
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

struct Telling<S> {
    upstream: Arc<ServerGroup>,
    index: usize,
    service: String,
    state: Mutex<LastLogged>,
    say: S,
}

/// The last words that the log has been told.
#[derive(Default)]
struct LastLogged {
    /// Why the API server cannot be heard, if it cannot.
    lost: Option<String>,
    /// Why there is no server, if there is none.
    nobody: Option<String>,
}

impl<S: Fn(NameEvent, &str)> Telling<S> {
    fn take(&self, news: News) {
        // Each change is one assignment.
        let mut told = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let service = &self.service;
        match news {
            News::Ready(endpoints, why) => {
                let targets = endpoints.into_iter().map(target).collect();
                self.upstream.resolved(self.index, Some(targets));
                let text = match (&why, &told.nobody) {
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
                    (self.say)(event, &text);
                }
                told.nobody = why;
            }
            News::Followed => {
                if told.lost.take().is_some() {
                    (self.say)(
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
                if told.lost.as_ref() != Some(&why) {
                    let text = format!(
                        "the endpoints of the Service `{service}` cannot be followed: {why}{kept}"
                    );
                    (self.say)(NameEvent::Lost, &text);
                }
                told.lost = Some(why);
            }
        }
    }
}

/// All endpoints are alike to Kubernetes.
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
