//! Follows the slices of one Service: a list, and from its version on a watch, which is restarted where it ended.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tutti_dialer::{Backoff, BoxFuture, random_time_below};

use crate::client::{ApiConnection, ClusterAccess, Credentials, piece};
use crate::failure::FollowError;
use crate::lines::Lines;
use crate::objects::{Bookmark, EndpointSlice, Event, List, Status};
use crate::slices::{Port, ReadyEndpoint, Slices};

/// Slices on one page of a list. Each usually has a hundred endpoints.
const PAGE: usize = 100;

/// A watch is ended after this time, and up to half more, so that a hanging server is not trusted longer, and the
/// watches of many servers do not end at once.
const WATCH: Duration = Duration::from_secs(120);

/// Additional time for it to end.
const GRACE: Duration = Duration::from_secs(30);

/// A watch that lasted this long was successful, however it ended.
const STEADY: Duration = Duration::from_secs(10);

/// The longest pause: an API server that is down for a night should not get requests every second from all servers, nor
/// be unused for long when it is back.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Provides access to files and to the DNS.
pub trait ClusterEnvironment: Send + Sync {
    /// Reads the current content of a file.
    fn read<'s>(&'s self, file: &'s Path) -> BoxFuture<'s, Result<Vec<u8>, String>>;

    /// Resolves a name.
    fn addresses<'s>(&'s self, host: &'s str) -> BoxFuture<'s, Result<Vec<IpAddr>, String>>;
}

/// The endpoints to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedService {
    /// The namespace of the Service.
    pub namespace: String,
    /// Its name.
    pub service: String,
    /// Its port; `None`: it has only one.
    pub port: Option<Port>,
}

/// News about a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// These endpoints are ready; with the reason if there are none.
    Ready(Vec<ReadyEndpoint>, Option<String>),
    /// The API server responds again.
    Followed,
    /// The API server does not respond: known endpoints are kept.
    Lost(String),
}

/// Follows a Service for as long as this runs.
pub async fn follow(
    access: &ClusterAccess,
    wanted: &WatchedService,
    surroundings: &dyn ClusterEnvironment,
    report: &(dyn Fn(News) + Sync),
) {
    let mut following = Following {
        access,
        wanted,
        surroundings,
        report,
        slices: Slices::default(),
        version: None,
        backoff: Backoff::new(LONGEST_PAUSE),
    };
    loop {
        let began = Instant::now();
        let ended = following.round().await;
        if began.elapsed() > STEADY {
            following.backoff.reset();
        }
        match ended {
            Ok(()) => {}
            Err(FollowError::Gone) => following.version = None,
            Err(FollowError::Refused(why)) => {
                following.version = None;
                report(News::Lost(why));
            }
            Err(FollowError::Other(why)) => report(News::Lost(why)),
        }
        tokio::time::sleep(following.backoff.after_failure()).await;
    }
}

struct Following<'s> {
    access: &'s ClusterAccess,
    wanted: &'s WatchedService,
    surroundings: &'s dyn ClusterEnvironment,
    report: &'s (dyn Fn(News) + Sync),
    slices: Slices,
    /// The version of the known slices; `None`: they must be listed.
    version: Option<String>,
    backoff: Backoff,
}

