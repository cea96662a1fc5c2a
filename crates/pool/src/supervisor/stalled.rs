//! Finds processes that do nothing any more, and replaces them.
//!
//! An `impl` block of [`Supervisor`]. Called by the watchdog of the server periodically, and by the supervisor itself while a request has
//! waited for long. A process held by a debugger is left alone.

use std::time::{Duration, Instant};

use tutti_sys::proc;

use super::Supervisor;
use super::stopped::{INTERVAL, REAPED_WITHIN, SUSPICIOUS, note};
use super::worker::SIGKILL;
use crate::launcher::{AppProcess, Level, ProcessExit};
use crate::runtime::now;

impl Supervisor {
    /// Called by the watchdog; a process stopped for `limit` is killed.
    pub(super) fn watch(&mut self, limit: Duration) {
        self.stopped.limit = Some(limit);
        self.look_for_stopped(now());
    }

    /// Checks for stopped processes if a request has waited for long.
    pub(super) fn suspect_stopped(&mut self, waited: Duration, now: Instant) {
        let looked = self.stopped.looked;
        if waited >= SUSPICIOUS && looked.is_none_or(|last| now >= last + INTERVAL) {
            self.look_for_stopped(now);
        }
    }

    fn look_for_stopped(&mut self, now: Instant) {
        self.stopped.looked = Some(now);
        let (mut stopped, mut dead) = (Vec::new(), Vec::new());
        for AppProcess { pid, .. } in self.table.processes() {
            match proc::stat(pid).map(|stat| stat.state) {
                Ok('T') if !proc::is_traced(pid) => stopped.push(pid),
                Ok('Z') => dead.push(pid),
                _ => {}
            }
        }
        for pid in note(&mut self.stopped.stopped, &stopped, now) {
            self.log_stopped(pid);
        }
        note(&mut self.stopped.dead, &dead, now);
        self.kill_stopped(now);
        self.bury_dead(now);
    }

    fn log_stopped(&self, pid: i32) {
        let name = self.app.name();
        let end = match self.stopped.limit {
            Some(limit) => format!(
                "it is killed unless it continues within {} seconds",
                limit.as_secs()
            ),
            None => "send it SIGCONT to continue".to_owned(),
        };
        let text = format!("\"{name}\" process {pid} is stopped by a signal; {end}");
        self.log(Level::Warn, &text);
    }

    /// Kills processes that have been stopped for too long. Their ends are reported as usual.
    fn kill_stopped(&mut self, now: Instant) {
        let Some(limit) = self.stopped.limit else {
            return;
        };
        let stopped = &self.stopped.stopped;
        let is_overdue = |since: &Instant| now >= *since + limit;
        let overdue = self.table.processes();
        let overdue = overdue.filter(|process| stopped.get(&process.pid).is_some_and(is_overdue));
        for process in overdue {
            let (name, pid) = (self.app.name(), process.pid);
            let text = format!(
                "\"{name}\" process {pid} has been stopped by a signal for {} seconds; it is killed, and another started",
                limit.as_secs()
            );
            self.log(Level::Alert, &text);
            self.context.launcher.kill(process, SIGKILL);
        }
    }

    /// Handles the ends of workers that their prototypes do not report, and ends those prototypes.
    fn bury_dead(&mut self, now: Instant) {
        let dead = self.stopped.dead.iter();
        let unreported = dead.filter(|(_, since)| now >= **since + REAPED_WITHIN);
        let unreported: Vec<i32> = unreported.map(|(pid, _)| *pid).collect();
        let is_unreported = |pid: Option<i32>| pid.is_some_and(|pid| unreported.contains(&pid));
        let workers = self.table.workers.iter();
        let lost = workers.filter(|worker| is_unreported(worker.pid));
        let lost: Vec<(u64, u32)> = lost
            .map(|worker| (worker.prototype, worker.number))
            .collect();
        for (serial, number) in lost {
            let prototype = self.table.prototype(serial);
            let prototype = prototype.filter(|prototype| prototype.is_alive());
            if let Some(pid) = prototype.and_then(|prototype| prototype.pid) {
                let name = self.app.name();
                let text = format!(
                    "\"{name}\" prototype process {pid} does not reap its processes; it is killed, and another started"
                );
                self.log(Level::Alert, &text);
                let prototype = AppProcess::prototype(pid);
                self.context.launcher.kill(prototype, SIGKILL);
            }
            self.worker_exited(serial, number, ProcessExit::Unknown);
        }
    }
}
