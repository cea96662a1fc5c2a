//! Certificates that are got when a client asks for one: which of them there are, and how another is asked for.
//!
//! The name is known from a client's first message before there is a connection to speak of, so whoever accepts reads that message
//! ([`Hello`]), has the certificate got, and then begins. Must never happen: a name that can have no certificate goes on to anybody;
//! or the way to whoever gets them fills memory.

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

/// The use of a certificate is told again after so many seconds.
const TELL_AGAIN: u64 = 6 * 3600;

/// The outcome of a wish: the certificate is in force, or why not.
pub type CertificateResult = Result<(), String>;

/// A certificate that a client asks for.
#[derive(Debug)]
pub struct CertificateRequest {
    /// The account that gets it.
    pub account: String,
    /// The name, in lower case.
    pub name: String,
    /// Who asks, where that is known.
    pub client: Option<IpAddr>,
    /// Takes the outcome. `None`: it is there, and has been used.
    pub answer: Option<oneshot::Sender<CertificateResult>>,
}

/// Certificates on demand, as a listener's surroundings have them.
#[derive(Debug)]
pub struct Demands {
    /// Those that are there, by the name of the host.
    pub known: Vec<(String, Arc<Bundle>)>,
    /// Takes wishes for others.
    pub desk: mpsc::Sender<CertificateRequest>,
}

#[derive(Debug)]
struct Known {
    key: Arc<CertifiedKey>,
    /// When its use was told, in seconds since 1970.
    told: AtomicU64,
}

/// Certificates by the name of the host.
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

    /// How long a handshake waits for its certificate.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn begin(&self, demands: Demands) {
        let known = demands.known.into_iter().filter_map(|(name, bundle)| {
            let key = Arc::clone(bundle.key()?);
            let told = AtomicU64::new(0);
            Some((name.into_boxed_str(), Known { key, told }))
        });
        // Set twice for nobody: an offer is made once.
        let _ = self.demands.set((known.collect(), demands.desk));
    }

    /// The certificate for a name.
    pub(crate) fn key(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let (known, _) = self.demands.get()?;
        known.get(name).map(|known| &known.key)
    }

    /// Asks for the certificate of a name; `None`: it is there. What cannot be asked for now is refused at once.
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
            refuse(answer, "nobody gets certificates here");
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
            if now.abs_diff(known.told.load(Ordering::Relaxed)) > TELL_AGAIN {
                known.told.store(now, Ordering::Relaxed);
                // Lost, it is told by another router, or after the next change.
                let _ = desk.try_send(wanted);
            }
            return None;
        }
        wanted.answer = Some(answer);
        if let Err(refused) = desk.try_send(wanted)
            && let Some(answer) = refused.into_inner().answer
        {
            refuse(answer, "too many names are requested at once");
        }
        Some(outcome)
    }
}

/// The first message of a client, as it comes.
#[derive(Default)]
pub struct Hello {
    acceptor: Acceptor,
    /// Bytes that it has been given.
    seen: usize,
}

impl Hello {
    /// Looks at all bytes that have come, of which there are more each time. `None`: the message is not whole. `Some(None)`: it asks for
    /// no name that can have a certificate; what is wrong with it shows in the handshake.
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
