//! The router role: unprivileged, parses everything, starts nothing itself.
//!
//! One control thread, with the line to main, the control API and the pool's manager; and the listen threads of
//! `tutti-server`. What must never happen: that it touches a file or process it could have main touch, or that a
//! failed change of configuration leaves a trace.

mod certificates;
mod control;
mod files;
pub(crate) mod js_modules;
mod launcher;
mod link;
mod opening;
mod partial;
mod restore;
mod service;
mod status;
mod stored;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tutti_config::{Diagnostics, Document};
use tutti_pool::{ExitStatus, Level, Manager, Threads};
use tutti_server::{Options, Server};
use tutti_sys::spawn::inherited;
use tutti_sys::{daemon, proc, process, sandbox};
use tutti_telemetry::Exporters;

use self::certificates::Certificates;
use self::control::Control;
use self::files::Beginning;
use self::launcher::MainLauncher;
use self::link::Link;
use self::service::{Parts, RouterService, context};
use crate::log::Log;
use crate::protocol::{Hello, ROUTER_SOCKET, Status, ToMain, ToRouter};

/// A quick stop leaves applications this long before main kills what is left.
const QUICK_STOP: Duration = Duration::from_millis(1500);

/// Longest time for the last spans of a router that ends in peace.
const LAST_SPANS: Duration = Duration::from_secs(5);

/// How to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    Graceful,
    Quick,
    /// Another router serves.
    Retire,
}

/// Runs until main says stop.
pub(crate) fn run() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(io::stderr(), "tutti: router: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> io::Result<()> {
    let socket = inherited(ROUTER_SOCKET)?;
    // Applications run as the same user unless told otherwise: they must not read what passes through here.
    process::hide_memory()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(socket))
}

/// The whole router, in one function.
async fn serve(socket: OwnedFd) -> io::Result<()> {
    let link = Arc::new(Link::new(socket)?);
    let (hello, control, log) = greeting(&link).await?;
    report_panics(&log);
    // Before there are other threads: what this one gives up they never have.
    give_up_rights(&hello, &log);
    tokio::spawn({
        let link = Arc::clone(&link);
        async move { link.write_waiting().await }
    });
    let stored = stored_configuration(&link, &hello, &log);
    let beginning = Beginning::choose(&hello, stored, &log);
    let count = thread_count(beginning.document(), &hello);
    let threads = Threads::new(count)?;
    let sink = Arc::new(log.clone());
    let server = Arc::new(Server::start(Options {
        threads: Arc::clone(&threads),
        log: sink.clone(),
    })?);
    let launcher = MainLauncher {
        link: Arc::clone(&link),
        modules: hello.modules.clone(),
    };
    let manager = Manager::new(Arc::new(launcher), sink, threads);
    let exporters = Exporters::new({
        let log = log.clone();
        move |line| log.line(Level::Warn, line)
    });
    let service = RouterService::new(Parts {
        link: Arc::clone(&link),
        log: log.clone(),
        modules: hello.modules.clone(),
        tmpdir: hello.tmpdir.clone(),
        server: Arc::clone(&server),
        manager: manager.clone(),
        exporters: exporters.clone(),
        certificates: Certificates::read(&hello.certificates, &log),
        js_modules: js_modules::read(&hello.js_modules),
        threads: count,
    });
    let control = Control::new(control, service.clone(), log.clone());
    let (stop_sender, stop) = watch::channel(Stop::No);
    let news = News {
        link: Arc::clone(&link),
        log: log.clone(),
        manager: manager.clone(),
        service: service.clone(),
        control: control.clone(),
    };
    tokio::spawn(news.handle(stop_sender));
    tokio::spawn({
        let (service, link, log) = (service.clone(), Arc::clone(&link), log.clone());
        async move {
            if !hello.is_upgrade {
                if !beginning.begin(&service, &link, &log).await {
                    return;
                }
            } else if let Beginning::Stored(Some(document), _) = beginning
                && let Err(faults) = service.restore_whole(document).await
            {
                let details: Vec<String> = faults.0.iter().map(|f| f.detail()).collect();
                let message = format!(
                    "the configuration cannot be applied: {}",
                    details.join("; ")
                );
                return link.tell(&ToMain::Unfit { message });
            }
            control.serve();
            link.tell(&ToMain::Ready);
        }
    });
    let how = wait_for_stop(stop.clone()).await;
    if how == Stop::Retire {
        let stop = stop.clone();
        if retire(stop, &link, (&service, &log), &server, &manager).await {
            exporters.end(LAST_SPANS).await;
            return Ok(());
        }
    }
    let how = wait_for_stop(stop.clone()).await;
    service.stop();
    let drained = end(how, stop, (&service, &log), &server, &manager);
    match how {
        // Main does not wait for long.
        Stop::Quick => drop(tokio::join!(drained, exporters.end(QUICK_STOP))),
        _ => {
            drained.await;
            exporters.end(LAST_SPANS).await;
        }
    }
    Ok(())
}

