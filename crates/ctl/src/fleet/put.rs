//! `tutti fleet put`: rolls out a configuration for all nodes, or for those with a label.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tutti_fleet_store::etcd::LONGEST_TEXT;
use tutti_fleet_store::records::{DocumentVersion, Rollout, RolloutState, concerned, digest};
use tutti_fleet_store::store::FleetStoreError;
use tutti_fleet_store::waves::{Size, read_waves, waves};
use tutti_fleet_store::{keys, now, random_word};

use super::arguments::{OutputArguments, SelectorArguments, nodes, selected_nodes};
use super::roll::{Bounds, Roll};
use super::store_access::{Fleet, Seen, StoreArguments, caller, failed};
use crate::check;
use crate::report::{CommandError, say};
use crate::style;

/// Documents that are kept in addition to those that nodes should run.
const KEPT_DOCUMENTS: u64 = 50;

/// Maximum number of records of roll-outs.
const KEPT_ROLL_OUTS: u64 = 200;

/// Attempts if others roll out for other labels at the same moment.
const ATTEMPTS: usize = 10;

#[derive(Args)]
pub(super) struct PutArguments {
    /// The configuration: a file or a folder of files (JSON with comments, YAML, TOML), or `-` for standard input
    file: PathBuf,
    /// Sizes of the waves: numbers or percentages of nodes. The last wave always covers all nodes
    #[arg(long, value_name = "SIZES", default_value = "1,10%,100%")]
    waves: String,
    /// Time that the nodes of a wave must be healthy before the next begins, in seconds or like `5m`
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = read_time)]
    wait: Duration,
    /// Maximum time for the nodes of a wave to apply it
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = read_time)]
    timeout: Duration,
    /// Maximum percentage of 5xx responses
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = read_share)]
    max_errors: f64,
    /// Only if these nodes run this generation
    #[arg(long, value_name = "GENERATION")]
    base: Option<u64>,
    /// Replace a roll-out in progress: its nodes roll back, unless this roll-out covers them
    #[arg(long)]
    take_over: bool,
    /// Message for the log
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    selector: SelectorArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    store: StoreArguments,
}

/// Parses `30s`, `5m`, `1h`, or a number of seconds.
pub(super) fn read_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('m') => (number, 60.0),
        Some(number) if text.ends_with('h') => (number, 3600.0),
        Some(number) => (number, 1.0),
        None => (text, 1.0),
    };
    let seconds = number.parse::<f64>().ok();
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds * unit).ok());
    time.ok_or_else(|| "expected a time such as `30s`, `5m` or `1h`".to_owned())
}

fn read_share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    match number {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a share such as `5%`".to_owned()),
    }
}

