//! The dashboard as the configuration describes it: main provides its socket and its token, and it is served as long as
//! the control socket is.
//!
//! A change is prepared before it is made, so that an address in use or an unreadable token rejects it; the former
//! dashboard then continues. At a start there is no change to reject: a fault becomes a problem of `/status`, and is
//! retried. Must never happen: a port that stays open although the configuration has no dashboard, or one that admits
//! clients that the configuration in force would not.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tutti_config::model::Dashboard;
use tutti_config::{Config, Diagnostic, Diagnostics};
use tutti_control::Changes;
use tutti_dashboard::{DashboardAccess, DashboardTls, Site};
use tutti_log::Level;
use tutti_protocol::{BindAddress, FromController, Token};
use tutti_tls::{Bundle, CertificateSource, Offer};
use tutti_unprivileged::certificates::Certificates;

use super::dashboard_keeper::{Listening, Ready};
use super::line::fetch;
use super::service::{ControllerService, Inner};

/// Interval at which its token and certificates are checked, and failed parts are retried.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The protocol inside TLS (RFC 7301).
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

impl Inner {
    /// Obtains everything that the dashboard of this configuration needs, or reports what is missing. The caller must
    /// hold `changing`.
    pub(super) async fn prepare_dashboard(
        &self,
        config: &Config,
        certificates: &Certificates,
    ) -> Result<Option<Ready>, Diagnostics> {
        let Some(wanted) = &config.settings.dashboard else {
            return Ok(None);
        };
        let ready = self.ready(wanted, certificates).await;
        ready.map(Some).map_err(Diagnostics::one)
    }

    async fn ready(
        &self,
        wanted: &Dashboard,
        certificates: &Certificates,
    ) -> Result<Ready, Diagnostic> {
        let at = |option: &str| wanted.pointer.child(option);
        let token = match &wanted.options.token_file {
            None => None,
            Some(file) => {
                let token = self.read_token(file).await;
                Some(token.map_err(|reason| Diagnostic::apply(at("token_file"), reason))?)
            }
        };
        let tls = match &wanted.tls {
            None => None,
            Some(tls) => {
                let offer = Offer::new(
                    tls,
                    &mut |source| found(source, certificates),
                    &PROTOCOLS,
                    None,
                );
                let offer = offer
                    .map_err(|error| Diagnostic::apply(error.pointer.clone(), error.to_string()))?;
                Some(DashboardTls {
                    config: offer.config(),
                    client_rule: offer.client_rule(),
                })
            }
        };
        let socket = if self.dashboard.address() == Some(wanted.address) {
            None
        } else {
            let place = BindAddress::Inet(wanted.address);
            let make = |id| FromController::Listen {
                id,
                place: place.clone(),
            };
            let done = self.link.request(&make, Vec::new()).await;
            let done = done.map_err(|refused| {
                let message = format!("cannot listen at `{}`: {}", wanted.address, refused.message);
                Diagnostic::apply(at("listen"), message)
            })?;
            done.descriptors.into_iter().next()
        };
        Ok(Ready {
            address: wanted.address,
            socket,
            entry: DashboardAccess { token, tls },
        })
    }

    async fn read_token(&self, file: &Path) -> Result<Token, String> {
        let make = |id| FromController::ReadToken {
            id,
            file: file.to_owned(),
        };
        let text = fetch(&self.link, &make).await?.unwrap_or_default();
        serde_json::from_slice(&text).map_err(|error| error.to_string())
    }

    /// Cancels the change: main closes the descriptors that were opened only for it.
    pub(super) fn abandon_dashboard(&self, ready: Option<Ready>) {
        if let Some(ready) = ready.filter(|ready| ready.socket.is_some()) {
            self.unlisten(ready.address);
        }
    }

    fn unlisten(&self, address: SocketAddr) {
        let place = BindAddress::Inet(address);
        self.link.send(&FromController::Unlisten { place });
    }

