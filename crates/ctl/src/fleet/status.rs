//! `tutti fleet status`: the nodes, their generations and their health.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};
use tutti_fleet_store::now;
use tutti_fleet_store::records::{NodeReport, Rollout, RolloutState, choose};
use tutti_metrics::status_value::{plural, time};

use super::arguments::selected_nodes;
use super::roll::generation;
use super::store_access::{Fleet, Seen};
use crate::report::{CommandError, say};
use crate::style;
use crate::wrap::for_stdout;

/// The state of a node, in one word.
fn state(answer: &NodeReport, heads: &BTreeMap<String, Rollout>) -> &'static str {
    let wanted = choose(heads, &answer.name, &answer.labels).map(|(_, version)| version);
    if answer.refused.is_some() {
        return "refused";
    }
    match wanted {
        Some(wanted) if answer.version.as_ref() != Some(wanted) => "applying",
        _ if answer.differs => "differs",
        _ if answer.version.is_none() => "waiting",
        _ => "applied",
    }
}

fn json(seen: &Seen) -> Value {
    let node = |answer: &NodeReport| {
        let chosen = choose(&seen.heads, &answer.name, &answer.labels);
        json!({
            "state": state(answer, &seen.heads),
            "generation": generation(answer.version.as_ref()),
            "wanted": generation(chosen.map(|(_, version)| version)),
            "of": chosen.map(|(selector, _)| selector),
            "since": answer.since,
            "labels": answer.labels,
            "server": answer.server,
            "health": answer.health,
            "refused": answer.refused,
            "certificates": answer.certificates,
            "time": answer.time,
        })
    };
    let nodes = seen.answers.iter();
    let nodes: serde_json::Map<_, _> = nodes
        .map(|(name, answer)| (name.clone(), node(answer)))
        .collect();
    json!({"heads": seen.heads, "nodes": nodes})
}

pub(super) async fn run(fleet: &Fleet, is_json: bool) -> Result<ExitCode, CommandError> {
    let seen = fleet.look().await?;
    if is_json {
        say(&json(&seen).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    if seen.heads.is_empty() {
        say("no configuration has been rolled out yet: `tutti fleet put FILE`");
    }
    for head in seen.heads.values() {
        say(&head_line(head));
    }
    if seen.answers.is_empty() {
        say("no node is online");
        return Ok(ExitCode::SUCCESS);
    }
    say("");
    let rows: Vec<[String; 6]> = seen
        .answers
        .values()
        .map(|answer| row(answer, &seen.heads))
        .collect();
    table(&rows);
    for answer in seen.answers.values() {
        for line in certificate_lines(answer) {
            say(&line);
        }
        if let Some(refused) = &answer.refused {
            let text = format!(
                "node `{}` rejects generation {}",
                answer.name, refused.version.generation
            );
            let reason = for_stdout(&refused.reason, text.chars().count() + 2, 2);
            say(&format!("{}: {reason}", style::bad(&text)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns lines for the certificates of the fleet that a node could not apply.
fn certificate_lines(answer: &NodeReport) -> Vec<String> {
    let sharing = &answer.certificates;
    let all = sharing.error.iter().map(|reason| {
        let text = format!("node `{}` cannot apply certificates", answer.name);
        format!("{}: {reason}", style::bad(&text))
    });
    let refused = sharing.refused.iter().map(|(name, reason)| {
        let text = format!("node `{}` rejects the certificate `{name}`", answer.name);
        format!("{}: {reason}", style::bad(&text))
    });
    all.chain(refused).collect()
}

/// `generation 7 for all nodes: rolling, in wave 2 (waves: 1, 10%, 100%), begun 40 seconds ago by anna@laptop`.
fn head_line(head: &Rollout) -> String {
    let runs = match head.state {
        RolloutState::Returned => &head.former,
        RolloutState::Done | RolloutState::Rolling => &head.version,
    };
    let what = match runs {
        Some(version) => format!("generation {}", version.generation),
        None => "no document".to_owned(),
    };
    let state = match head.state {
        RolloutState::Done => style::good("done") + ",",
        RolloutState::Rolling => {
            format!(
                "{}, in wave {} (waves: {}), begun",
                style::strong("rolling"),
                head.wave,
                head.waves.join(", ")
            )
        }
        RolloutState::Returned => {
            let from = head
                .version
                .as_ref()
                .map_or(0, |version| version.generation);
            format!("{} from generation {from},", style::bad("returned"))
        }
    };
    let ago = time(now().saturating_sub(head.time));
    let mut line = format!(
        "{} for {}: {state} {ago} ago by {}",
        style::strong(&what),
        selected_nodes(&head.selector),
        head.by
    );
    if let Some(reason) = &head.reason {
        line.push_str(&format!("\n  {}", for_stdout(reason, 2, 2)));
    }
    line
}

fn row(answer: &NodeReport, heads: &BTreeMap<String, Rollout>) -> [String; 6] {
    let health = &answer.health;
    let requests = plural(health.requests, "request");
    let mut well = format!("{requests}, {} with 5xx", health.errors);
    if health.start_failures > 0 {
        let starts = plural(health.start_failures, "failed start");
        well.push_str(&format!(", {starts}"));
    }
    if health.router_ends > 0 {
        let exits = plural(health.router_ends, "exit");
        well.push_str(&format!(", {exits} of the router"));
    }
    if health.is_unseen {
        well.push_str(", does not answer");
    }
    let labels = answer.labels.iter();
    let labels: Vec<String> = labels
        .map(|(label, value)| format!("{label}={value}"))
        .collect();
    [
        answer.name.clone(),
        answer
            .version
            .as_ref()
            .map_or("-".to_owned(), |version| version.generation.to_string()),
        state(answer, heads).to_owned(),
        well,
        answer.server.clone(),
        labels.join(" "),
    ]
}

fn table(rows: &[[String; 6]]) {
    let head = [
        "node",
        "generation",
        "state",
        "since then",
        "server",
        "labels",
    ];
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(column, name)| {
            let cells = rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count());
            cells.chain([name.len()]).max().unwrap_or_default()
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let cells = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let cells: Vec<String> = cells.collect();
        cells.join("  ").trim_end().to_owned()
    };
    say(&style::quiet(&line(head.to_vec())));
    for row in rows {
        say(&line(row.iter().map(String::as_str).collect()));
    }
}
