//! `tutti config`: read, change and edit a configuration.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tutti_config::Format;

use super::client::{ControlClient, ControlResponse, config_path};
use super::control_address::ControlArguments;
use super::input::read;
use super::report::{CommandError, say, write};
use super::{check, history, style};

#[derive(Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print the configuration, or a part of it
    Get {
        /// The part, such as `listeners` or `applications/blog/processes`
        path: Option<String>,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Replace the configuration, or a part of it
    Put {
        /// The part; everything if it is left out
        path: Option<String>,
        /// File with the new value (`-`: standard input)
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        file: PathBuf,
        /// Do not ask before the last listener is removed
        #[arg(short, long)]
        yes: bool,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Append to an array, such as `routes`
    Append {
        /// The array
        path: String,
        /// File with the new element (`-`: standard input)
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        file: PathBuf,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Remove a part of the configuration
    Delete {
        /// The part
        path: String,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Edit the configuration, or a part of it, in an editor, and apply the result
    Edit {
        /// The part; everything if it is left out
        path: Option<String>,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Set one value, as JSON or text
    Set {
        /// Where, such as `settings/http/idle_timeout`
        path: String,
        /// The value, such as `60`, `true`, `routes/main`, `{"return": 404}`
        #[arg(allow_hyphen_values = true)]
        value: String,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Change a part with a merge patch (RFC 7386): members in the patch are set, `null` removes one, all others stay
    Patch {
        /// The part; everything if it is left out
        path: Option<String>,
        /// File with the patch (`-`: standard input)
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        file: PathBuf,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Check a whole configuration without a server and without changing anything
    Check {
        /// File or folder with the configuration: JSON with comments, YAML, TOML (`-`: standard input, JSON)
        #[arg(value_name = "PATH", default_value = "-")]
        file: PathBuf,
        /// Folder of the language modules; without it their presence is not checked
        #[arg(long, value_name = "DIR")]
        modulesdir: Option<PathBuf>,
        /// State folder of a server, with its certificates and script modules; without it they are assumed to exist
        #[arg(long, value_name = "DIR")]
        statedir: Option<PathBuf>,
        /// Check that the files and folders it refers to exist
        #[arg(long)]
        files: bool,
    },
    /// Print a configuration in another language
    Convert {
        /// File with the configuration
        #[arg(value_name = "FILE", default_value = "-")]
        file: PathBuf,
        /// The language
        #[arg(long, value_enum)]
        to: super::check::Target,
    },
    /// List the last changes: when, what, and by which user
    Log {
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Show what a change did (the last one, unless a number is given), or the difference between two
    Diff {
        /// Number of a change, from `tutti config log`
        from: Option<u64>,
        /// Number of another
        to: Option<u64>,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Restore an earlier configuration: from before the last change, or from after the given change
    Rollback {
        /// Number of a change, from `tutti config log`
        number: Option<u64>,
        #[command(flatten)]
        control: ControlArguments,
    },
}

pub(crate) fn run(arguments: &ConfigArguments) -> Result<ExitCode, CommandError> {
    match &arguments.command {
        ConfigCommand::Get { path, control } => {
            let client = ControlClient::new(control)?;
            let answer = client.call("GET", &config_path(path.as_deref()), None, None)?;
            if let (404, Some(path)) = (answer.status, path) {
                return Err(missing(&client, path, answer));
            }
            answer.succeeded(None)?;
            write(&answer.body)
        }
        ConfigCommand::Put {
            path,
            file,
            yes,
            control,
        } => {
            refuse_file_as_path(path.as_deref(), file)?;
            let (client, value) = (ControlClient::new(control)?, Value::read(file)?);
            let removes_listeners = value.has_no_listeners(path.as_deref());
            if removes_listeners && !yes {
                confirm_last_listener(&client, &value)?;
            }
            send("PUT", path.as_deref(), &value, &client)?;
            if removes_listeners {
                say(&format!(
                    "{} the configuration has no listeners: the server accepts no requests now; `tutti config rollback` restores the former one",
                    style::place("warning:")
                ));
            }
            done()
        }
        ConfigCommand::Append {
            path,
            file,
            control,
        } => {
            let client = ControlClient::new(control)?;
            send("POST", Some(path), &Value::read(file)?, &client)?;
            done()
        }
        ConfigCommand::Delete { path, control } => {
            ControlClient::new(control)?
                .call("DELETE", &config_path(Some(path)), None, None)?
                .succeeded(None)?;
            done()
        }
        ConfigCommand::Edit { path, control } => {
            edit(path.as_deref(), &ControlClient::new(control)?)
        }
        ConfigCommand::Set {
            path,
            value,
            control,
        } => set(path, value, control),
        ConfigCommand::Patch {
            path,
            file,
            control,
        } => {
            let client = ControlClient::new(control)?;
            send("PATCH", path.as_deref(), &Value::read(file)?, &client)?;
            done()
        }
        ConfigCommand::Check {
            file,
            modulesdir,
            statedir,
            files,
        } => check::check(file, modulesdir.as_deref(), statedir.as_deref(), *files),
        ConfigCommand::Convert { file, to } => check::convert(file, *to),
        ConfigCommand::Log { control } => history::log(&ControlClient::new(control)?),
        ConfigCommand::Diff { from, to, control } => {
            history::diff(&ControlClient::new(control)?, *from, *to)
        }
        ConfigCommand::Rollback { number, control } => {
            history::rollback(&ControlClient::new(control)?, *number)
        }
    }
}

fn done() -> Result<ExitCode, CommandError> {
    say(&format!(
        "{} the server runs the new configuration",
        style::good("done:")
    ));
    Ok(ExitCode::SUCCESS)
}

/// `put site.json` would wait for standard input, and store it at `/site.json`, which is never intended.
fn refuse_file_as_path(path: Option<&str>, file: &Path) -> Result<(), CommandError> {
    let Some(path) = path.filter(|_| file == Path::new("-")) else {
        return Ok(());
    };
    let ends = [".json", ".yaml", ".yml", ".toml"];
    if !ends.iter().any(|end| path.ends_with(end)) || !Path::new(path).is_file() {
        return Ok(());
    }
    let failure = CommandError::new(format!(
        "`{path}` is a file, not a part of the configuration"
    ));
    Err(failure.hint(format!("`tutti config put --file {path}`")))
}

/// A value that the user passes.
struct Value {
    /// Name of its file, for messages.
    name: String,
    bytes: Vec<u8>,
    format: Format,
}

impl Value {
    fn read(file: &Path) -> Result<Self, CommandError> {
        let (name, bytes) = read(file)?;
        let format = Format::of_file(&name).unwrap_or_default();
        Ok(Self {
            name,
            bytes,
            format,
        })
    }

    /// True if the configuration has no listeners once this value is at `path`. A faulty value is rejected anyway, with
    /// its place.
    fn has_no_listeners(&self, path: Option<&str>) -> bool {
        let Ok(document) = tutti_config::read(&self.bytes, self.format) else {
            return false;
        };
        let listeners = match config_path(path).as_str() {
            "/config" => {
                let context = check::with_what_it_asks_for(&document);
                if tutti_config::validate(&document, &context).is_err() {
                    return false;
                }
                document.root().child("listeners")
            }
            "/config/listeners" => Some(document.root()),
            _ => return false,
        };
        listeners.is_none_or(|listeners| listeners.members().is_empty())
    }
}

fn send(
    method: &str,
    path: Option<&str>,
    value: &Value,
    client: &ControlClient,
) -> Result<(), CommandError> {
    let sent = Some((value.name.as_str(), value.bytes.as_slice()));
    let body = Some((value.bytes.as_slice(), value.format.media_type()));
    let place = config_path(path);
    let answer = client.send(method, &place, body, None)?;
    if answer.status == 404 && method == "PUT" {
        let made = match (value.format, std::str::from_utf8(&value.bytes)) {
            (Format::Json, Ok(text)) => set_with_parents(client, &place, text)?,
            _ => None,
        };
        let Some(made) = made else {
            return Err(missing(client, path.unwrap_or_default(), answer));
        };
        return made.succeeded(sent);
    }
    answer.succeeded(sent)
}

/// Asks for confirmation before a value removes the last listener, which is rarely intended. Without a terminal,
/// `--yes` is required.
fn confirm_last_listener(client: &ControlClient, value: &Value) -> Result<(), CommandError> {
    let now = client.call("GET", "/config/listeners", None, None)?;
    let count = match now.status {
        200 => now.json()?.as_object().map_or(0, serde_json::Map::len),
        _ => 0,
    };
    if count == 0 {
        return Ok(());
    }
    let message = format!(
        "`{}` has no listeners: it would remove the {count} that the server has now, and no requests would be accepted",
        value.name
    );
    if !io::stdin().is_terminal() {
        return Err(CommandError::new(message).hint("`--yes` applies it anyway"));
    }
    say(&format!("{} {message}", style::place("warning:")));
    match ask("Apply it? [y/N]")?.starts_with('y') {
        true => Ok(()),
        false => Err(CommandError::new("not applied")),
    }
}

/// Returns the failure for a path that the configuration does not have, with the name that was likely intended.
fn missing(client: &ControlClient, path: &str, answer: ControlResponse) -> CommandError {
    let Err(failure) = answer.succeeded(None) else {
        return CommandError::new(format!("the configuration has no `{path}`"));
    };
    let place = config_path(Some(path));
    let names = segments(&place);
    for there in 1..names.len() {
        let parent = format!("/{}", names.get(..there).unwrap_or_default().join("/"));
        let Some(name) = names.get(there) else { break };
        let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
        let Ok(members) = client
            .call("GET", &parent, None, None)
            .and_then(|one| one.json())
        else {
            break;
        };
        let known: Vec<&str> = match members.as_object() {
            Some(members) => members.keys().map(String::as_str).collect(),
            None => break,
        };
        if known.contains(&name.as_ref()) {
            continue;
        }
        let sections = tutti_config::table::ROOT.all().filter(|_| there == 1);
        let all = known.iter().copied().chain(sections.map(|one| one.name));
        return match tutti_config::nearest(&name, all) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint(match known.is_empty() {
                true => "the configuration is empty there".to_owned(),
                false => format!("there is: {}", known.join(", ")),
            }),
        };
    }
    failure
}

fn set(path: &str, value: &str, control: &ControlArguments) -> Result<ExitCode, CommandError> {
    let is_json = tutti_config::parse(value.as_bytes()).is_ok();
    let text = if is_json {
        value.to_owned()
    } else {
        serde_json::Value::from(value).to_string()
    };
    let client = ControlClient::new(control)?;
    let place = config_path(Some(path));
    let answer = client.call("PUT", &place, Some(text.as_bytes()), None)?;
    if answer.status == 404
        && let Some(answer) = set_with_parents(&client, &place, &text)?
    {
        answer.succeeded(None)?;
        return done();
    }
    answer.succeeded(Some(("<value>", text.as_bytes())))?;
    done()
}

/// Sets a value below objects that do not exist yet, and creates them. `None` if that is impossible: an existing value
/// is not an object, or the path continues with an array index.
fn set_with_parents(
    client: &ControlClient,
    place: &str,
    value: &str,
) -> Result<Option<ControlResponse>, CommandError> {
    /// Another client can be faster now and then, but not always.
    const TRIES: usize = 5;
    let (names, mut last) = (segments(place), None);
    for _ in 0..TRIES {
        // `/config` itself always exists.
        let mut there = names.len().saturating_sub(1);
        let parent = loop {
            let path = format!("/{}", names.get(..there).unwrap_or_default().join("/"));
            let answer = client.call("GET", &path, None, None)?;
            if answer.status == 200 || there <= 1 {
                break answer.json()?;
            }
            there -= 1;
        };
        let missing = names.get(there..).unwrap_or_default();
        let is_index = |name: &&str| name.bytes().all(|byte| byte.is_ascii_digit());
        let (Some((first, inner)), true) = (missing.split_first(), parent.is_object()) else {
            return Ok(None);
        };
        if missing.iter().any(is_index) {
            return Ok(None);
        }
        let whole = inner.iter().rev().fold(value.to_owned(), |value, name| {
            let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
            format!("{{{}: {value}}}", serde_json::Value::from(name.as_ref()))
        });
        let parents = names.get(..there).unwrap_or_default().join("/");
        let answer = client.create(&format!("/{parents}/{first}"), whole.as_bytes())?;
        if answer.status != 412 {
            return Ok(Some(answer));
        }
        last = Some(answer);
    }
    Ok(last)
}

/// Returns `config`, `settings`, … of `/config/settings/…`.
fn segments(place: &str) -> Vec<&str> {
    place.split('/').filter(|name| !name.is_empty()).collect()
}

/// Opens an editor until the server accepts the result or the user gives up. The text is never lost: unless it was
/// applied, it stays in the file, whose name is printed.
fn edit(path: Option<&str>, client: &ControlClient) -> Result<ExitCode, CommandError> {
    let place = config_path(path);
    let answer = client.call("GET", &place, None, None)?;
    answer.succeeded(None)?;
    let draft = Draft::create(&answer.body)?;
    let not_applied = || {
        CommandError::new("not applied").hint(format!("your text is saved in `{}`", draft.name()))
    };
    let mut refused = None;
    loop {
        draft.open_editor()?;
        let after = draft.read()?;
        if after == answer.body {
            draft.remove();
            say("nothing changed");
            return Ok(ExitCode::SUCCESS);
        }
        // Saving the same faulty text again means giving up.
        if refused.as_ref() == Some(&after) {
            return Err(not_applied());
        }
        let outcome = client
            .call("PUT", &place, Some(&after), answer.etag.as_deref())
            .and_then(|reply| reply.succeeded(Some((&draft.name(), &after))));
        let Err(failure) = outcome else {
            draft.remove();
            return done();
        };
        failure.show();
        if !io::stdin().is_terminal() || ask("Edit again? [Y/n]")?.starts_with('n') {
            return Err(not_applied());
        }
        refused = Some(after);
    }
}

/// Reads an answer from the terminal, in lower case.
fn ask(question: &str) -> Result<String, CommandError> {
    let _ = write!(io::stderr(), "{question} ");
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(|error| CommandError::new(format!("cannot read the answer: {error}")))?;
    Ok(answer.trim_start().to_ascii_lowercase())
}

/// The file being edited.
struct Draft(PathBuf);

impl Draft {
    fn create(text: &[u8]) -> Result<Self, CommandError> {
        let file = tempfile::Builder::new()
            .prefix("tutti-config-")
            .suffix(".json")
            .tempfile()
            .map_err(|error| {
                CommandError::new(format!("cannot create a temporary file: {error}"))
            })?;
        let (mut file, path) = file.keep().map_err(|error| {
            CommandError::new(format!("cannot save the temporary file: {error}"))
        })?;
        let draft = Self(path);
        match file.write_all(text) {
            Ok(()) => Ok(draft),
            Err(error) => {
                draft.remove();
                Err(CommandError::new(format!(
                    "cannot write `{}`: {error}",
                    draft.name()
                )))
            }
        }
    }

    fn name(&self) -> String {
        self.0.display().to_string()
    }

    fn read(&self) -> Result<Vec<u8>, CommandError> {
        std::fs::read(&self.0)
            .map_err(|error| CommandError::new(format!("cannot read `{}`: {error}", self.name())))
    }

    fn remove(&self) {
        // At worst a file stays behind in the folder for temporary files.
        let _ = std::fs::remove_file(&self.0);
    }

    /// `VISUAL`, or else `EDITOR`, either of which may contain arguments; or else the system's default (Debian's
    /// `sensible-editor`, which asks once), or else `vi`.
    fn open_editor(&self) -> Result<(), CommandError> {
        let editor = ["VISUAL", "EDITOR"]
            .iter()
            .filter_map(|name| std::env::var(name).ok())
            .find(|value| !value.trim().is_empty())
            .unwrap_or_else(|| {
                let chosen = Path::new("/usr/bin/sensible-editor");
                if chosen.exists() {
                    "sensible-editor"
                } else {
                    "vi"
                }
                .to_owned()
            });
        let hint = "set EDITOR to your editor";
        let status = std::process::Command::new("/bin/sh")
            .arg("-c")
            .arg(format!("{editor} \"$1\""))
            .arg("sh")
            .arg(&self.0)
            .status()
            .map_err(|error| {
                CommandError::new(format!("cannot start `{editor}`: {error}")).hint(hint)
            })?;
        if status.success() {
            return Ok(());
        }
        let kept = format!("your text is saved in `{}`; {hint}", self.name());
        Err(CommandError::new(format!("the editor `{editor}` failed: {status}")).hint(kept))
    }
}
