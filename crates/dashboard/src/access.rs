//! Who is let in: a token, shown in a form once for a session, or with each request; or a certificate, which TLS has checked before.
//!
//! Must never happen: that a token or the key of a session is compared so that the time tells how much of it was right, or is written
//! anywhere.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use rustls::ServerConfig;
use tutti_log::{Level, Log};
use tutti_protocol::Token;

use crate::reply::Request;

/// A working day: who looks at it in the evening still is logged in.
const SESSION: Duration = Duration::from_secs(12 * 3600);

/// People who look at once, with room; the oldest session makes way.
const MOST_SESSIONS: usize = 100;

/// A wrong token is answered so late. With 32 characters nobody guesses one; this keeps who tries from using the processor.
const PENALTY: Duration = Duration::from_secs(1);

/// Wrong tokens are told of in the log once in this time.
const TELL_AGAIN: Duration = Duration::from_secs(10);

/// Random bytes in the name of a session: as many as a digest has.
const SESSION_BYTES: usize = 32;

/// The secret and the certificates that let a client in.
#[derive(Clone, Default)]
pub struct DashboardAccess {
    /// The secret to show; `None` only where `tls` lets in none but those with a certificate.
    pub token: Option<Token>,
    /// The server's side of TLS; `None`: plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
}

/// Keeps sessions, in memory: they end with the controller.
#[derive(Default)]
pub(crate) struct Door {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entry: DashboardAccess,
    /// Ends of sessions, by the digest of the secret in the cookie.
    sessions: HashMap<[u8; 32], Instant>,
    wrong: u64,
    told: Option<Instant>,
}

impl Door {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets these in from now on. Sessions that began with another token have ended.
    pub(crate) fn set(&self, entry: DashboardAccess) {
        let mut state = self.state();
        if state.entry.token != entry.token {
            state.sessions.clear();
        }
        state.entry = entry;
    }

    pub(crate) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.state().entry.tls.clone()
    }

    pub(crate) fn asks_for_token(&self) -> bool {
        self.state().entry.token.is_some()
    }

    /// True if this request shows who it is.
    pub(crate) fn lets_in(&self, request: &Request) -> bool {
        let mut state = self.state();
        let Some(token) = &state.entry.token else {
            // Without a certificate there would be no connection.
            return state.entry.tls.is_some();
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

    /// Begins a session if this is the token; the cookie for it. Slow if it is not.
    pub(crate) async fn log_in(&self, shown: &str, peer: &str, log: &Log) -> Option<String> {
        let is_right = {
            let state = self.state();
            let token = state.entry.token.as_ref();
            token.is_some_and(|token| token.is(shown.trim().as_bytes()))
        };
        if is_right {
            return self.begin();
        }
        self.tell(peer, log);
        tokio::time::sleep(PENALTY).await;
        None
    }

    /// Tells of a wrong token, and slows down who shows it.
    pub(crate) async fn refuse(&self, peer: &str, log: &Log) {
        self.tell(peer, log);
        tokio::time::sleep(PENALTY).await;
    }

    fn tell(&self, peer: &str, log: &Log) {
        let mut state = self.state();
        state.wrong += 1;
        let is_due = state.told.is_none_or(|told| told.elapsed() >= TELL_AGAIN);
        if !is_due {
            return;
        }
        let count = std::mem::take(&mut state.wrong);
        state.told = Some(Instant::now());
        drop(state);
        let times = match count {
            1 => String::new(),
            count => format!(" ({count} times since it was last told of)"),
        };
        let text = format!("dashboard: {peer} has shown a wrong token{times}");
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

    /// Ends the session of this request; the cookie that takes its cookie away.
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

/// With the prefix a browser takes it from this very host alone (RFC 6265bis, 4.1.3.2).
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
