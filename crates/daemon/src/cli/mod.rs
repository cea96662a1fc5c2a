//! The command line of a person: everything of `tutti` but the server itself.
//!
//! Called by `main` when the first argument names one of [`Command`]. It talks to a running server over its control
//! socket like any other client, and holds no knowledge of the server's insides: `tutti run` starts one the way an
//! init script would. It must never change a configuration that it could not show to be right first.

mod check;
mod client;
mod config;
mod excerpt;
mod history;
mod report;
mod run;
mod site;
mod status;
mod style;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use tutti_sys::listen::Endpoint;

pub(crate) use report::Failure;

/// The words that make `main` come here instead of starting a server.
pub(crate) const COMMANDS: &[&str] = &[
    "run",
    "config",
    "status",
    "restart",
    "reload",
    "upgrade",
    "completions",
    "man",
    "help",
];

/// One server for web applications in every language.
#[derive(Parser)]
#[command(name = "tutti", version, about, long_about = None, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str =
    "Without a command, `tutti` starts the server; `tutti --help` lists its flags.";

#[derive(Subcommand)]
enum Command {
    /// Serve a folder, with no configuration at all: a PHP site or static files
    Run(run::RunArguments),
    /// Read and change the configuration of a running server
    Config(config::ConfigArguments),
    /// What a running server is doing
    Status(status::StatusArguments),
    /// Replace an application's processes, new ones up before old ones leave
    Restart(RestartArguments),
    /// Have the running server read the files of its `--config` again
    Reload {
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Replace the running server by the program that is at its path now, without losing a request
    Upgrade {
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Print a shell's completion script
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff; read it with `tutti man | man -l -`)
    Man,
}

/// How to reach the server.
#[derive(Args, Clone)]
struct ControlArguments {
    /// Control socket of the server: `unix:PATH` or `ADDRESS:PORT`
    #[arg(long, value_name = "ADDRESS", env = "TUTTI_CONTROL")]
    control: Option<String>,

    /// File with the secret of the server's `--control-token`
    #[arg(long, value_name = "FILE", env = "TUTTI_CONTROL_TOKEN")]
    control_token: Option<PathBuf>,
}

#[derive(Args)]
struct RestartArguments {
    /// Name of the application
    name: String,
    #[command(flatten)]
    control: ControlArguments,
}

/// Runs the command; `arguments` start with the program's name.
pub(crate) fn main(arguments: Vec<std::ffi::OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // clap colours by itself where there is a terminal; help goes to stdout and succeeds.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let done = match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Restart(arguments) => restart(&arguments),
        Command::Reload { control } => reload(&control),
        Command::Upgrade { control } => upgrade(&control),
        Command::Completions { shell } => print_completions(shell),
        Command::Man => print_manual(),
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.show(),
    }
}

fn restart(arguments: &RestartArguments) -> Result<ExitCode, Failure> {
    let client = client::Client::new(&arguments.control)?;
    let path = format!(
        "/control/applications/{}/restart",
        client::encode(&arguments.name)
    );
    let answer = client.call("GET", &path, None, None)?;
    if answer.status == 404 {
        return Err(
            Failure::new(format!("there is no application `{}`", arguments.name))
                .hint("`tutti status` lists them"),
        );
    }
    answer.succeeded(None)?;
    report::say(&format!(
        "{} application {} restarted",
        style::good("done:"),
        style::strong(&arguments.name)
    ));
    Ok(ExitCode::SUCCESS)
}

fn reload(control: &ControlArguments) -> Result<ExitCode, Failure> {
    let client = client::Client::new(control)?;
    let answer = client.call("POST", "/control/reload", None, None)?;
    if answer.status == 409 {
        return Err(
            Failure::new("the server was started without configuration files")
                .hint("start it with `--config PATH`, or change it with `tutti config`"),
        );
    }
    answer.succeeded(None)?;
    report::say(&format!(
        "{} the server runs what its configuration files say",
        style::good("done:")
    ));
    Ok(ExitCode::SUCCESS)
}

fn upgrade(control: &ControlArguments) -> Result<ExitCode, Failure> {
    let client = client::Client::new(control)?;
    client
        .call("POST", "/control/upgrade", None, None)?
        .succeeded(None)?;
    report::say(&format!("{} the server is upgraded", style::good("done:")));
    Ok(ExitCode::SUCCESS)
}

fn print_completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tutti", &mut script);
    report::write(&script)
}

fn print_manual() -> Result<ExitCode, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(|error| Failure::new(format!("manual page: {error}")))?;
    let mut root = Cli::command();
    root.build();
    for command in root
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
    {
        clap_mangen::Man::new(command.clone())
            .render(&mut page)
            .map_err(|error| Failure::new(format!("manual page: {error}")))?;
    }
    report::write(&page)
}

/// The default control sockets, tried in order: the one of a server started by root, then that of this user.
fn default_sockets() -> Vec<PathBuf> {
    let mut sockets = vec![
        PathBuf::from("/run/tutti/control.sock"),
        PathBuf::from("/var/run/control.unit.sock"),
    ];
    if let Endpoint::Path(own) = crate::flags::default_control(false) {
        sockets.insert(0, own);
    }
    sockets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_table_is_consistent() {
        Cli::command().debug_assert();
        for name in COMMANDS.iter().filter(|name| **name != "help") {
            assert!(
                Cli::command()
                    .get_subcommands()
                    .any(|command| command.get_name() == *name),
                "{name}"
            );
        }
    }
}
