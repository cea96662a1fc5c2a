//! The router role: unprivileged, parses everything, starts nothing itself.
//!
//! One control thread, with the socket to main and the pool's manager; and the listen threads of `tutti-server`. What must never happen:
//! that it accesses a file or process that main could access for it, or that a failed change of configuration leaves any effect.

#![forbid(unsafe_code)]

mod cache_files;
mod certificate_requests;
mod changes;
mod clock_watch;
mod commands;
mod daemon_log;
mod fleet;
mod guard_files;
mod guard_watch;
mod job_refusals;
mod jobs;
mod launcher;
mod limits;
mod line;
mod metrics;
mod missing;
mod opening;
mod passed_jobs;
mod problems;
mod queries;
mod restore;
mod service;
mod status;
mod stored;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tutti_config::Document;
use tutti_config::model::{Http, LiveNodes};
use tutti_jobs::Jobs;
use tutti_log::Level;
use tutti_log::Log;
use tutti_pool::{Manager, ProcessExit, ThreadWakers};
use tutti_protocol::{ExitReport, FromRouter, RouterHello, ToRouter};
use tutti_server::{FileWanted, Nodes, Scrape, Server, StartOptions, status_address};
use tutti_sys::{daemon, log_stream, proc};
use tutti_telemetry::Exporters;
use tutti_unprivileged::certificates::Certificates;
use tutti_unprivileged::start;
use tutti_unprivileged::{context, js_modules, own_log};

use self::changes::Changes;
use self::daemon_log::Sink;
use self::jobs::Around;
use self::launcher::MainLauncher;
use self::line::Link;
use self::service::{Parts, RouterService};

/// Time that applications get at a quick stop before main kills the rest.
const QUICK_STOP: Duration = Duration::from_millis(1500);

/// Time that deliveries in progress get when another router takes over, before that one gets the jobs; new jobs wait meanwhile.
const LAST_DELIVERIES: Duration = Duration::from_secs(2);

/// Longest time to send the last spans when a router ends gracefully.
const LAST_SPANS: Duration = Duration::from_secs(5);

/// Longest time to write the last buffered lines of logs.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The kind of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    Graceful,
    Quick,
    /// Another router serves.
    Retire,
}

/// Runs until main orders the end.
pub fn run() -> ExitCode {
    let code = start::run("router", serve);
    log_stream::finish(LAST_LINES);
    code
}

