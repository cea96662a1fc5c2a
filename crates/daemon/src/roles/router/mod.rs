//! The router role: unprivileged, parses everything, starts nothing itself.
//!
//! One control thread, with the line to main, the control API and the pool's manager; and the listen threads of
//! `tutti-server`. What must never happen: that it touches a file or process it could have main touch, or that a
//! failed change of configuration leaves a trace.

mod launcher;
mod link;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use tutti_pool::Level;
use tutti_sys::spawn::inherited;

use crate::log::Log;
use crate::protocol::{ROUTER_SOCKET, ToMain, ToRouter};
use crate::roles::router::link::Link;

/// Runs until main says stop.
pub(crate) fn run() -> ExitCode {
    match run_inner() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(io::stderr(), "tutti: router: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_inner() -> io::Result<()> {
    let socket = inherited(ROUTER_SOCKET)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let link = Arc::new(Link::new(socket)?);
        let writer = Arc::clone(&link);
        tokio::spawn(async move { writer.write_waiting().await });
        let Some((ToRouter::Hello(hello), descriptors)) = link.news().await? else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "main did not greet",
            ));
        };
        let mut descriptors = descriptors.into_iter();
        let (Some(_control), Some(log)) = (descriptors.next(), descriptors.next()) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "main's greeting came without its descriptors",
            ));
        };
        let log = Log::to(log);
        log.line(Level::Debug, &format!("{} modules", hello.modules.len()));
        link.tell(&ToMain::Ready);
        while let Some((news, _)) = link.news().await? {
            if let ToRouter::Stop { .. } = news {
                break;
            }
        }
        Ok(())
    })
}
