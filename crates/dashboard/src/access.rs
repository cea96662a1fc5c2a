//! Authentication: a token, sent in a form once for a session, or with each request; or a certificate, which TLS has
//! verified before.
//!
//! Must never happen: that a token or session key is compared in a way whose timing reveals how much of it is right, or
//! that one is written to a log or page; that a connection is served by another rule about client certificates than the
//! one that its handshake has checked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use rustls::ServerConfig;
use tutti_log::{Level, Log};
use tutti_protocol::Token;

use crate::reply::{Request, Security};

/// A working day: a user who logs in in the morning is still logged in in the evening.
const SESSION: Duration = Duration::from_secs(12 * 3600);

/// More than the users who look at the same time; beyond that, the oldest session ends.
const MOST_SESSIONS: usize = 100;

/// Delay of the reply to a wrong token. A token of 32 characters cannot be guessed; this keeps an attacker from using
/// the processor.
const PENALTY: Duration = Duration::from_secs(1);

/// Wrong tokens are logged at most once in this time.
const LOG_AGAIN: Duration = Duration::from_secs(10);

/// Random bytes in the name of a session: as many as a digest has.
const SESSION_BYTES: usize = 32;

/// The token and the certificates that admit a client.
#[derive(Clone, Default)]
pub struct DashboardAccess {
    /// The token; `None` only if `tls` requires a client certificate.
    pub token: Option<Token>,
    /// The server's side of TLS; `None`: plain HTTP.
    pub tls: Option<DashboardTls>,
}

/// The server's side of TLS.
#[derive(Clone)]
pub struct DashboardTls {
    /// For handshakes.
    pub config: Arc<ServerConfig>,
    /// A digest of its rule about client certificates; `None`: it does not ask for them.
    pub client_rule: Option<[u8; 32]>,
}

impl DashboardAccess {
    fn security(&self) -> Security {
        self.tls
            .as_ref()
            .map_or(Security::Plain, |tls| tls.security())
    }
}

impl DashboardTls {
    pub(crate) fn security(&self) -> Security {
        Security::Tls {
            client_rule: self.client_rule,
        }
    }
}

/// Keeps sessions in memory: they end with the controller.
#[derive(Default)]
pub(crate) struct Door {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entry: DashboardAccess,
    /// Expiry of sessions, by the digest of the secret in the cookie.
    sessions: HashMap<[u8; 32], Instant>,
    wrong: u64,
    logged: Option<Instant>,
}

impl Door {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses these credentials from now on. Sessions that began with another token end.
    pub(crate) fn set(&self, entry: DashboardAccess) {
        let mut state = self.state();
        if state.entry.token != entry.token {
            state.sessions.clear();
        }
        state.entry = entry;
    }

    pub(crate) fn tls(&self) -> Option<DashboardTls> {
        self.state().entry.tls.clone()
    }

    /// The security that connections must have to be served.
    pub(crate) fn security(&self) -> Security {
        self.state().entry.security()
    }

    pub(crate) fn asks_for_token(&self) -> bool {
        self.state().entry.token.is_some()
    }

    /// True if the request is authenticated.
    pub(crate) fn lets_in(&self, request: &Request) -> bool {
        let mut state = self.state();
        if request.security != state.entry.security() {
            return false;
        }
        let Some(token) = &state.entry.token else {
            // Validation accepts this only if the handshake requires a certificate of each client.
            return matches!(
                request.security,
                Security::Tls {
                    client_rule: Some(_)
                }
            );
        };
        if let Some(field) = &request.authorization {
            return token.is_shown_by(field);
        }
        let is_secure = state.entry.tls.is_some();
        let Some(session) = session_of(&request.cookies, is_secure) else {
            return false;
        };
        let now = Instant::now();
        state.sessions.retain(|_, end| *end > now);
        state.sessions.contains_key(&session)
    }

    /// Starts a session if the token is right, and returns its cookie. Slow otherwise.
    pub(crate) async fn log_in(&self, shown: &str, peer: &str, log: &Log) -> Option<String> {
        let is_right = {
            let state = self.state();
            let token = state.entry.token.as_ref();
            token.is_some_and(|token| token.is(shown.trim().as_bytes()))
        };
        if is_right {
            return self.begin();
        }
        self.log_refusal(peer, log);
        tokio::time::sleep(PENALTY).await;
        None
    }

    /// Logs a wrong token, and delays the reply.
    pub(crate) async fn refuse(&self, peer: &str, log: &Log) {
        self.log_refusal(peer, log);
        tokio::time::sleep(PENALTY).await;
    }

    fn log_refusal(&self, peer: &str, log: &Log) {
        let mut state = self.state();
        state.wrong += 1;
        let is_due = state
            .logged
            .is_none_or(|logged| logged.elapsed() >= LOG_AGAIN);
        if !is_due {
            return;
        }
        let count = std::mem::take(&mut state.wrong);
        state.logged = Some(Instant::now());
        drop(state);
        let times = match count {
            1 => String::new(),
            count => format!(" ({count} times since the last report)"),
        };
        let text = format!("dashboard: {peer} sent a wrong token{times}");
        log.line(Level::Warn, &text);
    }

    fn begin(&self) -> Option<String> {
        let mut secret = [0; SESSION_BYTES];
        aws_lc_rs::rand::fill(&mut secret).ok()?;
        let mut state = self.state();
        let now = Instant::now();
        state.sessions.retain(|_, end| *end > now);
        if state.sessions.len() >= MOST_SESSIONS {
            let oldest = state.sessions.iter().min_by_key(|(_, end)| **end);
            if let Some(oldest) = oldest.map(|(name, _)| *name) {
                state.sessions.remove(&oldest);
            }
        }
        state.sessions.insert(digest_of(&secret), now + SESSION);
        let is_secure = state.entry.tls.is_some();
        Some(format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}",
            cookie_name(is_secure),
            BASE64URL_NOPAD.encode(&secret),
            SESSION.as_secs(),
            if is_secure { "; Secure" } else { "" }
        ))
    }

    /// Ends the session of this request, and returns a cookie that deletes its cookie.
    pub(crate) fn log_out(&self, request: &Request) -> String {
        let mut state = self.state();
        let is_secure = state.entry.tls.is_some();
        if let Some(session) = session_of(&request.cookies, is_secure) {
            state.sessions.remove(&session);
        }
        format!(
            "{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{}",
            cookie_name(is_secure),
            if is_secure { "; Secure" } else { "" }
        )
    }
}

/// With this prefix, a browser accepts the cookie only from this very host (RFC 6265bis, 4.1.3.2).
fn cookie_name(is_secure: bool) -> &'static str {
    if is_secure {
        "__Host-tutti_dashboard"
    } else {
        "tutti_dashboard"
    }
}

fn session_of(cookies: &[u8], is_secure: bool) -> Option<[u8; 32]> {
    let name = cookie_name(is_secure).as_bytes();
    let value = cookies.split(|byte| *byte == b';').find_map(|pair| {
        let value = pair.trim_ascii().strip_prefix(name)?;
        value.strip_prefix(b"=")
    })?;
    let secret = BASE64URL_NOPAD.decode(value).ok()?;
    (secret.len() == SESSION_BYTES).then(|| digest_of(&secret))
}

fn digest_of(secret: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, secret).as_ref());
    sum
}
