//! The clients that rules of access let in, and how several rules are combined.

use serde_json::{Map, Value};

use super::section::Where;
use crate::output::one_or_many;

/// The clients that are let in.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Who {
    Any,
    NoClient,
    /// Conditions about the source and others, of which one must hold.
    Some(Vec<Clause>),
    /// Clients with a password.
    Asked(Authentication),
}

/// Conditions that must all hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Clause {
    /// Patterns of addresses; empty: any.
    pub(super) sources: Vec<String>,
    /// Tests in JavaScript.
    pub(super) tests: Vec<String>,
}

impl Clause {
    pub(super) fn of_sources(sources: Vec<String>) -> Self {
        Clause {
            sources,
            tests: Vec::new(),
        }
    }

    pub(super) fn of_test(test: String) -> Self {
        Clause {
            sources: Vec::new(),
            tests: vec![test],
        }
    }

    /// Both; `None` where no condition can express it.
    fn and(&self, other: &Clause) -> Option<Clause> {
        let has_positive = |list: &[String]| list.iter().any(|pattern| !pattern.starts_with('!'));
        if has_positive(&self.sources) && has_positive(&other.sources) {
            return None;
        }
        Some(Clause {
            sources: [self.sources.as_slice(), &other.sources].concat(),
            tests: [self.tests.as_slice(), &other.tests].concat(),
        })
    }

    /// Adds the conditions to those of a step.
    pub(super) fn restrict(&self, place: &Where) -> Map<String, Value> {
        let mut place = place.clone();
        for test in &self.tests {
            place.script(format!("({test})"));
        }
        let mut conditions = place.conditions();
        if !self.sources.is_empty() {
            conditions.insert("source".to_owned(), one_or_many(self.sources.clone()));
        }
        conditions
    }
}

/// The clients that need a password, and those that need none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Authentication {
    /// Clients with one of these need none.
    pub(super) past: Vec<Clause>,
    /// Conditions that must hold besides.
    pub(super) within: Clause,
    /// `basic` of `authenticate`.
    pub(super) basic: Map<String, Value>,
}

/// Conditions of which one must hold; combinations of them multiply.
const MOST_CLAUSES: usize = 64;

impl Who {
    /// True if addresses of clients decide.
    pub(super) fn looks_at_addresses(&self) -> bool {
        match self {
            Who::Any | Who::NoClient => false,
            Who::Some(clauses) => clauses.iter().any(|one| !one.sources.is_empty()),
            Who::Asked(asked) => asked
                .past
                .iter()
                .chain([&asked.within])
                .any(|one| !one.sources.is_empty()),
        }
    }

    /// Returns the clients that at least one of the two lets in.
    pub(super) fn or(self, other: Who) -> Who {
        match (self, other) {
            (Who::Any, _) | (_, Who::Any) => Who::Any,
            (Who::NoClient, who) | (who, Who::NoClient) => who,
            (Who::Asked(mut asked), Who::Some(lists))
            | (Who::Some(lists), Who::Asked(mut asked)) => {
                asked.past.extend(lists);
                Who::Asked(asked)
            }
            // One list of passwords is used; users of only the other one are not let in.
            (Who::Asked(mut asked), Who::Asked(other)) => {
                if asked.within == other.within {
                    asked.basic = both_lists(asked.basic, other.basic);
                    asked.past.extend(other.past);
                }
                Who::Asked(asked)
            }
            (Who::Some(mut clauses), Who::Some(more)) => {
                // Addresses that are let in are one list.
                let positive = |clause: &Clause| {
                    clause.tests.is_empty()
                        && clause
                            .sources
                            .iter()
                            .all(|pattern| !pattern.starts_with('!'))
                };
                for clause in more {
                    match clauses
                        .iter_mut()
                        .find(|known| positive(known))
                        .filter(|_| positive(&clause))
                    {
                        Some(known) => known.sources.extend(clause.sources),
                        None => clauses.push(clause),
                    }
                }
                Who::Some(clauses)
            }
        }
    }

    /// Returns the clients that both let in; `None` where no condition can express it.
    pub(super) fn and(self, other: Who) -> Option<Who> {
        Some(match (self, other) {
            (Who::NoClient, _) | (_, Who::NoClient) => Who::NoClient,
            (Who::Any, who) | (who, Who::Any) => who,
            (Who::Asked(mut asked), Who::Asked(other)) => {
                if !(asked.past.is_empty() && other.past.is_empty() && asked.basic == other.basic) {
                    return None;
                }
                asked.within = asked.within.and(&other.within)?;
                Who::Asked(asked)
            }
            (Who::Asked(mut asked), Who::Some(clauses))
            | (Who::Some(clauses), Who::Asked(mut asked)) => {
                let [clause] = clauses.as_slice() else {
                    return None;
                };
                if !asked.past.is_empty() {
                    return None;
                }
                asked.within = asked.within.and(clause)?;
                Who::Asked(asked)
            }
            (Who::Some(clauses), Who::Some(more)) => {
                let mut both = Vec::new();
                for one in &clauses {
                    for other in &more {
                        both.push(one.and(other)?);
                    }
                }
                if both.len() > MOST_CLAUSES {
                    return None;
                }
                Who::Some(both)
            }
        })
    }
}

/// Both lists of users, where one list can have them.
fn both_lists(one: Map<String, Value>, other: Map<String, Value>) -> Map<String, Value> {
    let users = |basic: &Map<String, Value>| basic.get("users").and_then(Value::as_object).cloned();
    match (users(&one), users(&other)) {
        (Some(mut users), Some(more)) => {
            users.extend(more);
            let mut both = one;
            both.insert("users".to_owned(), users.into());
            both
        }
        // Those of the file are all.
        (Some(_), None) => other,
        _ => one,
    }
}

pub(super) fn negated(who: Who) -> Option<Who> {
    Some(match who {
        Who::Any => Who::NoClient,
        Who::NoClient => Who::Any,
        Who::Asked(_) => return None,
        Who::Some(clauses) => {
            let [clause] = clauses.as_slice() else {
                return None;
            };
            if clause
                .sources
                .iter()
                .any(|pattern| pattern.starts_with('!'))
            {
                return None;
            }
            let mut opposites: Vec<Clause> = clause
                .tests
                .iter()
                .map(|test| Clause::of_test(format!("!({test})")))
                .collect();
            if !clause.sources.is_empty() {
                let sources = clause.sources.iter().map(|pattern| format!("!{pattern}"));
                opposites.push(Clause::of_sources(sources.collect()));
            }
            Who::Some(opposites)
        }
    })
}