/// The whole router, in one function.
async fn serve(socket: OwnedFd) -> io::Result<()> {
    let link = Arc::new(Link::new(socket)?);
    let (hello, log) = greeting(&link).await?;
    start::report_panics("router", &log);
    start::give_up_rights("router", Some(&hello.tmpdir), &log);
    tokio::spawn({
        let link = Arc::clone(&link);
        async move { link.write_waiting().await }
    });
    let status = &hello.status;
    status_address::set(status.control.clone(), status.file, &status.name)?;
    let document = configuration(&hello)?;
    let count = thread_count(document.as_ref(), &hello);
    let threads = ThreadWakers::new(count)?;
    let sink = Arc::new(Sink(log.clone()));
    let (scrapes, asked) = mpsc::unbounded_channel();
    let (posts, posted) = mpsc::unbounded_channel();
    let (files, wanted) = mpsc::unbounded_channel();
    let (reported, nodes, needed) = nodes_of_the_fleet();
    let server = Arc::new(Server::start(StartOptions {
        threads: Arc::clone(&threads),
        log: sink.clone(),
        scrapes,
        posts,
        files,
        nodes,
    })?);
    let commands = commands::new(&link, &sink);
    let jobs = Jobs::new(Around {
        server: Arc::clone(&server),
        commands: commands.clone(),
        log: log.clone(),
        link: Arc::clone(&link),
    });
    tokio::spawn(jobs::store(jobs.clone(), Arc::clone(&link), posted));
    let launcher = MainLauncher {
        link: Arc::clone(&link),
        modules: hello.modules.clone(),
    };
    let manager = Manager::new(Arc::new(launcher), sink, threads);
    let exporters = exporters(log.clone());
    let service = RouterService::new(Parts {
        link: Arc::clone(&link),
        log: log.clone(),
        modules: hello.modules.clone(),
        tmpdir: hello.tmpdir.clone(),
        quic: hello.quic.clone(),
        server: Arc::clone(&server),
        manager: manager.clone(),
        exporters: exporters.clone(),
        jobs: jobs.clone(),
        commands: commands.clone(),
        // The controller has reported those that cannot be used.
        certificates: Certificates::read(&hello.certificates, None),
        js_modules: js_modules::read(&hello.js_modules),
        threads: count,
    });
    service.take_challenges(&hello.challenges);
    service.begin_in_fleet(&hello, document.as_ref());
    spawn_watches(&service, &jobs, asked, (wanted, needed));
    if let Some(seconds) = hello.watchdog {
        tokio::spawn(watch_processes(
            manager.clone(),
            Duration::from_secs(seconds),
        ));
    }
    let (stop_sender, stop) = watch::channel(Stop::No);
    let news = News {
        link: Arc::clone(&link),
        log: log.clone(),
        manager: manager.clone(),
        service: service.clone(),
        changes: Changes::new(service.clone(), Arc::clone(&link)),
        nodes: reported,
    };
    tokio::spawn(news.handle(stop_sender));
    let beginning = (service.clone(), Arc::clone(&link));
    tokio::spawn(begin_serving(beginning, document, hello.is_upgrade));
    let how = wait_for_stop(stop.clone()).await;
    if how == Stop::Retire {
        let (stop, link) = (stop.clone(), &link);
        let resting = rest(&jobs, &server, LAST_DELIVERIES, how);
        if retire(stop, link, (&service, &log), &server, &manager).await {
            let _ = resting.await;
            exporters.end(LAST_SPANS).await;
            return Ok(());
        }
    }
    stop_serving(
        stop,
        (&service, &log),
        (&server, &manager),
        &jobs,
        &exporters,
    )
    .await;
    Ok(())
}

/// Waits for the order to stop, and ends everything in time.
async fn stop_serving(
    stop: watch::Receiver<Stop>,
    (service, log): (&RouterService, &Log),
    (server, manager): (&Server, &Manager),
    jobs: &Jobs,
    exporters: &Exporters,
) {
    let how = wait_for_stop(stop.clone()).await;
    service.stop();
    let longest = match how {
        Stop::Quick => Duration::ZERO,
        _ => service
            .drain_timeout(Http::STOP_TIME)
            .unwrap_or(Duration::MAX),
    };
    let resting = rest(jobs, server, longest, how);
    let drained = end(how, stop, (service, log), server, manager);
    match how {
        // Main does not wait for long.
        Stop::Quick => drop(tokio::join!(drained, end_quickly(exporters, resting))),
        _ => {
            drained.await;
            exporters.end(LAST_SPANS).await;
            // Without connections, no delivery is in progress any more.
            let _ = resting.await;
        }
    }
}

/// Makes the channels for the nodes of the fleet: for main's reports, for the server, and for the server's request to get them.
fn nodes_of_the_fleet() -> (watch::Sender<LiveNodes>, Nodes, mpsc::UnboundedReceiver<()>) {
    let (reported, known) = watch::channel(LiveNodes::default());
    let (wanted, needed) = mpsc::unbounded_channel();
    (reported, Nodes { known, wanted }, needed)
}

/// Sends the last spans and writes the last responses to disk, within a short time.
async fn end_quickly(exporters: &Exporters, resting: JoinHandle<()>) {
    let written = tokio::time::timeout(QUICK_STOP, resting);
    // The rest is lost.
    let _ = tokio::join!(exporters.end(QUICK_STOP), written);
}

