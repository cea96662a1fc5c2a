//! `tutti metrics`: the metrics of a running server.

use std::process::ExitCode;

use clap::Args;

use super::client::ControlClient;
use super::control_address::ControlArguments;
use super::report::{CommandError, write};

#[derive(Args)]
pub(crate) struct MetricsArguments {
    /// Print OpenMetrics instead of the Prometheus text format
    #[arg(long)]
    openmetrics: bool,
    #[command(flatten)]
    control: ControlArguments,
}

pub(crate) fn run(arguments: &MetricsArguments) -> Result<ExitCode, CommandError> {
    let accept = match arguments.openmetrics {
        true => "application/openmetrics-text; version=1.0.0",
        false => "text/plain; version=0.0.4",
    };
    let answer = ControlClient::new(&arguments.control)?.read("/metrics", accept)?;
    answer.succeeded(None)?;
    write(&answer.body)
}