    /// Serves this dashboard from now on, and no other. The caller must hold `changing`.
    pub(super) fn serve_dashboard(&self, ready: Option<Ready>) {
        let mut state = self.dashboard.state();
        state.problem = None;
        let before = state.listening.as_ref().map(|listening| listening.address);
        let after = ready.as_ref().map(|ready| ready.address);
        if before != after {
            state.listening = None;
            if let Some(before) = before {
                self.unlisten(before);
            }
        }
        let Some(ready) = ready else {
            return;
        };
        let Some(site) = state.site.clone().filter(|_| state.may_serve) else {
            drop(state);
            return self.abandon_dashboard(Some(ready));
        };
        site.set_entry(ready.entry);
        if let Some(socket) = ready.socket {
            let watched = Arc::clone(&site);
            let log = self.log.clone();
            state.listening = Some(Listening {
                address: ready.address,
                accepting: tokio::spawn(async move {
                    if let Err(error) = tutti_dashboard::serve(socket, site).await {
                        log.line(
                            Level::Alert,
                            &format!("cannot serve the dashboard: {error}"),
                        );
                    }
                })
                .abort_handle(),
                watching: tokio::spawn(async move { watched.watch().await }).abort_handle(),
            });
            let text = format!("the dashboard listens at {}", ready.address);
            self.log.line(Level::Notice, &text);
        }
    }

    /// Serves the dashboard of the configuration in force, as far as possible now.
    async fn tend_dashboard(&self) {
        let _alone = self.changing.lock().await;
        if !self.dashboard.state().may_serve {
            return;
        }
        let config = self.config.load_full();
        match self
            .prepare_dashboard(&config, &self.certificates.load_full())
            .await
        {
            Ok(ready) => self.serve_dashboard(ready),
            Err(faults) => {
                let fault = faults.0.into_iter().next();
                let mut state = self.dashboard.state();
                if state.problem != fault
                    && let Some(fault) = &fault
                {
                    let goes_on = match &state.listening {
                        Some(_) => "the dashboard continues with its former settings",
                        None => "there is no dashboard",
                    };
                    let text = format!("{goes_on}: {}", fault.detail());
                    self.log.line(Level::Alert, &text);
                }
                state.problem = fault;
            }
        }
    }
}

/// Returns certificates of the configuration or of a file.
fn found(
    source: CertificateSource<'_>,
    certificates: &Certificates,
) -> Result<Arc<Bundle>, String> {
    match source {
        CertificateSource::Stored(name) => certificates
            .get(name)
            .ok_or_else(|| format!("the certificate bundle `{name}` does not exist")),
        CertificateSource::File(path) => {
            let named = |reason: String| format!("`{}`: {reason}", path.display());
            let text = std::fs::read(path).map_err(|error| named(error.to_string()))?;
            let bundle = Bundle::parse(&text, std::time::SystemTime::now());
            bundle
                .map(Arc::new)
                .map_err(|error| named(error.to_string()))
        }
    }
}

impl ControllerService {
    /// Starts serving the dashboard, if the configuration has one. `changes` remembers the last rejected change.
    pub(super) fn open_dashboard(&self, changes: &Arc<Changes>) {
        let mut state = self.0.dashboard.state();
        if state.site.is_none() {
            let site = Site::new(
                Arc::new(self.clone()),
                Arc::clone(changes),
                self.0.log.clone(),
            );
            state.site = Some(site);
            let inner = Arc::clone(&self.0);
            tokio::spawn(async move {
                loop {
                    inner.tend_dashboard().await;
                    tokio::select! {
                        () = tokio::time::sleep(LOOK_INTERVAL) => {}
                        () = inner.dashboard.due.notified() => {}
                    }
                }
            });
        }
        state.may_serve = true;
        self.0.dashboard.due.notify_one();
    }

    /// Stops serving it: another controller does, or it is no longer configured. Main keeps the socket for that.
    pub(super) fn close_dashboard(&self) {
        let mut state = self.0.dashboard.state();
        state.may_serve = false;
        state.listening = None;
    }
}
