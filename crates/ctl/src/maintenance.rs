//! `tutti maintenance`: starts and ends maintenance.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::client::ControlClient;
use super::control_address::ControlArguments;
use super::report::{CommandError, say};
use super::style;

#[derive(Args)]
pub(crate) struct MaintenanceArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Start maintenance: requests get 503 until it ends, even after a restart of the server
    On(OnArguments),
    /// End maintenance: requests are served again
    Off {
        #[command(flatten)]
        control: ControlArguments,
    },
}

#[derive(Args)]
struct OnArguments {
    /// When clients should try again, in seconds; 0: leave it out
    #[arg(long, value_name = "SECONDS")]
    retry_after: Option<u32>,
    /// File with the page for clients
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Address or network to serve as usual; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    except: Vec<String>,
    #[command(flatten)]
    control: ControlArguments,
}

pub(crate) fn run(arguments: &MaintenanceArguments) -> Result<ExitCode, CommandError> {
    let (control, method, body) = match &arguments.action {
        Action::On(on) => (&on.control, "PUT", Some(options(on)?)),
        Action::Off { control } => (control, "DELETE", None),
    };
    let client = ControlClient::new(control)?;
    let body = body.as_ref().map(String::as_bytes);
    let answer = client.call(method, "/control/maintenance", body, None)?;
    answer.succeeded(body.map(|body| ("maintenance", body)))?;
    let text = match body {
        Some(_) => "requests get 503; `tutti maintenance off` ends it",
        None => "requests are served again",
    };
    say(&format!("{} {text}", style::good("done:")));
    Ok(ExitCode::SUCCESS)
}

fn options(on: &OnArguments) -> Result<String, CommandError> {
    let mut options = json!({});
    if let Some(seconds) = on.retry_after {
        options["retry_after"] = seconds.into();
    }
    if let Some(page) = &on.page {
        // The server has another working directory.
        let page = std::path::absolute(page);
        let page =
            page.map_err(|error| CommandError::new(format!("cannot find the page: {error}")))?;
        options["page"] = page.to_string_lossy().into();
    }
    if !on.except.is_empty() {
        options["except"] = on.except.clone().into();
    }
    Ok(options.to_string())
}
