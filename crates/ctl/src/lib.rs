//! The command line for people: everything in `tutti` except the server.
//!
//! Called by `main` when `tutti` is called without a flag of the server. It talks to a running server over its control
//! socket like any other client, and knows nothing of the server's internals: `tutti run` starts one like an init
//! script. It must never change a configuration without having checked it first.

#![forbid(unsafe_code)]

mod cache;
mod certificate;
mod check;
pub mod child;
mod client;
mod config;
mod control_address;
mod excerpt;
mod fleet;
mod history;
pub mod import;
mod input;
mod jobs;
mod log;
mod maintenance;
mod manual;
mod metrics;
#[cfg(test)]
mod page;
mod paths;
mod program;
pub mod report;
mod run;
mod self_update;
mod site;
mod status;
mod stop;
pub mod style;
mod top;
pub mod usage;
mod wrap;

use std::process::ExitCode;

pub use check::accepted;
use clap::{Args, CommandFactory, Parser, Subcommand};
use control_address::ControlArguments;
use report::CommandError;

/// One server for web applications in every language.
#[derive(Parser)]
#[command(name = "tutti", long_about = None, after_help = AFTER_HELP, disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "The server itself is `tuttid`; `tuttid --help` lists its flags, and `tutti` takes them too. `tutti -V`: the version.";

#[derive(Subcommand)]
enum Command {
    /// Serve a folder, without any configuration: a PHP site, a Python, Perl, Ruby, Node.js or Java application, a WebAssembly component, or files
    Run(run::RunArguments),
    /// Read and change the configuration of a running server
    Config(config::ConfigArguments),
    /// Convert the configuration of another server to Tutti's, and report the parts that could not be converted
    Import(import::ImportArguments),
    /// Store, list and remove the certificates of a running server
    Cert(certificate::CertificateArguments),
    /// Remove stored responses of a running server
    Cache(cache::CacheArguments),
    /// Show what a running server is doing
    Status(status::StatusArguments),
    /// Print the last lines of a running server's log, and follow it
    Log(log::LogArguments),
    /// Print the metrics of a running server, in the Prometheus text format
    Metrics(metrics::MetricsArguments),
    /// Show what a running server is doing, live
    Top(top::TopArguments),
    /// List, retry and remove the failed jobs of spoolers
    Jobs(jobs::JobsArguments),
    /// Manage one configuration for many nodes, from a store: roll out, inspect, roll back
    Fleet(Box<fleet::FleetArguments>),
    /// Replace an application's processes, starting new ones before stopping the old ones
    Restart(RestartArguments),
    /// Make the running server reload the files of its `--config`
    Reload {
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Start or end maintenance of a running server: requests get 503
    Maintenance(maintenance::MaintenanceArguments),
    /// Replace the running server with the program now installed at its path, without losing a request
    Upgrade {
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Install the newest version of the archive that install.sh has installed; packages are upgraded by the system
    SelfUpdate(self_update::SelfUpdateArguments),
    /// Stop a running server, after the requests in progress are answered
    Stop(stop::StopArguments),
    /// Print a shell's completion script
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version,
    /// Print the manual page (roff; read it with `tutti man | man -l -`)
    Man(manual::ManualArguments),
}

#[derive(Args)]
struct RestartArguments {
    /// Name of the application
    name: String,
    #[command(flatten)]
    control: ControlArguments,
}

/// Runs the command; `arguments` start with the program's name.
pub fn main(arguments: Vec<std::ffi::OsString>) -> ExitCode {
    if arguments.len() < 2 {
        let _ = Cli::command().print_help();
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let root = Cli::command();
            let commands = commands_there(&root, &arguments);
            return usage::refuse(&error, usage::USAGE_ERROR, &commands);
        }
    };
    let done = match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        // With the arguments that have just been parsed.
        Command::Import(_) => Err(import::start(arguments.get(2..).unwrap_or_default())),
        Command::Cert(arguments) => certificate::run(&arguments),
        Command::Cache(arguments) => cache::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Metrics(arguments) => metrics::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Jobs(arguments) => jobs::run(&arguments),
        Command::Fleet(arguments) => fleet::run(&arguments),
        Command::Restart(arguments) => restart(&arguments),
        Command::Reload { control } => reload(&control),
        Command::Maintenance(arguments) => maintenance::run(&arguments),
        Command::Upgrade { control } => upgrade(&control),
        Command::SelfUpdate(arguments) => self_update::run(&arguments),
        Command::Stop(arguments) => stop::run(&arguments),
        Command::Version => {
            report::write(concat!("tutti ", env!("CARGO_PKG_VERSION"), "\n").as_bytes())
        }
        Command::Completions { shell } => print_completions(shell),
        Command::Man(arguments) => manual::run(&arguments, Cli::command()),
    };
    report::end(done)
}

/// Returns the commands that can follow the recognized part of a call.
fn commands_there<'c>(root: &'c clap::Command, arguments: &[std::ffi::OsString]) -> Vec<&'c str> {
    let mut command = root;
    for argument in arguments.iter().skip(1) {
        match command.find_subcommand(argument) {
            Some(inner) => command = inner,
            None => break,
        }
    }
    command
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect()
}

fn restart(arguments: &RestartArguments) -> Result<ExitCode, CommandError> {
    let client = client::ControlClient::new(&arguments.control)?;
    let path = format!(
        "/control/applications/{}/restart",
        client::encode(&arguments.name)
    );
    let answer = client.call("GET", &path, None, None)?;
    if answer.status == 404 {
        return Err(
            CommandError::new(format!("there is no application `{}`", arguments.name))
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

fn reload(control: &ControlArguments) -> Result<ExitCode, CommandError> {
    let client = client::ControlClient::new(control)?;
    let answer = client.call("POST", "/control/reload", None, None)?;
    answer.succeeded(None)?;
    let has_files = !String::from_utf8_lossy(&answer.body).contains("no configuration files");
    let what = match has_files {
        true => "the server runs the configuration in its files",
        false => {
            "the server has no configuration files (`--config`) and runs the stored configuration; it has reloaded certificates in files"
        }
    };
    report::say(&format!("{} {what}", style::good("done:")));
    Ok(ExitCode::SUCCESS)
}

fn upgrade(control: &ControlArguments) -> Result<ExitCode, CommandError> {
    let client = client::ControlClient::new(control)?;
    client
        .call("POST", "/control/upgrade", None, None)?
        .succeeded(None)?;
    report::say(&format!("{} the server is upgraded", style::good("done:")));
    Ok(ExitCode::SUCCESS)
}

fn print_completions(shell: clap_complete::Shell) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tutti", &mut script);
    report::write(&script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_table_is_consistent() {
        Cli::command().debug_assert();
    }
}