impl Following<'_> {
    /// Runs one connection: a list if needed, and a watch until it ends.
    async fn round(&mut self) -> Result<(), FollowError> {
        let credentials = self.credentials().await?;
        let addresses = match self.access.host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => {
                let found = self.surroundings.addresses(&self.access.host).await;
                let host = &self.access.host;
                found.map_err(|why| {
                    FollowError::new(format!("`{host}` cannot be resolved: {why}"))
                })?
            }
        };
        let mut connection = ApiConnection::open(self.access, &addresses, &credentials.ca).await?;
        let version = match self.version.clone() {
            Some(version) => version,
            None => self.list(&mut connection, &credentials.token).await?,
        };
        self.watch(&mut connection, &credentials.token, &version)
            .await
    }

    /// Reads the current files: a token is replaced while it is in use.
    async fn credentials(&self) -> Result<Credentials, FollowError> {
        let named =
            |file: &Path, why: String| FollowError::new(format!("`{}` {why}", file.display()));
        let (ca, token_file) = (&self.access.ca, &self.access.token_file);
        let certificates = self.surroundings.read(ca).await;
        let certificates = certificates.map_err(|why| named(ca, why))?;
        let token = self.surroundings.read(token_file).await;
        let token = token.map_err(|why| named(token_file, why))?;
        let token = String::from_utf8(token).unwrap_or_default();
        match token.trim() {
            "" => Err(named(
                token_file,
                "is empty; a service account token is expected".to_owned(),
            )),
            token => Ok(Credentials {
                ca: certificates,
                token: token.to_owned(),
            }),
        }
    }

    fn target(&self, query: &str) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let namespace = encoded(&self.wanted.namespace);
        let selector = encoded(&format!(
            "kubernetes.io/service-name={}",
            self.wanted.service
        ));
        format!(
            "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector={selector}&{query}"
        )
    }

    /// Lists the slices, page by page, and returns their version.
    async fn list(
        &mut self,
        connection: &mut ApiConnection,
        token: &str,
    ) -> Result<String, FollowError> {
        let mut slices = Slices::default();
        let mut rest = String::new();
        loop {
            let target = self.target(&format!("limit={PAGE}{rest}"));
            let namespace = &self.wanted.namespace;
            let page = connection.get_whole(&target, token, namespace).await?;
            let page: List = serde_json::from_slice(&page)
                .map_err(|error| FollowError::new(format!("the API server's list: {error}")))?;
            page.items
                .into_iter()
                .flatten()
                .for_each(|slice| slices.insert(slice));
            match page.metadata.rest.filter(|rest| !rest.is_empty()) {
                Some(more) => {
                    let more = utf8_percent_encode(&more, NON_ALPHANUMERIC);
                    rest = format!("&continue={more}");
                }
                None => {
                    self.slices = slices;
                    let version = page.metadata.resource_version;
                    self.version = Some(version.clone());
                    (self.report)(News::Followed);
                    self.report_slices();
                    return Ok(version);
                }
            }
        }
    }

    async fn watch(
        &mut self,
        connection: &mut ApiConnection,
        token: &str,
        version: &str,
    ) -> Result<(), FollowError> {
        let time = WATCH + random_time_below(WATCH / 2);
        let seconds = time.as_secs();
        let version = utf8_percent_encode(version, NON_ALPHANUMERIC);
        let target = self.target(&format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}"
        ));
        let namespace = &self.wanted.namespace;
        let mut body = connection.get(&target, token, namespace).await?.into_body();
        (self.report)(News::Followed);
        let mut lines = Lines::default();
        while let Some(piece) = piece(&mut body, time + GRACE).await? {
            let ended = lines.take(&piece).map_err(FollowError::Other)?;
            let mut is_changed = false;
            for line in ended {
                is_changed |= self.event(&line)?;
            }
            if is_changed {
                self.backoff.reset();
                self.report_slices();
            }
        }
        Ok(())
    }

    /// Processes an event; true if slices have changed.
    fn event(&mut self, line: &[u8]) -> Result<bool, FollowError> {
        let unusable = |error: serde_json::Error| {
            FollowError::Refused(format!("an event of the API server: {error}"))
        };
        let event: Event = serde_json::from_slice(line).map_err(unusable)?;
        match event.kind.as_str() {
            "ADDED" | "MODIFIED" => {
                let slice: EndpointSlice =
                    serde_json::from_value(event.object).map_err(unusable)?;
                self.version = Some(slice.metadata.resource_version.clone());
                self.slices.insert(slice);
                Ok(true)
            }
            "DELETED" => {
                let gone: Bookmark = serde_json::from_value(event.object).map_err(unusable)?;
                self.version = Some(gone.metadata.resource_version);
                self.slices.remove(&gone.metadata.name);
                Ok(true)
            }
            "BOOKMARK" => {
                let mark: Bookmark = serde_json::from_value(event.object).map_err(unusable)?;
                self.version = Some(mark.metadata.resource_version);
                Ok(false)
            }
            "ERROR" => {
                let status: Status = serde_json::from_value(event.object).map_err(unusable)?;
                let namespace = &self.wanted.namespace;
                let error = FollowError::of_status(status.code, &status.message, namespace);
                Err(match error {
                    // The watch cannot continue from there.
                    FollowError::Other(why) => FollowError::Refused(why),
                    error => error,
                })
            }
            // New kinds of events must be compatible with clients that do not know them.
            _ => Ok(false),
        }
    }

    fn report_slices(&self) {
        let (ready, why) = self.slices.ready(self.wanted.port.as_ref());
        (self.report)(News::Ready(ready, why));
    }
}
