//! One prototype: its launch, its control socket, its output.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::mpsc::UnboundedSender;
use tutti_wire::control::{FromPrototype, MAX_EVENTS, MAX_MESSAGE, ToPrototype, encode};

use super::control_socket::ControlSocket;
use super::event::Event;
use crate::application::ApplicationPool;
use crate::context::Context;
use crate::failure::StartFailure;
use crate::generation::Generation;
use crate::launcher::LaunchRequest;
use crate::output::OutputPipe;
use crate::runtime;

/// Maximum time for processes without requests to quit before they are killed.
pub(super) const QUIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The stage of a prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// `exec`ed or about to be; loading.
    Starting,
    /// It forks on request.
    Ready,
    /// Its workers are draining; then it ends.
    Draining,
    /// It was asked to quit, or killed.
    Ending,
    /// Its control socket is closed.
    Gone,
}

/// A prototype with its sockets.
#[derive(Debug)]
pub(super) struct Prototype {
    pub(super) serial: u64,
    pub(super) stage: Stage,
    pub(super) pid: Option<i32>,
    pub(super) has_exited: bool,
    /// One of its workers has been ready.
    pub(super) has_had_workers: bool,
    pub(super) started: Instant,
    /// When it was asked to quit, or killed.
    pub(super) ending_since: Instant,
    pub(super) generation: Arc<Generation>,
    pub(super) output: Arc<OutputPipe>,
    socket: Arc<ControlSocket>,
}

/// The failure of a start that could not even be tried.
fn failure(app: &ApplicationPool, step: &str, error: &io::Error) -> StartFailure {
    StartFailure::new(&app.spec(), step, error.to_string())
}

impl Prototype {
    /// Makes its descriptors and requests its `exec`; the result comes as an event.
    pub(super) fn launch(
        serial: u64,
        app: &Arc<ApplicationPool>,
        generation: &Arc<Generation>,
        context: &Arc<Context>,
        events: &UnboundedSender<Event>,
    ) -> Result<Prototype, StartFailure> {
        let fail = |error: io::Error| failure(app, "create descriptors", &error);
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|error| fail(error.into()))?;
        rustix::io::ioctl_fionbio(&ours, true).map_err(|error| fail(error.into()))?;
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| fail(error.into()))?;
        rustix::io::ioctl_fionbio(&reader, true).map_err(|error| fail(error.into()))?;
        // `/dev/stdout` reopens it as the application's user. Only processes that have the pipe already can reach it.
        rustix::fs::fchmod(&writer, Mode::from_raw_mode(0o622))
            .map_err(|error| fail(error.into()))?;
        let request = LaunchRequest {
            spec: app.spec(),
            control: theirs,
            segment: generation.segment.fd().try_clone_to_owned().map_err(fail)?,
            spool: app.spool().reader().try_clone_to_owned().map_err(fail)?,
            threads: context.threads.count(),
            // All numbers of the segment: some belong to a prototype that is being replaced.
            workers: generation.segment.layout().workers,
            eventfds: generation.bells.duplicates().map_err(fail)?,
            output: writer,
        };
        send_events(&ours, generation.segment.worker_events()).map_err(fail)?;
        let socket = ControlSocket::new(ours).map_err(fail)?;
        let output =
            Arc::new(OutputPipe::new(reader, Arc::clone(&app.shared.answers)).map_err(fail)?);
        runtime::spawn(
            Arc::clone(&output).forward(Arc::clone(app.name()), Arc::clone(&context.log)),
        );
        let launched = context.launcher.start_prototype(request);
        let socket = Arc::new(socket);
        let follow = Follow {
            serial,
            context: Arc::clone(context),
            socket: Arc::clone(&socket),
            output: Arc::clone(&output),
            events: events.clone(),
        };
        runtime::spawn(follow.run(launched));
        Ok(Prototype {
            serial,
            stage: Stage::Starting,
            pid: None,
            has_exited: false,
            has_had_workers: false,
            started: runtime::now(),
            ending_since: runtime::now(),
            generation: Arc::clone(generation),
            output,
            socket,
        })
    }

    /// Sends a message; false if the prototype cannot take it now.
    pub(super) fn send(&self, message: &ToPrototype) -> bool {
        self.socket.send(message)
    }

    /// The next message, if there is one now.
    pub(super) fn receive_now(&self) -> Option<FromPrototype> {
        self.socket.receive_now()
    }

    /// True while it may be working.
    pub(super) fn is_alive(&self) -> bool {
        !self.has_exited && self.stage != Stage::Gone
    }
}

/// Sends the workers' events over the control socket, before anything else.
fn send_events(socket: &OwnedFd, events: &[OwnedFd]) -> io::Result<()> {
    let mut first = 0;
    for batch in events.chunks(MAX_EVENTS) {
        let events = batch
            .iter()
            .map(for_workers)
            .collect::<io::Result<Vec<_>>>()?;
        let descriptors: Vec<_> = events.iter().map(AsFd::as_fd).collect();
        let message = encode(&ToPrototype::WorkerEvents { first });
        tutti_sys::seqpacket::send(socket.as_fd(), &message, &descriptors)?;
        first += batch.len() as u32;
    }
    Ok(())
}

/// Opens the pipe of a worker's event anew, to be read by the worker and written by others.
fn for_workers(event: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", event.as_raw_fd());
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The task that receives a prototype's messages.
struct Follow {
    serial: u64,
    context: Arc<Context>,
    socket: Arc<ControlSocket>,
    output: Arc<OutputPipe>,
    events: UnboundedSender<Event>,
}

impl Follow {
    /// Waits for the launch, then forwards the messages of the prototype until the end.
    async fn run(self, launched: crate::launcher::LaunchFuture) {
        let prototype = self.serial;
        let result = launched.await;
        let pid = result.as_ref().ok().map(|launched| launched.pid);
        self.output.is_of(pid.unwrap_or(0));
        // An error means that the supervisor has ended.
        let _ = self.events.send(Event::Launched { prototype, result });
        let Some(pid) = pid else {
            return;
        };
        let mut buffer = vec![0; MAX_MESSAGE];
        while let Some(message) = self.socket.receive(&mut buffer).await {
            if matches!(message, FromPrototype::Ready) {
                self.context.launcher.settle(pid).await;
            }
            let _ = self.events.send(Event::Message { prototype, message });
        }
        let _ = self.events.send(Event::Closed { prototype });
    }
}
