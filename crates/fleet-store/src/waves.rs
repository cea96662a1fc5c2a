//! The waves of a roll-out: their sizes, and whether the nodes of one have applied the document and are healthy.

use std::collections::BTreeMap;

use crate::records::{DocumentVersion, NodeReport};

/// With fewer requests than this, a percentage of errors means nothing.
const LEAST_REQUESTS: u64 = 20;

/// The size of a wave: a number or a percentage of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A number of nodes.
    Nodes(usize),
    /// A percentage of all nodes.
    Percent(f64),
}

/// Parses `1,10%,100%`. The last wave always covers all nodes.
///
/// # Errors
/// The reason, without a period.
pub fn read_waves(text: &str) -> Result<Vec<Size>, String> {
    let sizes = text.split(',').map(|size| {
        let size = size.trim();
        let wrong = || {
            format!("`{size}` is neither a number of nodes like `1` nor a percentage like `10%`")
        };
        match size.strip_suffix('%') {
            Some(percent) => match percent.parse::<f64>() {
                Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Size::Percent(percent)),
                _ => Err(wrong()),
            },
            None => match size.parse::<usize>() {
                Ok(nodes) if nodes > 0 => Ok(Size::Nodes(nodes)),
                _ => Err(wrong()),
            },
        }
    });
    sizes.collect()
}

/// Returns the nodes of each wave, including those of earlier waves, ordered by name. A wave without new nodes is left
/// out.
pub fn waves(sizes: &[Size], nodes: &[String]) -> Vec<Vec<String>> {
    let mut waves: Vec<Vec<String>> = Vec::new();
    for size in sizes.iter().chain([&Size::Percent(100.0)]) {
        let count = match size {
            Size::Nodes(count) => *count,
            // At least one: an empty wave proves nothing.
            Size::Percent(percent) => {
                ((nodes.len() as f64 * percent / 100.0).ceil() as usize).max(1)
            }
        };
        let count = count.min(nodes.len());
        let before = waves.last().map_or(0, Vec::len);
        if count > before {
            waves.push(nodes.iter().take(count).cloned().collect());
        }
    }
    waves
}

/// The state of the nodes of a wave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaveStatus {
    /// All have applied the document, and are healthy.
    Good,
    /// These have not applied it yet, are offline, or their server does not answer.
    Waiting(Vec<String>),
    /// One has rejected it, or is unhealthy with it.
    Bad {
        /// Its name.
        node: String,
        /// The place of the fault in the document, if there is one.
        pointer: Option<String>,
        /// The reason, in one sentence.
        reason: String,
    },
}

/// Judges the nodes of a wave. `most_errors` is the maximum percentage of 5xx responses.
pub fn judge(
    answers: &BTreeMap<String, NodeReport>,
    nodes: &[String],
    version: &DocumentVersion,
    most_errors: f64,
) -> WaveStatus {
    let mut waiting = Vec::new();
    for node in nodes {
        let Some(answer) = answers.get(node) else {
            waiting.push(node.clone());
            continue;
        };
        let bad = |pointer: Option<&str>, reason: String| WaveStatus::Bad {
            node: node.clone(),
            pointer: pointer.map(str::to_owned),
            reason,
        };
        if let Some(refused) = answer
            .refused
            .as_ref()
            .filter(|one| one.version == *version)
        {
            return bad(Some(&refused.pointer), refused.reason.clone());
        }
        if answer.version.as_ref() != Some(version) {
            waiting.push(node.clone());
            continue;
        }
        let health = &answer.health;
        if health.router_ends > 0 {
            let count = health.router_ends;
            let text = format!("the router has exited unexpectedly ({count}×) since then");
            return bad(None, text);
        }
        if health.is_unseen {
            waiting.push(node.clone());
            continue;
        }
        if health.start_failures > 0 {
            let count = health.start_failures;
            return bad(
                None,
                format!("failed application starts since then: {count}"),
            );
        }
        let is_enough = health.requests >= LEAST_REQUESTS;
        if is_enough && health.errors as f64 > health.requests as f64 * most_errors {
            let (errors, requests) = (health.errors, health.requests);
            return bad(
                None,
                format!("{errors} of {requests} requests were answered with a 5xx since then"),
            );
        }
    }
    match waiting.is_empty() {
        true => WaveStatus::Good,
        false => WaveStatus::Waiting(waiting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{NodeHealth, Rejection};

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("n{number:02}")).collect()
    }

    fn sizes(text: &str, count: usize) -> Vec<usize> {
        let waves = waves(&read_waves(text).unwrap(), &names(count));
        waves.iter().map(Vec::len).collect()
    }

    #[test]
    fn waves_grow_to_all_nodes() {
        assert_eq!(sizes("1,10%,100%", 30), [1, 3, 30]);
        assert_eq!(sizes("1,10%", 30), [1, 3, 30]);
        assert_eq!(sizes("1,10%,100%", 5), [1, 5]);
        assert_eq!(sizes("50%", 3), [2, 3]);
        assert_eq!(sizes("7", 3), [3]);
        assert_eq!(sizes("100%", 0), [] as [usize; 0]);
        for wrong in ["", "0", "0%", "101%", "a", "1,,2", "-1", "nan%"] {
            assert!(read_waves(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wave_is_good_when_all_have_applied_and_are_well() {
        let version = DocumentVersion::of(2, "{}");
        let former = DocumentVersion::of(1, "{}");
        let applied = |health| NodeReport {
            version: Some(version.clone()),
            health,
            ..NodeReport::default()
        };
        let judged = |answer: NodeReport| {
            let answers = BTreeMap::from([("n00".to_owned(), answer)]);
            judge(&answers, &names(1), &version, 0.05)
        };
        assert_eq!(judged(applied(NodeHealth::default())), WaveStatus::Good);
        assert_eq!(judged(NodeReport::default()), WaveStatus::Waiting(names(1)));
        let hanging = NodeHealth {
            is_unseen: true,
            ..NodeHealth::default()
        };
        assert_eq!(judged(applied(hanging)), WaveStatus::Waiting(names(1)));
        let few = NodeHealth {
            requests: 19,
            errors: 19,
            ..NodeHealth::default()
        };
        assert_eq!(judged(applied(few)), WaveStatus::Good);
        let bounded = NodeHealth {
            requests: 100,
            errors: 5,
            ..NodeHealth::default()
        };
        assert_eq!(judged(applied(bounded)), WaveStatus::Good);
        for bad in [
            NodeHealth {
                requests: 100,
                errors: 6,
                ..NodeHealth::default()
            },
            NodeHealth {
                start_failures: 1,
                ..NodeHealth::default()
            },
            // It may be down when it is asked.
            NodeHealth {
                router_ends: 1,
                is_unseen: true,
                ..NodeHealth::default()
            },
        ] {
            assert!(matches!(
                judged(applied(bad)),
                WaveStatus::Bad { pointer: None, .. }
            ));
        }
        let refused = |version: &DocumentVersion| NodeReport {
            version: Some(former.clone()),
            refused: Some(Rejection {
                version: version.clone(),
                pointer: "/routes".to_owned(),
                reason: "no".to_owned(),
            }),
            ..NodeReport::default()
        };
        assert!(matches!(
            judged(refused(&version)),
            WaveStatus::Bad {
                pointer: Some(_),
                ..
            }
        ));
        // An older rejection does not count.
        assert_eq!(judged(refused(&former)), WaveStatus::Waiting(names(1)));
        let none = judge(&BTreeMap::new(), &names(2), &version, 0.05);
        assert_eq!(none, WaveStatus::Waiting(names(2)));
    }
}
