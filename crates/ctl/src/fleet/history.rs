//! `tutti fleet log`, `diff` and `rollback`: earlier roll-outs.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tutti_config::model::written;
use tutti_fleet_store::records::{DocumentVersion, Rollout, RolloutState, concerned, read_all};
use tutti_fleet_store::{keys, now, random_word};

use super::arguments::{OutputArguments, SelectorArguments, nodes, selected_nodes};
use super::roll::{Bounds, Roll, generation};
use super::store_access::{Fleet, StoreArguments, caller, failed, visible_entries};
use crate::history::difference;
use crate::report::{CommandError, say};
use crate::style;
use crate::wrap::for_stdout;

/// Time for the nodes, before those that do not run the generation yet are reported.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(super) struct DiffArguments {
    /// The first generation; without TO, show what it changed
    from: Option<u64>,
    /// The second generation
    to: Option<u64>,
    #[command(flatten)]
    selector: SelectorArguments,
    #[command(flatten)]
    store: StoreArguments,
}

#[derive(Args)]
pub(super) struct RollbackArguments {
    /// The generation [default: the previous one]
    generation: Option<u64>,
    #[command(flatten)]
    selector: SelectorArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    store: StoreArguments,
}

pub(super) async fn log(fleet: &Fleet, is_json: bool) -> Result<ExitCode, CommandError> {
    let entries = fleet.store.list(keys::LOG).await.map_err(failed)?;
    let roll_outs = read_all::<Rollout>(&visible_entries(&entries), keys::LOG);
    let newest_first: Vec<&Rollout> = roll_outs.values().rev().collect();
    if is_json {
        say(&serde_json::json!(newest_first).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    if newest_first.is_empty() {
        say("nothing has been rolled out yet");
    }
    for head in newest_first {
        let what = match &head.version {
            Some(version) => format!("generation {}", version.generation),
            None => "no document".to_owned(),
        };
        let state = match head.state {
            RolloutState::Done => style::good("done"),
            RolloutState::Rolling => style::strong("rolling"),
            RolloutState::Returned => style::bad("returned"),
        };
        let time = written(head.time.saturating_mul(1000));
        say(&format!(
            "{}  {}  {what} for {}  {state}  {}",
            style::strong(&head.number.to_string()),
            style::place(&time),
            selected_nodes(&head.selector),
            style::quiet(&head.by)
        ));
        for words in [&head.comment, &head.reason].into_iter().flatten() {
            say(&format!("   {}", for_stdout(words, 3, 3)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn diff(arguments: &DiffArguments) -> Result<ExitCode, CommandError> {
    let fleet = Fleet::new(&arguments.store)?;
    let selector = arguments.selector.selector();
    let (from, to) = match (arguments.from, arguments.to) {
        (Some(from), Some(to)) => (Some(from), to),
        (Some(only), None) => (only.checked_sub(1).filter(|from| *from > 0), only),
        (None, _) => {
            let seen = fleet.look().await?;
            let head = seen.heads.get(selector).ok_or_else(nothing)?;
            let generation = |version: &DocumentVersion| version.generation;
            let to = head.version.as_ref().map(generation).ok_or_else(nothing)?;
            (head.former.as_ref().map(generation), to)
        }
    };
    let new = fleet.document(to).await?;
    let (old, name) = match from {
        Some(from) => (fleet.document(from).await?, format!("generation {from}")),
        None => (String::new(), "nothing".to_owned()),
    };
    difference((&name, &old), (&format!("generation {to}"), &new))
}

fn nothing() -> CommandError {
    CommandError::new("these nodes have no document")
        .hint("`tutti fleet log` lists the generations")
}

pub(super) async fn rollback(arguments: &RollbackArguments) -> Result<ExitCode, CommandError> {
    let fleet = Fleet::new(&arguments.store)?;
    let selector = arguments.selector.selector();
    let seen = fleet.look().await?;
    let current = seen.heads.get(selector).ok_or_else(nothing)?;
    let target = match (arguments.generation, current.state) {
        (Some(generation), _) => Some(fleet.version(generation).await?),
        // The first roll-out can be ended, too: nodes that run its generation keep it.
        (None, RolloutState::Rolling) => current.former.clone(),
        (None, RolloutState::Done) => {
            let former = current.former.clone().ok_or_else(|| {
                CommandError::new("there is no generation before this one")
                    .hint("`tutti fleet log` lists the generations; choose one")
            });
            Some(former?)
        }
        (None, RolloutState::Returned) => {
            return Err(
                CommandError::new("the last roll-out was already rolled back")
                    .hint("name the generation to go back to: `tutti fleet log` shows them"),
            );
        }
    };
    // A roll-out in progress is stopped by rolling it back.
    let ended = |head: &Rollout| Rollout {
        state: RolloutState::Returned,
        reason: Some(format!("ended by {}", caller())),
        ..head.clone()
    };
    let (stored, head) = match arguments.generation {
        None if current.state == RolloutState::Rolling => {
            let stored = seen.stored_head(selector).ok_or_else(nothing)?;
            (ended(&stored), ended(current))
        }
        _ => {
            let head = Rollout {
                id: random_word(),
                number: fleet.last(keys::LOG).await?.saturating_add(1),
                selector: selector.to_owned(),
                version: target.clone(),
                former: current.settled().cloned(),
                state: RolloutState::Done,
                waves: vec!["100%".to_owned()],
                wave: 1,
                nodes: concerned(&seen.heads, &seen.answers, selector),
                by: caller(),
                time: now(),
                comment: Some("rollback".to_owned()),
                reason: None,
            };
            (head.clone(), head)
        }
    };
    let before = seen.texts.get(&keys::head(selector)).map(String::as_str);
    if !fleet.swap(before, &stored, &[]).await.map_err(failed)? {
        return Err(CommandError::new(
            "someone else has changed the fleet in the meantime; nothing was done",
        )
        .hint("`tutti fleet log` shows who it was"));
    }
    let roll = Roll {
        fleet: &fleet,
        bounds: Bounds {
            wait: Duration::ZERO,
            timeout: LONGEST,
            most_errors: 1.0,
        },
        is_quiet: arguments.output.json,
    };
    let late = match &target {
        Some(target) => roll.wait_for(target, &head.nodes, LONGEST).await,
        None => Vec::new(),
    };
    print_outcome(&arguments.output, &head, target.as_ref(), &late)
}

fn print_outcome(
    output: &OutputArguments,
    head: &Rollout,
    target: Option<&DocumentVersion>,
    late: &[String],
) -> Result<ExitCode, CommandError> {
    if output.json {
        say(&serde_json::json!({
            "roll_out": head.number,
            "state": head.state.word(),
            "generation": generation(target),
            "nodes": head.nodes,
            "late": late,
        })
        .to_string());
        return Ok(ExitCode::from(u8::from(!late.is_empty())));
    }
    let Some(target) = target else {
        say(&format!(
            "{} the roll-out has ended; there is no earlier generation for {}: nodes that run this one keep it",
            style::good("done:"),
            selected_nodes(&head.selector)
        ));
        return Ok(ExitCode::SUCCESS);
    };
    let generation = target.generation;
    if !late.is_empty() {
        return Err(CommandError::new(format!(
            "nodes should run generation {generation}; these do not yet: {}",
            late.join(" ")
        ))
        .hint("`tutti fleet status` shows why"));
    }
    say(&format!(
        "{} generation {generation} is in force on {}",
        style::good("done:"),
        nodes(head.nodes.len())
    ));
    Ok(ExitCode::SUCCESS)
}