async fn greeting(link: &Link) -> io::Result<(Hello, OwnedFd, Log)> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let Some((ToRouter::Hello(hello), descriptors)) = link.news().await? else {
        return Err(invalid("main did not greet"));
    };
    let mut descriptors = descriptors.into_iter();
    match (descriptors.next(), descriptors.next()) {
        (Some(control), Some(log)) => {
            // Standard error is where a crash leaves its last words.
            daemon::redirect_stderr(log.as_fd())?;
            Ok((*hello, control, Log::to(log)))
        }
        _ => Err(invalid("main's greeting came without its descriptors")),
    }
}

/// Set to `off`, it leaves the router the rights of its user: for systems where giving them up goes wrong.
const SANDBOX: &str = "TUTTI_SANDBOX";

/// What an attacker who gets into this process would miss. What the kernel cannot do is told, and left.
fn give_up_rights(hello: &Hello, log: &Log) {
    if std::env::var_os(SANDBOX).is_some_and(|value| value == "off") {
        return log.line(
            Level::Warn,
            "the router keeps all rights of its user: TUTTI_SANDBOX is `off`",
        );
    }
    let warn = |error: &io::Error| {
        let text = format!("the router cannot give up rights it does not need: {error}");
        log.line(Level::Warn, &text);
    };
    if let Err(error) = sandbox::drop_capabilities() {
        warn(&error);
    }
    if let Err(error) = process::forbid_new_privileges().and_then(|()| sandbox::forbid_calls()) {
        warn(&error);
    }
    match sandbox::confine_writing(&hello.tmpdir) {
        Ok(true) => {}
        Ok(false) => log.line(
            Level::Info,
            "this kernel has no Landlock: the router may write where its user may",
        ),
        Err(error) => warn(&error),
    }
}

/// A panic is a fault of ours: it belongs in the log with its place.
fn report_panics(log: &Log) {
    let log = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.to_string().replace('\n', " ");
        log.line(Level::Alert, &format!("router: {text}"));
    }));
}

fn thread_count(stored: Option<&Document>, hello: &Hello) -> u32 {
    let configured = stored
        .and_then(|document| tutti_config::validate(document, &context(&hello.modules)).ok())
        .and_then(|config| config.settings.listen_threads);
    configured
        .unwrap_or_else(|| u32::try_from(proc::cpu_count()).unwrap_or(1))
        .max(1)
}

/// Parses what main has stored. What cannot be read is kept aside, and the server starts empty.
fn stored_configuration(link: &Link, hello: &Hello, log: &Log) -> Option<Document> {
    let text = hello.configuration.as_ref()?;
    match tutti_config::parse(text.as_bytes()) {
        Ok(mut document) => {
            document.forget_source();
            Some(document)
        }
        Err(faults) => {
            log.line(
                Level::Alert,
                "the stored configuration cannot be read; starting with an empty one",
            );
            log_faults(log, &faults);
            link.tell(&ToMain::SetAside);
            None
        }
    }
}

fn log_faults(log: &Log, faults: &Diagnostics) {
    for fault in &faults.0 {
        let text = format!("configuration: {}{}", fault.place(), fault.detail());
        log.line(Level::Alert, &text);
    }
}

/// Puts the stored configuration in force. What cannot be served is told; the file stays as it is.
async fn restore(service: &RouterService, log: &Log, document: Document) {
    let problems = service.restore(document).await;
    if !problems.0.is_empty() {
        log.line(
            Level::Alert,
            "the stored configuration cannot be applied whole; the rest is served, see `problems` in /status",
        );
        log_faults(log, &problems);
    }
}

/// Puts in force what the configuration files say now, or nothing.
async fn reload(control: &Control, log: &Log) {
    match control.reload("SIGHUP").await {
        Ok(true) => log.line(Level::Notice, "the configuration files are in force"),
        Ok(false) => log.line(
            Level::Notice,
            "the configuration files say what is in force already",
        ),
        Err(faults) => {
            log.line(
                Level::Alert,
                "the configuration files cannot be used; nothing has changed",
            );
            log_faults(log, &faults);
        }
    }
}

/// Control connections get their answers, also that to the upgrade, within this time.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// How often a router that retires tells what it has counted.
const TOTALS_INTERVAL: Duration = Duration::from_millis(200);

/// Answers what has begun while another router serves; false if a stop comes meanwhile.
///
/// Connections have ten seconds for one more request. Then applications have their `limits.drain_timeout`, and what needs no
/// application has `settings.http.drain_timeout`.
async fn retire(
    mut stop: watch::Receiver<Stop>,
    link: &Link,
    (service, log): (&RouterService, &Log),
    server: &Server,
    manager: &Manager,
) -> bool {
    server.drain_gently();
    let tell = || {
        let totals = service.totals();
        link.tell(&ToMain::Totals { totals });
    };
    let bounded = async {
        tokio::time::sleep(tutti_server::LAST_REQUEST).await;
        manager.begin_drain();
        out_of_time(service, log).await;
    };
    let drained = async {
        tokio::select! {
            _ = async { tokio::join!(server.ended(), tokio::time::sleep(LAST_ANSWERS)) } => {}
            () = bounded => return cut(tell, manager).await,
        }
        tell();
        service.forget();
        // The listeners that went with it hold what they last served by, and with it the applications.
        server.ended().await;
        manager.shutdown(None).await;
    };
    let telling = async {
        loop {
            tell();
            tokio::time::sleep(TOTALS_INTERVAL).await;
        }
    };
    tokio::select! {
        () = drained => true,
        () = telling => true,
        _ = stop.wait_for(|stop| *stop != Stop::Retire) => false,
    }
}

