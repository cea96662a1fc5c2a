//! `tutti jobs`: failed jobs of spoolers.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use tutti_metrics::status_value::{plural, time};
use tutti_options::visible;

use super::client::{ControlClient, ControlResponse, encode};
use super::control_address::ControlArguments;
use super::report::{CommandError, say, write};
use super::style;

#[derive(Args)]
pub(crate) struct JobsArguments {
    #[command(subcommand)]
    command: JobsCommand,
}

#[derive(Subcommand)]
enum JobsCommand {
    /// List failed jobs: number, request, attempts, and why the last one failed
    List {
        /// Name of the spooler [default: all]
        spooler: Option<String>,
        /// Print JSON: an object with a list for each spooler
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Retry failed jobs, with a new series of attempts
    Retry {
        /// Name of the spooler
        spooler: String,
        /// Number of the job [default: all of the spooler]
        job: Option<String>,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Remove failed jobs
    Delete {
        /// Name of the spooler
        spooler: String,
        /// Number of the job
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        job: Option<String>,
        /// All failed jobs
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Remove the remaining jobs of a spooler that is no longer in the configuration
    Discard {
        /// Name of the spooler
        spooler: String,
        #[command(flatten)]
        control: ControlArguments,
    },
}

pub(crate) fn run(arguments: &JobsArguments) -> Result<ExitCode, CommandError> {
    match &arguments.command {
        JobsCommand::List {
            spooler,
            json,
            control,
        } => list(spooler.as_deref(), *json, &ControlClient::new(control)?),
        JobsCommand::Retry {
            spooler,
            job,
            control,
        } => {
            let path = match job {
                Some(job) => format!("failed/{}/retry", encode(job)),
                None => "retry".to_owned(),
            };
            order("POST", spooler, &path, &ControlClient::new(control)?)
        }
        JobsCommand::Delete {
            spooler,
            job,
            control,
            ..
        } => {
            let path = match job {
                Some(job) => format!("failed/{}", encode(job)),
                None => "failed".to_owned(),
            };
            order("DELETE", spooler, &path, &ControlClient::new(control)?)
        }
        JobsCommand::Discard { spooler, control } => {
            order("DELETE", spooler, "jobs", &ControlClient::new(control)?)
        }
    }
}

/// Sends a request below a spooler's path.
fn ask(
    method: &str,
    spooler: &str,
    path: &str,
    client: &ControlClient,
) -> Result<ControlResponse, CommandError> {
    let path = format!("/control/spoolers/{}/{path}", encode(spooler));
    let answer = client.call(method, &path, None, None)?;
    if answer.status == 404 {
        let message = match path.rsplit_once("/failed/") {
            _ if path.ends_with("/jobs") => {
                format!("no spooler `{spooler}` that was removed from the configuration has jobs")
            }
            Some((_, job)) => {
                let job = job.trim_end_matches("/retry");
                format!("the spooler `{spooler}` has no failed job `{job}`")
            }
            None => format!("there is no spooler `{spooler}`"),
        };
        return Err(CommandError::new(message)
            .hint("`tutti status` lists the spoolers, `tutti jobs list` their jobs"));
    }
    answer.succeeded(None)?;
    Ok(answer)
}

/// Carries out a task, and prints the result.
fn order(
    method: &str,
    spooler: &str,
    path: &str,
    client: &ControlClient,
) -> Result<ExitCode, CommandError> {
    let done = ask(method, spooler, path, client)?.json()?;
    let done = done.get("success").and_then(Value::as_str);
    say(&format!("{} {}", style::good("done:"), done.unwrap_or("")));
    Ok(ExitCode::SUCCESS)
}

fn list(
    spooler: Option<&str>,
    json: bool,
    client: &ControlClient,
) -> Result<ExitCode, CommandError> {
    let names = match spooler {
        Some(name) => vec![name.to_owned()],
        None => spoolers(client)?,
    };
    let mut lists = Map::new();
    for name in names {
        let jobs = ask("GET", &name, "failed", client)?.json()?;
        lists.insert(name, jobs);
    }
    if json {
        return write(format!("{:#}\n", Value::Object(lists)).as_bytes());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let mut lines = Vec::new();
    for (name, jobs) in &lists {
        let jobs = jobs.as_array().map(Vec::as_slice).unwrap_or_default();
        lines.extend(jobs.iter().flat_map(|job| line(name, job, now)));
    }
    if lines.is_empty() {
        lines.push(style::quiet("there are no failed jobs"));
    }
    lines.iter().for_each(|line| say(line));
    Ok(ExitCode::SUCCESS)
}

/// Returns the spoolers of the configuration, and those removed from it that still have jobs.
fn spoolers(client: &ControlClient) -> Result<Vec<String>, CommandError> {
    let answer = client.call("GET", "/status", None, None)?;
    answer.succeeded(None)?;
    let status = answer.json()?;
    let spoolers = status.get("spoolers").and_then(Value::as_object);
    Ok(spoolers.map_or_else(Vec::new, |spoolers| spoolers.keys().cloned().collect()))
}

/// Describes a job in two lines.
fn line(spooler: &str, job: &Value, now: u64) -> [String; 2] {
    let text = |name| {
        let text = job.get(name).and_then(Value::as_str).unwrap_or_default();
        visible(text)
    };
    let number = |name| job.get(name).and_then(Value::as_u64).unwrap_or_default();
    let attempts = number("attempts");
    let since = time(now.saturating_sub(number("failed")));
    [
        format!(
            "{} {}  {} {}",
            style::strong(&visible(spooler)),
            text("id"),
            text("method"),
            text("target")
        ),
        format!(
            "    {} {}",
            style::quiet(&format!(
                "{since} ago, after {}:",
                plural(attempts, "attempt")
            )),
            text("error")
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::line;

    #[test]
    fn a_job_is_shown_with_characters_that_a_terminal_takes() {
        let job = json!({"id": "00000000000000ff", "method": "POST", "target": "/mail?n=1", "attempts": 1, "failed": 940, "error": "no\u{1b}[2J answer"});
        let text = line("mail", &job, 1000);
        assert_eq!(
            text,
            [
                "mail 00000000000000ff  POST /mail?n=1",
                "    1 minute ago, after 1 attempt: no·[2J answer"
            ]
        );
    }
}
