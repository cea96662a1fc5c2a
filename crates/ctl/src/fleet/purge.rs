//! `tutti fleet purge`: removes responses from the caches of all nodes.
//!
//! The purge is stored before the command waits for nodes: nodes that are offline make it when they are back.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args};
use serde_json::json;
use tutti_dialer::random_below;
use tutti_fleet_store::purges::{self, PurgeRecord};
use tutti_fleet_store::records::{NodeReport, read_all};
use tutti_fleet_store::store::StoreEntry;
use tutti_fleet_store::{keys, now, random_word};
use tutti_protocol::PurgeScope;

use super::arguments::{OutputArguments, nodes};
use super::put::read_time;
use super::roll::Answers;
use super::store_access::{Fleet, StoreArguments, caller, failed};
use crate::report::{CommandError, say};
use crate::style;

/// Attempts if others purge at the same moment: each time one of them succeeds.
const ATTEMPTS: u64 = 100;

/// The longest pause between two attempts.
const LONGEST_PAUSE: u64 = 200;

#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true).args(["url", "under", "tag", "all"])))]
pub(super) struct PurgeArguments {
    /// The cache, one of `settings.cache` [default: all caches]
    cache: Option<String>,
    /// The responses for this URL; if the action has `key`, those with this key
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The responses whose URLs or keys begin with this
    #[arg(long, value_name = "BEGINNING")]
    under: Option<String>,
    /// The responses with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Everything
    #[arg(long)]
    all: bool,
    /// Time to wait for nodes, in seconds or like `5m`. Nodes that take longer still purge
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = read_time)]
    timeout: Duration,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    store: StoreArguments,
}

impl PurgeArguments {
    fn what(&self) -> PurgeScope {
        match (&self.url, &self.under, &self.tag) {
            (Some(url), _, _) => PurgeScope::Key { key: url.clone() },
            (_, Some(under), _) => PurgeScope::Prefix {
                prefix: under.clone(),
            },
            (_, _, Some(tag)) => PurgeScope::Tag { tag: tag.clone() },
            _ => PurgeScope::All,
        }
    }
}

/// The nodes of a fleet, by their progress.
#[derive(Default)]
struct Nodes {
    purged: BTreeSet<String>,
    /// Online, and not finished.
    waiting: BTreeSet<String>,
    /// Were online, and are offline now.
    gone: BTreeSet<String>,
}

impl Nodes {
    /// Updates the sets from the current answers.
    fn note(&mut self, answers: &BTreeMap<String, NodeReport>, purge: &PurgeRecord) {
        let before = std::mem::take(&mut self.waiting);
        for (name, answer) in answers {
            match answer.purged.has(purge) {
                true => self.purged.insert(name.clone()),
                false => self.waiting.insert(name.clone()),
            };
        }
        self.gone.extend(before);
        let (there, done) = (&self.waiting, &self.purged);
        self.gone
            .retain(|name| !there.contains(name) && !done.contains(name));
        // Once is enough, even if the store was restored in the meantime and reports otherwise.
        self.waiting.retain(|name| !done.contains(name));
    }
}

pub(super) async fn run(arguments: &PurgeArguments) -> Result<ExitCode, CommandError> {
    let fleet = Fleet::new(&arguments.store)?;
    let purge = add(&fleet, arguments).await?;
    let until = Instant::now() + arguments.timeout;
    let mut found = Nodes::default();
    let mut answers = Answers::new(&fleet);
    loop {
        answers.wait().await;
        if answers.has_looked() {
            found.note(&answers.latest, &purge);
            if found.waiting.is_empty() {
                break;
            }
        }
        if Instant::now() >= until {
            break;
        }
    }
    let lost = answers.failure();
    if arguments.output.json {
        say(&json!({
            "purge": purge.number,
            "cache": purge.cache,
            "what": purge.what,
            "purged": found.purged,
            "waiting": found.waiting,
            "gone": found.gone,
        })
        .to_string());
        let is_done = lost.is_none() && found.waiting.is_empty();
        return Ok(ExitCode::from(u8::from(!is_done)));
    }
    if let Some(lost) = lost {
        return Err(lost.hint("the purge is stored: nodes make it when they reach the store"));
    }
    report(&purge, &found, arguments.timeout)
}