/// Releases the files on disk: of jobs when their deliveries have ended, or after `longest`; of caches when the responses in memory are
/// written.
fn rest(jobs: &Jobs, server: &Server, longest: Duration, how: Stop) -> JoinHandle<()> {
    let (jobs, caches) = (jobs.clone(), server.rest_caches());
    tokio::spawn(async move {
        tokio::join!(jobs.rest(longest, how == Stop::Retire), caches);
    })
}

fn exporters(log: Log) -> Exporters {
    Exporters::new(move |line| log.line(Level::Warn, line))
}

/// Begins with the configuration from main, and reports the result.
async fn begin_serving(
    (service, link): (RouterService, Arc<Link>),
    document: Option<Document>,
    is_upgrade: bool,
) {
    link.send(&begin(&service, document, is_upgrade).await);
    service.release_caches_later();
}

/// Puts the configuration in force that main sent; returns the message for main.
async fn begin(
    service: &RouterService,
    document: Option<Document>,
    is_upgrade: bool,
) -> FromRouter {
    match document {
        None => {}
        Some(document) if is_upgrade => {
            if let Err(faults) = service.restore_whole(document).await {
                let details: Vec<String> = faults.0.iter().map(|f| f.detail()).collect();
                let message = format!(
                    "the configuration cannot be applied: {}",
                    details.join("; ")
                );
                return FromRouter::Unfit { message };
            }
        }
        Some(document) => service.restore(document).await,
    }
    FromRouter::Ready
}

async fn greeting(link: &Link) -> io::Result<(RouterHello, Log)> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let Some((ToRouter::Hello(hello), descriptors)) = link.news().await? else {
        return Err(invalid("main sent no first message"));
    };
    match descriptors.into_iter().next() {
        Some(log) => {
            // A crash is reported on standard error.
            daemon::redirect_stderr(log.as_fd())?;
            let log = Log::of_threads(log, &hello.log, "router");
            Ok((*hello, log))
        }
        None => Err(invalid("main's first message had no descriptor")),
    }
}

/// The configuration to serve, which the controller has parsed before.
fn configuration(hello: &RouterHello) -> io::Result<Option<Document>> {
    let Some(text) = &hello.configuration else {
        return Ok(None);
    };
    let mut document = tutti_config::parse(text.as_bytes())
        .map_err(|faults| io::Error::new(io::ErrorKind::InvalidData, faults.to_string()))?;
    document.forget_source();
    Ok(Some(document))
}

fn thread_count(stored: Option<&Document>, hello: &RouterHello) -> u32 {
    let configured = stored
        .and_then(|document| tutti_config::validate(document, &context(&hello.modules)).ok())
        .and_then(|config| config.settings.listen_threads);
    configured
        .unwrap_or_else(|| u32::try_from(proc::cpu_count()).unwrap_or(1))
        .max(1)
}

/// Time that clients get to receive pending answers.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Interval at which a router that retires reports its counts.
const TOTALS_INTERVAL: Duration = Duration::from_millis(200);

/// Answers requests in progress while another router serves; false if a stop comes meanwhile.
///
/// Connections have ten seconds for one more request. Then applications have their `limits.drain_timeout`, and everything else has
/// `settings.http.drain_timeout`.
async fn retire(
    mut stop: watch::Receiver<Stop>,
    link: &Link,
    (service, log): (&RouterService, &Log),
    server: &Server,
    manager: &Manager,
) -> bool {
    server.drain_gently();
    let report = || {
        let totals = service.totals();
        link.send(&FromRouter::Totals { totals });
    };
    let bounded = async {
        tokio::time::sleep(tutti_server::LAST_REQUEST).await;
        manager.begin_drain();
        out_of_time(service, log, Http::UPGRADE_TIME).await;
    };
    let commands = &service.0.commands;
    commands.stop_mules();
    let requests = async {
        tokio::select! {
            _ = async { tokio::join!(server.ended(), tokio::time::sleep(LAST_ANSWERS)) } => {}
            () = bounded => return cut(report, server, manager).await,
        }
        report();
        service.forget();
        // The closed listeners hold the last configuration they served, and with it the applications.
        server.ended().await;
        manager.shutdown(None).await;
    };
    // Runs of commands have their own timeout, and the next router is notified of their end.
    let runs = async {
        commands.ended().await;
        service.0.jobs.commands_noted().await;
    };
    let drained = async { tokio::join!(requests, runs) };
    let report_totals = async {
        loop {
            report();
            tokio::time::sleep(TOTALS_INTERVAL).await;
        }
    };
    tokio::select! {
        _ = drained => true,
        () = report_totals => true,
        _ = stop.wait_for(|stop| *stop != Stop::Retire) => false,
    }
}

