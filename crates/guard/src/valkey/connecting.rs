//! Connects to a store: TCP, TLS if configured, the password, and a test of the operation that requests use.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError, Script};
use tokio::sync::Notify;
use tutti_config::model::LimitStore;
use tutti_dialer::{DialTarget, dial};

use super::environment::StoreEnvironment;
use super::files;
use super::script::{CountedBound, SCRIPT, Taken, key};

/// Consecutive requests without an answer in time before a connection is given up: a machine that is busy for a moment must not lose it.
const MOST_SILENT: u32 = 3;

/// The limit for the test, which always succeeds.
const TRIAL: CountedBound = CountedBound {
    interval: Duration::from_millis(1),
    requests: 1_000_000,
};

/// Reads and writes the connection; ends with it.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()>>>;

/// A connection for the requests of all threads.
pub(crate) struct Open {
    connection: MultiplexedConnection,
    script: Script,
    /// Consecutive requests without an answer in time.
    silent: AtomicU32,
    has_answered: AtomicBool,
    /// Why it cannot be used any more.
    broken: Mutex<Option<String>>,
    pub(crate) is_broken: Notify,
}

impl Open {
    /// Has the store count a request.
    pub(crate) async fn ask(&self, name: &str, bound: CountedBound) -> Result<Taken, String> {
        let mut connection = self.connection.clone();
        let mut asked = self.script.key(name);
        asked.arg(bound.microseconds()).arg(bound.requests);
        let answer: Result<(i64, i64, i64), RedisError> = asked.invoke_async(&mut connection).await;
        answer
            .map(|answer| bound.answer(answer))
            .map_err(|error| describe(&error))
    }

    /// Notes a request with an answer.
    pub(crate) fn has_answered(&self) {
        // Checked first, so that threads do not all write one cache line all the time.
        if self.silent.load(Ordering::Relaxed) != 0 {
            self.silent.store(0, Ordering::Relaxed);
        }
        if !self.has_answered.load(Ordering::Relaxed) {
            self.has_answered.store(true, Ordering::Relaxed);
        }
    }

    /// True if any request had an answer.
    pub(crate) fn was_of_use(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Notes a request without an answer: for this reason, or in time.
    pub(crate) fn has_failed(&self, why: Option<String>, longest: Duration) {
        let silent = self.silent.fetch_add(1, Ordering::Relaxed) + 1;
        let why = match why {
            Some(why) => why,
            None if silent < MOST_SILENT => return,
            None => format!("no answer within {} ms", longest.as_millis()),
        };
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get_or_insert(why);
        self.is_broken.notify_one();
    }

    /// Why it cannot be used any more.
    pub(crate) fn reason(&self) -> String {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || "it has closed the connection".to_owned();
        broken.clone().unwrap_or_else(closed)
    }
}

fn describe(error: &RedisError) -> String {
    // External text, for the log.
    let text = error.to_string().replace(char::is_control, " ");
    text.chars().take(300).collect()
}

/// Connects, and tests the operation that requests use.
pub(crate) async fn connect(
    model: &LimitStore,
    around: &dyn StoreEnvironment,
) -> Result<(Open, Driver), String> {
    let mut info = RedisConnectionInfo::default()
        .set_db(model.address.database.into())
        .set_skip_set_lib_name();
    if let Some(password) = files::password(model, around).await? {
        info = info.set_password(password);
    }
    if let Some(user) = &model.valkey.user {
        info = info.set_username(user);
    }
    let address = &model.address;
    let addresses = match address.host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => around.addresses(&address.host).await?,
    };
    let tls = match address.is_secure {
        true => Some(files::tls(model, around).await?),
        false => None,
    };
    let target = DialTarget {
        host: &address.host,
        port: address.port,
        addresses: Some(&addresses),
        tls: tls.as_ref(),
        server_name: model.tls.server_name.as_deref(),
        patience: None,
    };
    let stream = dial(&target).await.map_err(|error| error.to_string())?;
    // Each request has its own deadline.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let made = MultiplexedConnection::new_with_config(&info, stream, config).await;
    let (connection, driver) = made.map_err(|error| describe(&error))?;
    let mut driver: Driver = Box::pin(driver);
    let open = Open {
        connection,
        script: Script::new(SCRIPT),
        silent: AtomicU32::new(0),
        has_answered: AtomicBool::new(false),
        broken: Mutex::default(),
        is_broken: Notify::new(),
    };
    let trial = key(&model.options.prefix, "trial", b"");
    let tried = tokio::select! {
        tried = open.ask(&trial, TRIAL) => tried,
        () = &mut driver => Err(open.reason()),
    };
    tried.map(|_| (open, driver))
}
