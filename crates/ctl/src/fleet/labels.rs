//! `tutti fleet labels`: the labels of nodes, and their documents.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use tutti_fleet_store::records::{Rollout, RolloutState, choose};
use tutti_fleet_store::{keys, now, random_word};

use super::arguments::{OutputArguments, read_label};
use super::roll::generation;
use super::store_access::{Fleet, Seen, StoreArguments, caller, failed};
use crate::report::{CommandError, say};
use crate::style;

#[derive(Args)]
pub(super) struct LabelsArguments {
    /// Remove the document of this label; its nodes then run the document of all nodes
    #[arg(long, value_name = "LABEL=VALUE", value_parser = read_label)]
    release: Option<String>,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    store: StoreArguments,
}

pub(super) async fn run(arguments: &LabelsArguments) -> Result<ExitCode, CommandError> {
    let fleet = Fleet::new(&arguments.store)?;
    let seen = fleet.look().await?;
    if let Some(label) = &arguments.release {
        return release(&fleet, &seen, label).await;
    }
    let labels = labels(&seen);
    if arguments.output.json {
        let all = labels.iter().map(|(label, nodes)| {
            let head = seen.heads.get(label);
            let runs = head.and_then(Rollout::settled);
            (
                label.clone(),
                json!({"nodes": nodes, "generation": generation(runs)}),
            )
        });
        let all: serde_json::Map<_, _> = all.collect();
        say(&json!(all).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    if labels.is_empty() {
        say("no node has a label");
    }
    for (label, nodes) in &labels {
        let head = seen.heads.get(label);
        let own = match head.and_then(Rollout::settled) {
            Some(version) => format!("generation {} of its own", version.generation),
            None => "no document of its own".to_owned(),
        };
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        say(&format!(
            "{}  {own}  {}",
            style::strong(label),
            nodes.join(" ")
        ));
    }
    for answer in seen.answers.values() {
        let own = answer
            .labels
            .iter()
            .map(|(label, value)| format!("{label}={value}"));
        let own: Vec<String> = own
            .filter(|label| seen.heads.get(label).and_then(Rollout::settled).is_some())
            .collect();
        if let (true, Some((selector, _))) = (
            own.len() > 1,
            choose(&seen.heads, &answer.name, &answer.labels),
        ) {
            say(&style::quiet(&format!(
                "node `{}` has several labels with documents, {}; `{selector}` counts",
                answer.name,
                own.join(" ")
            )));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the labels that nodes have, or that have a document, each with its nodes.
fn labels(seen: &Seen) -> BTreeMap<String, BTreeSet<String>> {
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for answer in seen.answers.values() {
        for (label, value) in &answer.labels {
            let nodes = labels.entry(format!("{label}={value}")).or_default();
            nodes.insert(answer.name.clone());
        }
    }
    for (selector, head) in &seen.heads {
        if selector != keys::ALL && head.settled().is_some() {
            labels.entry(selector.clone()).or_default();
        }
    }
    labels
}

async fn release(fleet: &Fleet, seen: &Seen, label: &str) -> Result<ExitCode, CommandError> {
    let none = || CommandError::new(format!("`{label}` has no document"));
    let current = seen.heads.get(label).ok_or_else(none)?;
    if current.state == RolloutState::Rolling {
        return Err(
            CommandError::new(format!("a roll-out of {} is in progress", current.by))
                .hint("`tutti fleet rollback --label LABEL=VALUE` ends it"),
        );
    }
    let former = current.settled().ok_or_else(none)?;
    let head = Rollout {
        id: random_word(),
        number: fleet.last(keys::LOG).await?.saturating_add(1),
        selector: label.to_owned(),
        version: None,
        former: Some(former.clone()),
        state: RolloutState::Done,
        waves: Vec::new(),
        wave: 0,
        nodes: Vec::new(),
        by: caller(),
        time: now(),
        comment: Some("released".to_owned()),
        reason: None,
    };
    let before = seen.texts.get(&keys::head(label)).map(String::as_str);
    if !fleet.swap(before, &head, &[]).await.map_err(failed)? {
        return Err(CommandError::new(
            "someone else has changed the fleet in the meantime; nothing was done",
        ));
    }
    say(&format!(
        "{} nodes with `{label}` run the document of all nodes",
        style::good("done:")
    ));
    Ok(ExitCode::SUCCESS)
}
