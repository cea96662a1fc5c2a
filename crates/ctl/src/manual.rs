//! `tutti man`: the manual pages, generated from the tables of `clap`. Packages install them, one file for each
//! command.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use tutti_main::flags::Flags;

use crate::report::{self, CommandError};

#[derive(Args)]
pub(crate) struct ManualArguments {
    /// Write a file for each command into this folder: tuttid.8, tutti.1, tutti-config.1 and the others
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Prints all pages, or writes them to files; `root` is the table of the command line.
pub(crate) fn run(
    arguments: &ManualArguments,
    mut root: Command,
) -> Result<ExitCode, CommandError> {
    if let Some(folder) = &arguments.folder {
        return write_files(folder, root);
    }
    let mut pages = Vec::new();
    root.build();
    let commands = root
        .get_subcommands()
        .filter(|command| command.get_name() != "help");
    for command in std::iter::once(&root).chain(commands) {
        Man::new(command.clone())
            .render(&mut pages)
            .map_err(|error| CommandError::new(format!("manual page: {error}")))?;
    }
    report::write(&pages)
}

fn write_files(folder: &Path, root: Command) -> Result<ExitCode, CommandError> {
    let write = |done: std::io::Result<()>| {
        done.map_err(|error| {
            CommandError::new(format!("manual pages in `{}`: {error}", folder.display()))
                .hint("the folder must exist and be writable")
        })
    };
    write(clap_mangen::generate_to(root, folder))?;
    write(server().generate_to(folder).map(drop))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the page of the server, which is a daemon: section 8.
fn server() -> Man {
    let command: Command = Flags::command().display_name("tuttid");
    Man::new(command).section("8")
}
