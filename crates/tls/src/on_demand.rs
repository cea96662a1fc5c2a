//! Certificates obtained when a client asks for one: which exist, and how another is requested.
//!
//! The name is known from a client's first message, so the code that accepts a connection reads that message ([`Hello`]), requests the
//! certificate, and then begins the handshake. Must never happen: a name that can have no certificate is passed on; or requests fill the
//! memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::server::Acceptor;
use rustls::sign::CertifiedKey;
use tokio::sync::{mpsc, oneshot};
use tutti_config::model::TlsOnDemand;

use crate::bundle::Bundle;
use crate::challenges::ACME_PROTOCOL;

/// Seconds after which the use of a certificate is reported again.
const REPORT_AGAIN: u64 = 6 * 3600;

/// The result of a request: the certificate is in force, or why not.
pub type CertificateResult = Result<(), String>;

/// A certificate that a client asks for.
#[derive(Debug)]
pub struct CertificateRequest {
    /// The account that obtains it.
    pub account: String,
    /// The name, in lower case.
    pub name: String,
    /// The address of the client, if known.
    pub client: Option<IpAddr>,
    /// Receives the result. `None`: the certificate exists, and has been used.
    pub answer: Option<oneshot::Sender<CertificateResult>>,
}

/// The existing certificates on demand, and the way to request others.
#[derive(Debug)]
pub struct Demands {
    /// The existing ones, by host name.
    pub known: Vec<(String, Arc<Bundle>)>,
    /// Receives requests for others.
    pub desk: mpsc::Sender<CertificateRequest>,
}

#[derive(Debug)]
struct Known {
    key: Arc<CertifiedKey>,
    /// When its use was last reported, in seconds since 1970.
    reported: AtomicU64,
}

/// Certificates by host name.
type AllKnown = HashMap<Box<str>, Known>;

/// Certificates on demand of one listener.
#[derive(Debug)]
pub struct OnDemand {
    account: String,
    timeout: Duration,
    /// Set once, before there is any connection.
    demands: OnceLock<(AllKnown, mpsc::Sender<CertificateRequest>)>,
}

impl OnDemand {
    pub(crate) fn new(options: &TlsOnDemand) -> Self {
        Self {
            account: options.account.clone(),
            timeout: options.timeout,
            demands: OnceLock::new(),
        }
    }

    /// Returns the time that a handshake waits for its certificate.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn begin(&self, demands: Demands) {
        let known = demands.known.into_iter().filter_map(|(name, bundle)| {
            let key = Arc::clone(bundle.key()?);
            let reported = AtomicU64::new(0);
            Some((name.into_boxed_str(), Known { key, reported }))
        });
        // An offer is set up once.
        let _ = self.demands.set((known.collect(), demands.desk));
    }

    /// The certificate for a name.
    pub(crate) fn key(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let (known, _) = self.demands.get()?;
        known.get(name).map(|known| &known.key)
    }

    /// Requests the certificate for a name; `None`: it exists. A request that is impossible now fails at once.
    pub(crate) fn want(
        &self,
        name: &str,
        client: Option<IpAddr>,
    ) -> Option<oneshot::Receiver<CertificateResult>> {
        let (answer, outcome) = oneshot::channel();
        let refuse = |answer: oneshot::Sender<CertificateResult>, why: &str| {
            let _ = answer.send(Err(why.to_owned()));
        };
        let Some((known, desk)) = self.demands.get() else {
            refuse(answer, "certificates on demand are not available here");
            return Some(outcome);
        };
        let mut wanted = CertificateRequest {
            account: self.account.clone(),
            name: name.to_owned(),
            client,
            answer: None,
        };
        if let Some(known) = known.get(name) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.unwrap_or_default().as_secs();
            if now.abs_diff(known.reported.load(Ordering::Relaxed)) > REPORT_AGAIN {
                known.reported.store(now, Ordering::Relaxed);
                // If it is lost, another router reports it, or this one after the next change.
                let _ = desk.try_send(wanted);
            }
            return None;
        }
        wanted.answer = Some(answer);
        if let Err(refused) = desk.try_send(wanted)
            && let Some(answer) = refused.into_inner().answer
        {
            refuse(answer, "too many certificates are requested at once");
        }
        Some(outcome)
    }
}

/// The first message of a client, while it arrives.
#[derive(Default)]
pub struct Hello {
    acceptor: Acceptor,
    /// Bytes processed.
    seen: usize,
}

impl Hello {
    /// Parses all received bytes, of which there are more each time. `None`: the message is incomplete. `Some(None)`: it has no name that
    /// can have a certificate; errors are left to the handshake.
    pub fn look(&mut self, bytes: &[u8]) -> Option<Option<String>> {
        let mut new = bytes.get(self.seen..).unwrap_or_default();
        while !new.is_empty() {
            match self.acceptor.read_tls(&mut new) {
                Ok(1..) => {}
                // More than a message can have.
                Ok(0) | Err(_) => return Some(None),
            }
            self.seen = bytes.len() - new.len();
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let asks_authority = hello
                        .alpn()
                        .is_some_and(|mut alpn| alpn.any(|one| one == ACME_PROTOCOL));
                    let name = hello.server_name().filter(|_| !asks_authority);
                    return Some(name.and_then(tutti_options::acme_names::on_demand));
                }
                Err(_) => return Some(None),
            }
        }
        None
    }
}