/// Waits until `settings.http.drain_timeout` is over, and says so.
async fn out_of_time(service: &RouterService, log: &Log) {
    let Some(longest) = service.drain_timeout() else {
        return std::future::pending().await;
    };
    tokio::time::sleep(longest).await;
    let left = service.totals();
    let text = format!(
        "`settings.http.drain_timeout` is over: {} connections are closed with what they are at",
        left.active + left.idle
    );
    log.line(Level::Warn, &text);
}

/// Ends what is left: applications first, so that WebSocket clients hear of it; connections end with the process.
async fn cut(tell: impl Fn(), manager: &Manager) {
    let applications = manager.shutdown(Some(Duration::ZERO));
    let _ = tokio::join!(
        tokio::time::timeout(QUICK_STOP, applications),
        tokio::time::sleep(LAST_ANSWERS)
    );
    tell();
}

async fn wait_for_stop(mut stop: watch::Receiver<Stop>) -> Stop {
    match stop.wait_for(|stop| *stop != Stop::No).await {
        Ok(stop) => *stop,
        // Nobody listens to main any more: it has gone.
        Err(_) => Stop::Quick,
    }
}

/// Ends: gracefully first the connections, then the applications; a quick stop may come meanwhile.
async fn end(
    how: Stop,
    mut stop: watch::Receiver<Stop>,
    (service, log): (&RouterService, &Log),
    server: &Server,
    manager: &Manager,
) {
    service.close_listeners();
    server.drain();
    if how == Stop::Graceful {
        manager.begin_drain();
        let graceful = async {
            server.ended().await;
            // The snapshot holds the applications, which end when nobody holds them.
            service.forget();
            manager.shutdown(None).await;
        };
        tokio::select! {
            () = graceful => return,
            () = out_of_time(service, log) => {}
            _ = stop.wait_for(|stop| *stop == Stop::Quick) => {}
        }
    }
    // Connections end with the process. What the applications have not ended by then main ends.
    let _ = tokio::time::timeout(QUICK_STOP, manager.shutdown(Some(Duration::ZERO))).await;
}

/// What main tells without being asked.
struct News {
    link: Arc<Link>,
    log: Log,
    manager: Manager,
    service: RouterService,
    control: Control,
}

impl News {
    async fn handle(self, stop: watch::Sender<Stop>) {
        loop {
            match self.link.news().await {
                Ok(Some((ToRouter::Stop { is_graceful }, _))) => {
                    stop.send_replace(if is_graceful {
                        Stop::Graceful
                    } else {
                        Stop::Quick
                    });
                }
                Ok(Some((ToRouter::Retire, _))) => {
                    // A stop that came before it stays one.
                    stop.send_if_modified(|stop| {
                        let retires = *stop == Stop::No;
                        if retires {
                            *stop = Stop::Retire;
                        }
                        retires
                    });
                }
                Ok(Some((news, descriptors))) => self.take(news, descriptors),
                Ok(None) => return,
                Err(error) => {
                    self.log
                        .line(Level::Alert, &format!("cannot understand main: {error}"));
                    return;
                }
            }
        }
    }

    fn take(&self, news: ToRouter, descriptors: Vec<OwnedFd>) {
        let file = descriptors.into_iter().next();
        match (news, file) {
            (ToRouter::LogReopened, Some(file)) => {
                if let Err(error) = daemon::redirect_stderr(file.as_fd()) {
                    self.log.line(
                        Level::Warn,
                        &format!("cannot redirect standard error: {error}"),
                    );
                }
                self.log.replace(file);
                self.manager.reopen();
            }
            (ToRouter::FileReopened { path }, Some(file)) => self.service.replace_file(&path, file),
            (ToRouter::Freeze, _) => {
                let (service, link) = (self.service.clone(), Arc::clone(&self.link));
                self.control.rest();
                tokio::spawn(async move {
                    service.freeze().await;
                    link.tell(&ToMain::Frozen);
                });
            }
            (ToRouter::Thaw, _) => {
                self.service.thaw();
                self.control.serve();
            }
            (ToRouter::Reload, _) => {
                let (control, log) = (self.control.clone(), self.log.clone());
                tokio::spawn(async move { reload(&control, &log).await });
            }
            (ToRouter::Totals { totals }, _) => self.service.count_others(totals),
            (ToRouter::Exited { pid, status }, _) => {
                let status = match status {
                    Status::Code(code) => ExitStatus::Code(code),
                    Status::Signal(signal) => ExitStatus::Signal(signal),
                };
                self.manager.process_exited(pid, status);
            }
            _ => {}
        }
    }
}
