//! `tutti stop`: stops a running server, and waits until it has ended.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::client::ControlClient;
use super::control_address::ControlArguments;
use super::report::{CommandError, say};
use super::style;

/// Interval between checks whether a server on another machine still runs.
const INTERVAL: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct StopArguments {
    /// Abort the requests in progress, instead of waiting until they are answered
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    control: ControlArguments,
}

pub(crate) fn run(arguments: &StopArguments) -> Result<ExitCode, CommandError> {
    let client = ControlClient::new(&arguments.control)?;
    // Before the request: afterwards another process could have its id.
    let process = client.server_process();
    let path = match arguments.quick {
        true => "/control/stop/quick",
        false => "/control/stop",
    };
    client.call("POST", path, None, None)?.succeeded(None)?;
    match process {
        Some(process) => tutti_sys::process::await_end(&process).map_err(|error| {
            CommandError::new(format!("cannot wait for the server's end: {error}"))
        })?,
        None => {
            while client.is_there() {
                std::thread::park_timeout(INTERVAL);
            }
        }
    }
    say(&format!("{} the server has stopped", style::good("done:")));
    Ok(ExitCode::SUCCESS)
}
