//! Reopens logs after they have been rotated (SIGUSR1).
//!
//! `impl` blocks of [`Supervisor`]. Every file passes the same checks as when it was first opened: the folder may
//! belong to another user, and a link may have been put in the file's place.

use std::io;
use std::os::fd::AsFd;

use tutti_log as log;
use tutti_log::Level;
use tutti_protocol::{ToController, ToRouter};
use tutti_sys::daemon;

use super::supervisor::Supervisor;

impl Supervisor {
    pub(super) fn reopen_logs(&mut self) {
        if let Err(error) = self.reopen_own_log() {
            self.log(Level::Alert, &error.to_string());
        }
        for path in &self.holdings.files {
            let routers = self.routers.all_mut().chain(self.life.next_router_mut());
            let mut routers = routers.collect::<Vec<_>>();
            let reopened = log::open_configured(path).and_then(|file| {
                routers.iter_mut().try_for_each(|router| {
                    let news = ToRouter::FileReopened { path: path.clone() };
                    router.send(&news, vec![file.try_clone()?])
                })
            });
            if let Err(error) = reopened {
                self.instance.log.line(Level::Alert, &error.to_string());
            }
        }
        self.log(Level::Notice, "logs reopened");
    }

    /// Even without its own log file, main notifies the router, for the files that applications write to.
    fn reopen_own_log(&mut self) -> io::Result<()> {
        if let Some(path) = &self.instance.places.log {
            self.instance.log.replace(log::open(path)?);
            if self.instance.is_daemon {
                daemon::redirect_stderr(self.instance.log.descriptor()?.as_fd())?;
            }
        }
        let log = self.instance.log.clone();
        let next = self.life.next_controller_mut();
        for controller in self.controllers.all_mut().chain(next) {
            let news = ToController::LogReopened;
            controller.process.send(&news, vec![log.descriptor()?])?;
        }
        self.reopen_log_of_acme()?;
        self.reopen_log_of_fleet()?;
        for router in self.routers.all_mut().chain(self.life.next_router_mut()) {
            router.send(&ToRouter::LogReopened, vec![log.descriptor()?])?;
        }
        Ok(())
    }
}