/// Waits until `settings.http.drain_timeout` has passed, and logs that.
async fn out_of_time(service: &RouterService, log: &Log, unless_given: Duration) {
    let Some(longest) = service.drain_timeout(unless_given) else {
        return std::future::pending().await;
    };
    tokio::time::sleep(longest).await;
    let left = service.totals();
    let text = format!(
        "`settings.http.drain_timeout` is over: {} connections are closed with requests in progress",
        left.active + left.idle
    );
    log.line(Level::Warn, &text);
}

/// Ends the rest: WebSocket clients get a close frame, then applications end; connections end with the process.
async fn cut(report: impl Fn(), server: &Server, manager: &Manager) {
    server.cut();
    let _ = tokio::time::timeout(LAST_ANSWERS, server.farewells_said()).await;
    let applications = manager.shutdown(Some(Duration::ZERO));
    let _ = tokio::join!(
        tokio::time::timeout(QUICK_STOP, applications),
        tokio::time::sleep(LAST_ANSWERS)
    );
    report();
}

async fn wait_for_stop(mut stop: watch::Receiver<Stop>) -> Stop {
    match stop.wait_for(|stop| *stop != Stop::No).await {
        Ok(stop) => *stop,
        // The sender has been dropped: main has ended.
        Err(_) => Stop::Quick,
    }
}

/// Ends: gracefully, first the connections, then the applications; a quick stop may come meanwhile.
async fn end(
    how: Stop,
    mut stop: watch::Receiver<Stop>,
    (service, log): (&RouterService, &Log),
    server: &Server,
    manager: &Manager,
) {
    let commands = &service.0.commands;
    // In this order: a connection that must end gives its client time for one more request only if the server ends.
    server.drain();
    service.close_listeners();
    commands.stop_mules();
    if how == Stop::Graceful {
        manager.begin_drain();
        let graceful = async {
            server.ended().await;
            // The snapshot holds the applications, which end when it is dropped. The listener for jobs ends with it, and holds the last
            // configuration it served.
            service.forget();
            server.ended().await;
            tokio::join!(manager.shutdown(None), commands.ended());
        };
        tokio::select! {
            () = graceful => return,
            () = out_of_time(service, log, Http::STOP_TIME) => {}
            _ = stop.wait_for(|stop| *stop == Stop::Quick) => {}
        }
    }
    // Connections that are only passed on are closed and logged.
    server.cut();
    // Other connections end with the process, perhaps at once: WebSocket clients have got their close frames. Main ends the remaining processes
    // of applications.
    let _ = tokio::time::timeout(LAST_ANSWERS, server.farewells_said()).await;
    commands.stop_runs();
    let all = async { tokio::join!(manager.shutdown(Some(Duration::ZERO)), commands.ended()) };
    let _ = tokio::time::timeout(QUICK_STOP, all).await;
}

