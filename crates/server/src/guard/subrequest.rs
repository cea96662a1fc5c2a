//! Sends a guard's question: a request of the server to itself, over a connection that enters like a client's, so that upstreams, routes
//! and applications can all answer it.
//!
//! Must never: ask while a question is being answered.

use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tutti_config::model;
use tutti_conn::listener::{Accepted, ListenerHold, Peer};
use tutti_guard::ActionGuard;
use tutti_guard::auth_request::{AuthError, AuthResponse, Outgoing, failed};

use crate::exchange::request::Request;
use crate::local::Command;

/// Asks it. The answer may be awaited after the end of the request.
pub(super) fn ask(
    request: &Request<'_>,
    guard: &ActionGuard,
    question: &model::AuthRequest,
    outgoing: Outgoing,
) -> impl Future<Output = Result<AuthResponse, AuthError>> + use<> {
    let stream = connect(request, guard);
    let timeout = question.timeout;
    async move { tutti_guard::auth_request::ask(stream?, outgoing, timeout).await }
}

/// Opens a connection of the server to itself, served by this thread.
fn connect(request: &Request<'_>, guard: &ActionGuard) -> Result<UnixStream, AuthError> {
    if request.snapshot.is_question(request.client.listener.id) {
        return Err(AuthError {
            status: 508,
            reason: "the question leads to another question; hint: its `pass` must avoid every `authenticate` that asks a service"
                .to_owned(),
        });
    }
    let local = &request.client.local;
    let gone = || failed("the server ends");
    let number = guard.question.ok_or_else(gone)?;
    let listener = request
        .snapshot
        .question_entrance(number)
        .ok_or_else(gone)?;
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .map_err(|errno| failed(format!("no connection: {errno}")))?;
    let accepted = Accepted {
        socket: theirs,
        peer: Peer::Unix,
        listener: ListenerHold::new(listener),
    };
    local.serve(Command::Serve(accepted)).map_err(|()| gone())?;
    Ok(UnixStream::from(ours))
}
