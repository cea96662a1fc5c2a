//! `tutti fleet`: one configuration for many nodes.
//!
//! It talks to the store, never to a node: nodes write their answers to the store. The progress of a command is stored
//! there too, so that another command can continue after one that was interrupted. It must never overwrite a change
//! that another client made since it read the store.

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

use arguments::OutputArguments;
use clap::{Args, Subcommand};
use store_access::{Fleet, StoreArguments};

use super::report::CommandError;

#[derive(Args)]
pub(crate) struct FleetArguments {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Subcommand)]
enum FleetCommand {
    /// Roll out a configuration in waves. The nodes of each wave must apply it and be healthy; otherwise all nodes roll back automatically
    Put(put::PutArguments),
    /// Show the nodes, the generations that they run, and their health
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
    /// Show the difference between two generations [default: the changes of the last roll-out]
    Diff(history::DiffArguments),
    /// Apply an earlier generation on all nodes at once, or stop a roll-out in progress
    Rollback(history::RollbackArguments),
    /// Manage certificates for all nodes, encrypted with the key of the fleet
    Cert {
        #[command(subcommand)]
        command: certificates::CertificateCommand,
    },
    /// Print a new key, as a line for the secret file
    Secret,
    /// List the labels of nodes and their documents, or remove a label's document
    Labels(labels::LabelsArguments),
    /// Purge the caches of all nodes, including those that are offline now
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