fn report(purge: &PurgeRecord, found: &Nodes, timeout: Duration) -> Result<ExitCode, CommandError> {
    let names = |names: &BTreeSet<String>| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.join(" ")
    };
    let number = purge.number;
    if !found.waiting.is_empty() {
        let purged = match found.purged.len() {
            0 => "no node has".to_owned(),
            _ => format!("purged: {}", names(&found.purged)),
        };
        let text = format!(
            "purge {number} was not made within {} seconds by: {}\n  {purged}",
            timeout.as_secs_f64(),
            names(&found.waiting)
        );
        let hint = "these nodes keep trying; their logs have the reason. The purge stays in the store for offline nodes";
        return Err(CommandError::new(text).hint(hint));
    }
    if !found.gone.is_empty() {
        say(&style::quiet(&format!(
            "offline, and purging when they are back: {}",
            names(&found.gone)
        )));
    }
    say(&match found.purged.len() {
        0 => format!(
            "{} no node is online; nodes make purge {number} when they come online",
            style::good("done:")
        ),
        count => format!(
            "{} purge {number} was made on {}: {}",
            style::good("done:"),
            nodes(count),
            names(&found.purged)
        ),
    });
    Ok(ExitCode::SUCCESS)
}

/// Adds a purge to the store after the existing ones, and removes the oldest.
async fn add(fleet: &Fleet, arguments: &PurgeArguments) -> Result<PurgeRecord, CommandError> {
    for attempt in 1..=ATTEMPTS {
        let texts = fleet.store.list(keys::PURGES).await.map_err(failed)?;
        let known: BTreeMap<String, PurgeRecord> = read_all(&texts, keys::PURGES);
        let last = purges::last(&known);
        let purge = PurgeRecord {
            id: random_word(),
            number: last.number.saturating_add(1),
            former: last.id,
            cache: arguments.cache.clone(),
            what: arguments.what(),
            by: caller(),
            time: now(),
        };
        let place = keys::purge(purge.number);
        let former = keys::purge(last.number);
        let expected: Vec<StoreEntry> = vec![
            (place.clone(), None),
            (former.clone(), texts.get(&former).cloned()),
        ];
        let text = serde_json::to_string(&purge);
        let text = text.map_err(|error| CommandError::new(error.to_string()))?;
        let mut wanted: Vec<StoreEntry> = vec![(place, Some(text))];
        let outdated = purges::outdated(&known, now()).into_iter();
        wanted.extend(outdated.map(|name| (format!("{}{name}", keys::PURGES), None)));
        if fleet.store.swap(&expected, &wanted).await.map_err(failed)? {
            return Ok(purge);
        }
        let pause = random_below((10 * attempt).min(LONGEST_PAUSE));
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    Err(CommandError::new(
        "too many other purges at this moment; nothing was done",
    ))
}

#[cfg(test)]
mod tests {
    use tutti_fleet_store::purges::LastPurge;

    use super::*;

    #[test]
    fn nodes_are_distinguished_by_what_they_have_done() {
        let purge = PurgeRecord {
            id: "x".to_owned(),
            number: 2,
            former: String::new(),
            cache: None,
            what: PurgeScope::All,
            by: String::new(),
            time: 0,
        };
        let answers = |all: &[(&str, bool)]| {
            let all = all.iter().map(|(name, has_purged)| {
                let purged = match has_purged {
                    true => LastPurge::of(&purge),
                    false => LastPurge::default(),
                };
                let answer = NodeReport {
                    purged,
                    ..NodeReport::default()
                };
                ((*name).to_owned(), answer)
            });
            all.collect::<BTreeMap<_, _>>()
        };
        let set = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned());
            names.collect::<BTreeSet<_>>()
        };
        let mut nodes = Nodes::default();
        nodes.note(&answers(&[("a", true), ("b", false), ("c", false)]), &purge);
        assert_eq!(
            (&nodes.purged, &nodes.waiting),
            (&set(&["a"]), &set(&["b", "c"]))
        );
        // One node has gone offline, and another one comes online.
        nodes.note(&answers(&[("a", true), ("b", true), ("d", false)]), &purge);
        assert_eq!(nodes.purged, set(&["a", "b"]));
        assert_eq!((&nodes.waiting, &nodes.gone), (&set(&["d"]), &set(&["c"])));
        // The first one is back.
        nodes.note(&answers(&[("c", true), ("d", true)]), &purge);
        assert_eq!(nodes.purged, set(&["a", "b", "c", "d"]));
        assert!(nodes.waiting.is_empty() && nodes.gone.is_empty());
    }
}
