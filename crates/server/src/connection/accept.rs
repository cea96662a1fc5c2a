//! Accepts connections: one task per listener and listen thread.
//!
//! All threads wait on the same listening socket, and a connection is served by the thread that accepted it unless that one has clearly
//! more connections than another; then the descriptor is passed on. The alternative was one `SO_REUSEPORT` socket per thread: the kernel's
//! hash distributes 64 connections unevenly over two threads, and changing the number of threads loses connections in a closed socket's
//! queue.
//!
//! Must never: stop accepting for good. Whatever `accept` returns, the task continues, after a pause if the system lacks a resource.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::Interest;
use tutti_conn::accept::{Batch, DescriptorCeiling, accept_batch, remedy};
use tutti_conn::clock::now_millis;
use tutti_conn::connection_limits::ClientKey;
use tutti_conn::counters::ThreadCounters;
use tutti_conn::listener::{Accepted, ListenerHold, Peer, SharedListener};
use tutti_conn::socket;
use tutti_log::LineLimit;
use tutti_pool::Level;

use crate::connection::connection_task;
use crate::local::{Command, Local};

/// The pause when a listener has reached its limit of connections: the end of one is noticed within this time.
const HELD_PAUSE: Duration = Duration::from_millis(5);

/// The pause after an error such as `EMFILE`: connections stay in the kernel's queue meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// Minimum interval between log lines about waiting connections.
const LINE_WINDOW: Duration = Duration::from_secs(60);

/// Accepts all waiting connections before the listener is closed, which would reset them.
pub(crate) fn accept_rest(local: &Rc<Local>, listener: &Arc<SharedListener>, socket: &OwnedFd) {
    while let Batch::Full = accept(local, listener, socket, DescriptorCeiling::NONE) {}
}

/// Accepts until the task is aborted.
pub(crate) async fn accept_forever(
    local: Rc<Local>,
    listener: Arc<SharedListener>,
    socket: Arc<OwnedFd>,
) {
    let socket = match socket::watch(socket, Interest::READABLE) {
        Ok(socket) => socket,
        Err(error) => {
            local.log(
                Level::Alert,
                &format!("cannot watch listener \"{}\": {error}", listener.name),
            );
            return;
        }
    };
    let limit = LineLimit::new(LINE_WINDOW, 1);
    let ceiling = DescriptorCeiling::of_now(socket.get_ref());
    loop {
        let Ok(mut guard) = socket.readable().await else {
            return;
        };
        match accept(&local, &listener, socket.get_ref(), ceiling) {
            Batch::Empty => guard.clear_ready(),
            Batch::Full => tokio::task::yield_now().await,
            Batch::Held => {
                log_held(&local, &listener, &limit);
                tokio::time::sleep(HELD_PAUSE).await;
            }
            Batch::Lacking(errno) => {
                log_lack(&local, &listener, errno, &limit);
                tokio::time::sleep(PAUSE).await;
                while !ceiling.has_room(socket.get_ref()) {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

fn accept(
    local: &Rc<Local>,
    listener: &Arc<SharedListener>,
    socket: &OwnedFd,
    ceiling: DescriptorCeiling,
) -> Batch {
    accept_batch(listener, socket, ceiling, |mut accepted| {
        if !has_room(local, &mut accepted.listener, accepted.peer) {
            return;
        }
        local.counters().accepted.add(1);
        listener.counters.accepted.fetch_add(1, Ordering::Relaxed);
        place(local, accepted);
    })
}

/// Counts a connection for its client, if there is a limit. False: the limit is reached, and the connection must be closed.
pub(crate) fn has_room(local: &Local, listener: &mut ListenerHold, peer: Peer) -> bool {
    let Some(address) = peer.address() else {
        return true;
    };
    if !listener.bounds.counts_clients() {
        return true;
    }
    let live = local.snapshot();
    let position = live.position_of(listener.id);
    let entry = position.and_then(|position| live.entrances().nth(position));
    if entry.is_some_and(|entry| entry.is_proxy(peer)) {
        return true;
    }
    let has_room = listener.count_client(ClientKey::at(address.ip()));
    if !has_room {
        refuse(local, listener, address.ip());
    }
    has_room
}

/// Logs that a connection is closed because its client has too many.
fn refuse(local: &Local, listener: &SharedListener, client: IpAddr) {
    listener.counters.refused.fetch_add(1, Ordering::Relaxed);
    let line = format!(
        "connection refused: client {} has `max_connections_per_client` of listener \"{}\" open",
        client.to_canonical(),
        listener.name
    );
    local.log_client_error(Level::Info, &line);
}

/// Serves a connection here or, if another thread has clearly fewer, there.
fn place(local: &Rc<Local>, accepted: Accepted) {
    let counters = &local.shared.counters;
    let open = |thread: &ThreadCounters| thread.open.load(Ordering::Relaxed);
    let mine = open(local.counters());
    let least = counters
        .iter()
        .zip(&local.shared.inboxes)
        .min_by_key(|(thread, _)| open(thread));
    let here = match least {
        // An eighth plus two is balanced enough: each transfer wakes a thread.
        Some((there, inbox)) if mine > open(there) + 2 + open(there) / 8 => {
            // Counted for the receiver at once, otherwise a burst would all go to the same thread.
            there.open.fetch_add(1, Ordering::Relaxed);
            match inbox.send(Command::Adopt(accepted)) {
                Ok(()) => return,
                Err(unsent) => {
                    there.open.fetch_sub(1, Ordering::Relaxed);
                    let Command::Adopt(accepted) = unsent.0 else {
                        return;
                    };
                    accepted
                }
            }
        }
        _ => accepted,
    };
    local.counters().open.fetch_add(1, Ordering::Relaxed);
    connection_task::spawn(Rc::clone(local), here);
}

/// Logs, limited by `limit`, that a listener has reached its limit of connections.
fn log_held(local: &Local, listener: &SharedListener, limit: &LineLimit) {
    let message = format!(
        "listener \"{}\" has `max_connections` open; others wait to be accepted",
        listener.name
    );
    if limit.admit(&message, now_millis()).is_some() {
        local.log(Level::Warn, &message);
    }
}

/// Logs, limited by `limit`, that connections wait.
fn log_lack(local: &Local, listener: &SharedListener, errno: Errno, limit: &LineLimit) {
    let error = std::io::Error::from(errno);
    let remedy = remedy(&error).map(|remedy| format!("; {remedy}"));
    let message = format!(
        "cannot accept on \"{}\": {error}; connections wait{}",
        listener.name,
        remedy.unwrap_or_default()
    );
    if limit.admit(&message, now_millis()).is_some() {
        local.log(Level::Alert, &message);
    }
}
