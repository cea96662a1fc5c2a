//! `tutti fleet`: one configuration for many nodes.
//!
//! It talks to the store and to no node: nodes answer in the store. Whatever a command has begun is there as well, so that another can
//! go on where one has ended. It must never change what somebody else has changed since it looked.

mod arguments;
mod certificates;
mod history;
mod labels;
mod purge;
mod put;
mod roll;
mod status;
mod store_access;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::report::CommandError;
use arguments::OutputArguments;
use store_access::{Fleet, StoreArguments};

#[derive(Args)]
pub(crate) struct FleetArguments {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Subcommand)]
enum FleetCommand {
    /// Roll a configuration out: in waves, each of which has to apply it and to be well; else all nodes go back by themselves
    Put(put::PutArguments),
    /// Show the nodes, what they run and how they are
    Status {
        #[command(flatten)]
        output: OutputArguments,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// List the roll-outs, newest first
    Log {
        #[command(flatten)]
        output: OutputArguments,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Show the difference between two generations: by default what the last roll-out was to change
    Diff(history::DiffArguments),
    /// Put an earlier generation in force on all nodes at once, or end a roll-out that is under way
    Rollback(history::RollbackArguments),
    /// Certificates that all nodes have, sealed with the key of the fleet
    Cert {
        #[command(subcommand)]
        command: certificates::CertificateCommand,
    },
    /// Print a new key, as a line for the secret file
    Secret,
    /// List the labels of nodes and the documents that they have, or take a label's document away
    Labels(labels::LabelsArguments),
    /// Purge the caches of all nodes, also of those that are away now
    Purge(purge::PurgeArguments),
}

pub(crate) fn run(arguments: &FleetArguments) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::new(format!("cannot begin: {error}")))?;
    runtime.block_on(async {
        match &arguments.command {
            FleetCommand::Put(arguments) => put::run(arguments).await,
            FleetCommand::Status { output, store } => {
                status::run(&Fleet::new(store)?, output.json).await
            }
            FleetCommand::Log { output, store } => {
                history::log(&Fleet::new(store)?, output.json).await
            }
            FleetCommand::Diff(arguments) => history::diff(arguments).await,
            FleetCommand::Rollback(arguments) => history::rollback(arguments).await,
            FleetCommand::Cert { command } => certificates::run(command).await,
            FleetCommand::Secret => certificates::secret(),
            FleetCommand::Labels(arguments) => labels::run(arguments).await,
            FleetCommand::Purge(arguments) => purge::run(arguments).await,
        }
    })
}