pub(super) async fn run(arguments: &PutArguments) -> Result<ExitCode, CommandError> {
    let sizes = read_waves(&arguments.waves).map_err(CommandError::new)?;
    let text = check::document_for_a_fleet(&arguments.file)?;
    if text.len() > LONGEST_TEXT {
        return Err(CommandError::new(format!(
            "the configuration has {} bytes, but a store accepts at most {LONGEST_TEXT}",
            text.len()
        )));
    }
    let fleet = Fleet::new(&arguments.store)?;
    let Some((head, waves)) = begin(&fleet, arguments, &sizes, &text).await? else {
        if !arguments.output.json {
            say("the fleet already runs this configuration");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let roll = Roll {
        fleet: &fleet,
        bounds: Bounds {
            wait: arguments.wait,
            timeout: arguments.timeout,
            most_errors: arguments.max_errors,
        },
        is_quiet: arguments.output.json,
    };
    if !roll.is_quiet {
        let generation = head
            .version
            .as_ref()
            .map_or(0, |version| version.generation);
        let sizes = match waves.as_slice() {
            [] => "; none is online".to_owned(),
            [only] => format!(", in one wave of {}", nodes(only.len())),
            _ => {
                let sizes: Vec<String> = waves.iter().map(|wave| wave.len().to_string()).collect();
                format!(", in waves of {} nodes", sizes.join(", "))
            }
        };
        let selected_nodes = selected_nodes(&head.selector);
        say(&format!(
            "{} for {selected_nodes}{sizes}",
            style::strong(&format!("generation {generation}"))
        ));
    }
    let done = roll.run(head, &waves).await;
    tidy(&fleet).await;
    done
}

/// Writes the document and starts the first wave. `None`: these nodes already run it.
async fn begin(
    fleet: &Fleet,
    arguments: &PutArguments,
    sizes: &[Size],
    text: &str,
) -> Result<Option<(Rollout, Vec<Vec<String>>)>, CommandError> {
    let selector = arguments.selector.selector();
    let mut first_seen: Option<Option<String>> = None;
    for _ in 0..ATTEMPTS {
        let seen = fleet.look().await?;
        let before = seen.texts.get(&keys::head(selector)).cloned();
        if *first_seen.get_or_insert_with(|| before.clone()) != before {
            return Err(changed_meanwhile(&seen, selector));
        }
        let current = seen.heads.get(selector);
        may_begin(arguments, current)?;
        let former = current.and_then(Rollout::settled);
        let is_settled = current.is_none_or(|head| head.state != RolloutState::Rolling);
        if is_settled && former.is_some_and(|former| former.digest == digest(text)) {
            return Ok(None);
        }
        let version =
            DocumentVersion::of(fleet.last(keys::DOCUMENTS).await?.saturating_add(1), text);
        let nodes = concerned(&seen.heads, &seen.answers, selector);
        let waves = waves(sizes, &nodes);
        let head = Rollout {
            id: random_word(),
            number: fleet.last(keys::LOG).await?.saturating_add(1),
            selector: selector.to_owned(),
            former: former.cloned(),
            state: match waves.is_empty() {
                true => RolloutState::Done,
                false => RolloutState::Rolling,
            },
            waves: arguments
                .waves
                .split(',')
                .map(|size| size.trim().to_owned())
                .collect(),
            wave: 1,
            nodes: waves.first().cloned().unwrap_or_default(),
            by: caller(),
            time: now(),
            comment: arguments.message.clone(),
            reason: None,
            version: Some(version.clone()),
        };
        let document = (keys::document(version.generation), Some(text.to_owned()));
        let swapped = fleet.swap(before.as_deref(), &head, &[document]).await;
        if swapped.map_err(failed)? {
            return Ok(Some((head, waves)));
        }
    }
    Err(CommandError::new("others keep changing the fleet").hint("try again"))
}

fn may_begin(arguments: &PutArguments, current: Option<&Rollout>) -> Result<(), CommandError> {
    if let Some(head) = current.filter(|head| head.state == RolloutState::Rolling)
        && !arguments.take_over
    {
        let text = format!(
            "a roll-out of {} is in progress, in wave {}",
            head.by, head.wave
        );
        return Err(CommandError::new(text).hint(
            "wait for it to finish; if it was abandoned: `tutti fleet rollback`, or this one with `--take-over`",
        ));
    }
    let runs = current
        .and_then(Rollout::settled)
        .map(|version| version.generation);
    if arguments.base.is_some() && arguments.base != runs {
        let runs = runs.map_or("none".to_owned(), |runs| runs.to_string());
        return Err(
            CommandError::new(format!("these nodes run another generation: {runs}"))
                .hint("`tutti fleet diff` shows its changes"),
        );
    }
    Ok(())
}

fn changed_meanwhile(seen: &Seen, selector: &str) -> CommandError {
    let by = seen.heads.get(selector).map(|head| head.by.as_str());
    let by = by.unwrap_or("an unknown user");
    CommandError::new(format!(
        "{by} has changed the fleet in the meantime; nothing was done"
    ))
    .hint("`tutti fleet log` and `tutti fleet diff` show the changes")
}

/// Removes documents and records that are too old. The rest is removed the next time.
async fn tidy(fleet: &Fleet) {
    let tidied = async {
        let texts = fleet.store.list(keys::HEADS).await?;
        let heads = tutti_fleet_store::records::read_all::<Rollout>(&texts, keys::HEADS);
        if heads.len() != texts.len() {
            // The documents of a head that cannot be read are unknown.
            return Ok(());
        }
        let used = heads
            .values()
            .flat_map(|head| [&head.version, &head.former]);
        let used: Vec<u64> = used.flatten().map(|version| version.generation).collect();
        for (prefix, kept) in [
            (keys::DOCUMENTS, KEPT_DOCUMENTS),
            (keys::LOG, KEPT_ROLL_OUTS),
        ] {
            let names = fleet.store.names(prefix).await?;
            let numbers = names.iter().filter_map(|name| keys::number(name));
            let oldest = numbers.max().unwrap_or_default().saturating_sub(kept);
            let is_old = |name: &&String| {
                let number = keys::number(name).unwrap_or(u64::MAX);
                number <= oldest && !(prefix == keys::DOCUMENTS && used.contains(&number))
            };
            // etcd accepts at most 128 operations at once.
            let old = names.iter().filter(is_old).take(100);
            let old: Vec<_> = old.map(|name| (name.clone(), None)).collect();
            if !old.is_empty() {
                // If a head has changed since, it may refer to one of them.
                let unchanged = texts
                    .iter()
                    .map(|(name, text)| (name.clone(), Some(text.clone())));
                let unchanged: Vec<_> = unchanged.collect();
                fleet.store.swap(&unchanged, &old).await?;
            }
        }
        Ok::<_, FleetStoreError>(())
    };
    if let Err(error) = tidied.await {
        say(&style::quiet(failed(error).message()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_shares_are_read_as_people_write_them() {
        let seconds = |text: &str| read_time(text).map(|time| time.as_secs_f64());
        assert_eq!(seconds("30s"), Ok(30.0));
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert_eq!(seconds("5m"), Ok(300.0));
        assert_eq!(seconds("1h"), Ok(3600.0));
        for wrong in ["", "s", "-1", "1d", "nan"] {
            assert!(read_time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read_share("5%"), Ok(0.05));
        assert_eq!(read_share("0"), Ok(0.0));
        assert!(read_share("101%").is_err() && read_share("x").is_err());
    }
}
