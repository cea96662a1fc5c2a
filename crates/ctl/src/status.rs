//! `tutti status`: what a running server is doing, as tables or as JSON, once or repeatedly.

mod limits;
pub(super) mod page;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use tutti_options::visible_value;

use super::client::{ControlClient, ControlResponse, encode};
use super::control_address::ControlArguments;
use super::report::{CommandError, say, unwritten, write};
use super::wrap::columns;

/// Moves the cursor to the top left and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[J";

#[derive(Args)]
pub(crate) struct StatusArguments {
    /// Show only this application, in full detail
    #[arg(conflicts_with = "watch")]
    application: Option<String>,
    /// Print the JSON of `/status`
    #[arg(long)]
    json: bool,
    /// Refresh every so many seconds, until interrupted; with --json, print one line each time
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2",
          value_parser = clap::value_parser!(u16).range(1..))]
    watch: Option<u16>,
    #[command(flatten)]
    control: ControlArguments,
}

pub(crate) fn run(arguments: &StatusArguments) -> Result<ExitCode, CommandError> {
    let client = ControlClient::new(&arguments.control)?;
    if let Some(name) = &arguments.application {
        return one(&client, name, arguments.json);
    }
    let Some(seconds) = arguments.watch else {
        if arguments.json {
            return write(&look(&client)?.body);
        }
        let seen = Seen::now(&client)?;
        for line in page::lines(&seen.status, &seen.listeners, None, width()) {
            say(&line);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let pause = Duration::from_secs(seconds.into());
    let mut before: Option<Seen> = None;
    loop {
        let text = if arguments.json {
            look(&client)?.json()?.to_string() + "\n"
        } else {
            let seen = Seen::now(&client)?;
            let since = before.as_ref().map(|before| (&before.status, pause));
            let lines = page::lines(&seen.status, &seen.listeners, since, width());
            let top = if io::stdout().is_terminal() {
                CLEAR
            } else {
                ""
            };
            before = Some(seen);
            format!("{top}{}\n", lines.join("\n"))
        };
        match show(&text) {
            Ok(()) if has_reader_for(pause) => {}
            Ok(()) => return Ok(ExitCode::SUCCESS),
            Err(error) => return unwritten(&error),
        }
    }
}

/// Prints the status of one application.
fn one(client: &ControlClient, name: &str, is_json: bool) -> Result<ExitCode, CommandError> {
    let path = format!("/status/applications/{}", encode(name));
    let answer = client.call("GET", &path, None, None)?;
    if answer.status == 404 {
        return Err(
            CommandError::new(format!("there is no application `{name}`"))
                .hint("`tutti status` lists them"),
        );
    }
    answer.succeeded(None)?;
    if is_json {
        return write(&answer.body);
    }
    let mut lines = Vec::new();
    facts(name, &visible_value(answer.json()?), &mut lines);
    let width = lines.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or_default();
    for (name, value) in lines {
        say(&format!("{name:width$}  {value}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Collects the members of a part of the status, each with its path. The server's response limits the depth.
fn facts(name: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                facts(&format!("{name} {member}"), value, lines);
            }
        }
        Value::String(text) => lines.push((name.to_owned(), text.clone())),
        Value::Null => {}
        other => lines.push((name.to_owned(), other.to_string())),
    }
}

/// Waits for this time, and returns false as soon as the output has no reader any more.
fn has_reader_for(pause: Duration) -> bool {
    let out = io::stdout();
    let mut gone = [PollFd::new(&out, PollFlags::empty())];
    let limit = Timespec::try_from(pause).ok();
    !matches!(poll(&mut gone, limit.as_ref()), Ok(1))
}

fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The responses that a page is made from.
struct Seen {
    status: Value,
    listeners: Value,
}

impl Seen {
    fn now(client: &ControlClient) -> Result<Seen, CommandError> {
        let status = visible_value(look(client)?.json()?);
        let listeners = client.call("GET", "/config/listeners", None, None)?;
        Ok(Seen {
            status,
            // There are none: 404.
            listeners: match listeners.succeeded(None) {
                Ok(_) => visible_value(listeners.json()?),
                Err(_) => Value::Null,
            },
        })
    }
}

fn look(client: &ControlClient) -> Result<ControlResponse, CommandError> {
    let answer = client.call("GET", "/status", None, None)?;
    answer.succeeded(None)?;
    Ok(answer)
}

/// Columns of the terminal; other output is not truncated.
fn width() -> usize {
    columns(io::stdout()).unwrap_or(usize::MAX)
}