/// Spawns the tasks that run as long as the router: schedules, checks of secret files, and answers to requests for metrics, files or the
/// nodes of the fleet.
fn spawn_watches(
    service: &RouterService,
    jobs: &Jobs,
    asked: mpsc::UnboundedReceiver<Scrape>,
    (wanted, needed): (
        mpsc::UnboundedReceiver<FileWanted>,
        mpsc::UnboundedReceiver<()>,
    ),
) {
    tokio::spawn(jobs.clone().run_schedules());
    tokio::spawn(guard_watch::watch(service.clone()));
    tokio::spawn(clock_watch::watch(service.clone()));
    tokio::spawn(service.clone().answer_scrapes(asked));
    tokio::spawn(service.clone().read_files(wanted));
    tokio::spawn(service.clone().follow_nodes(needed));
}

/// Checks of the watchdog within its limit, as in main.
const LOOKS: u32 = 6;

/// Has applications check for stopped processes, as long as the router runs.
async fn watch_processes(manager: Manager, limit: Duration) {
    loop {
        tokio::time::sleep(limit / LOOKS).await;
        manager.watch(limit);
    }
}

/// Receives main's unsolicited messages.
struct News {
    link: Arc<Link>,
    log: Log,
    manager: Manager,
    service: RouterService,
    changes: Changes,
    nodes: watch::Sender<LiveNodes>,
}

impl News {
    async fn handle(mut self, stop: watch::Sender<Stop>) {
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
                    // An earlier stop is not overridden.
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
                    self.log.line(
                        Level::Alert,
                        &format!("cannot parse a message from main: {error}"),
                    );
                    return;
                }
            }
        }
    }

    fn take(&mut self, news: ToRouter, descriptors: Vec<OwnedFd>) {
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
            (ToRouter::LogReopened, None) => self.log.line(Level::Alert, own_log::NOT_REOPENED),
            (ToRouter::FileReopened { path }, Some(file)) => self.service.replace_file(&path, file),
            (ToRouter::FileReopened { path }, None) => {
                let text = format!("`{}`: {}", path.display(), own_log::NOT_REOPENED);
                self.log.line(Level::Alert, &text);
            }
            (ToRouter::Prepare { number, change }, _) => self.changes.prepare(number, change),
            (ToRouter::Commit { number }, _) => self.changes.commit(number),
            (ToRouter::Abandon { number }, _) => self.changes.abandon(number),
            (ToRouter::Ask { number, question }, _) => {
                let (service, link) = (self.service.clone(), Arc::clone(&self.link));
                tokio::spawn(async move {
                    let (answer, descriptors) = service.answer(question).await;
                    link.give(
                        &FromRouter::Told {
                            number,
                            told: answer,
                        },
                        descriptors,
                    );
                });
            }
            (ToRouter::Freeze, _) => {
                let (service, link) = (self.service.clone(), Arc::clone(&self.link));
                tokio::spawn(async move {
                    service.freeze().await;
                    link.send(&FromRouter::Frozen);
                });
            }
            (ToRouter::Thaw, _) => self.service.thaw(),
            (ToRouter::Probe { number }, _) => {
                let (answers, link) = (self.service.threads_answer(), Arc::clone(&self.link));
                tokio::spawn(async move {
                    answers.await;
                    link.send(&FromRouter::Alive { number });
                });
            }
            (
                ToRouter::JobDelivered {
                    spooler,
                    job,
                    error,
                },
                _,
            ) => self.service.0.jobs.delivered_before(spooler, job, error),
            (ToRouter::TakeJob, Some(stream)) => {
                tokio::spawn(passed_jobs::take(self.service.0.jobs.clone(), stream));
            }
            (ToRouter::Nodes { known }, _) => {
                self.nodes.send_replace(known);
            }
            (ToRouter::Totals { totals }, _) => self.service.count_others(totals),
            (ToRouter::Exited { pid, status }, _) => {
                let status = match status {
                    ExitReport::Code(code) => ProcessExit::Code(code),
                    ExitReport::Signal(signal) => ProcessExit::Signal(signal),
                };
                self.manager.process_exited(pid, status);
            }
            _ => {}
        }
    }
}
