//! Evaluates the conditions of a step.

use tutti_config::model::{Condition, Conditions, FieldSets, OutOfSteps, Patterns, Referers};

use crate::fields::{self, Decoded};
use crate::info::RequestInfo;
use crate::render::{is_true, render};
use crate::script::ScriptFailed;

/// A condition or destination could not be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecided<'c> {
    /// A script failed; the request has been notified.
    Script,
    /// A regular expression exceeded its step limit.
    Pattern(OutOfSteps<'c>),
}

impl From<ScriptFailed> for Undecided<'_> {
    fn from(_: ScriptFailed) -> Self {
        Undecided::Script
    }
}

impl<'c> From<OutOfSteps<'c>> for Undecided<'c> {
    fn from(out_of_steps: OutOfSteps<'c>) -> Self {
        Undecided::Pattern(out_of_steps)
    }
}

/// True if all conditions hold. The cheap ones are evaluated first.
///
/// # Errors
/// A script failed, or a regular expression exceeded its limit.
pub(crate) fn hold<'c, R: RequestInfo + ?Sized>(
    conditions: &'c Conditions,
    request: &R,
) -> Result<bool, Undecided<'c>> {
    if !plain_ones_hold(conditions, request)? {
        return Ok(false);
    }
    match &conditions.condition {
        None => Ok(true),
        Some(condition) => Ok(condition_holds(condition, request)?),
    }
}

/// All conditions except `if`.
fn plain_ones_hold<'c, R: RequestInfo + ?Sized>(
    conditions: &'c Conditions,
    request: &R,
) -> Result<bool, OutOfSteps<'c>> {
    Ok(conditions
        .https
        .is_none_or(|https| https == request.is_https())
        && matches(conditions.host.as_ref(), || request.host())?
        && matches(conditions.uri.as_ref(), || request.path())?
        && matches(conditions.method.as_ref(), || request.method())?
        && conditions
            .source
            .as_ref()
            .is_none_or(|source| source.matches(request.remote()))
        && conditions
            .destination
            .as_ref()
            .is_none_or(|destination| destination.matches(request.local()))
        && query_matches(conditions.query.as_ref(), || request.query())?
        && any_set(conditions.arguments.as_ref(), |name, each| {
            fields::each_argument(request.query().unwrap_or_default(), name, |value| {
                each(value);
                true
            });
        })?
        && any_set(conditions.cookies.as_ref(), |name, each| {
            request.each_field(b"cookie", &mut |field| {
                fields::each_cookie(field, name, &mut *each)
            });
        })?
        && any_set(conditions.headers.as_ref(), |name, each| {
            request.each_field(name, each)
        })?
        && referer_matches(conditions.referer.as_ref(), request)?)
}

/// Most steps have few conditions: only the values that are compared are read.
fn matches<'c, 'v>(
    patterns: Option<&'c Patterns>,
    value: impl FnOnce() -> &'v [u8],
) -> Result<bool, OutOfSteps<'c>> {
    patterns.map_or(Ok(true), |patterns| patterns.matches(value()))
}

/// All values of the field must be accepted: an application may look at any.
fn referer_matches<'c, R: RequestInfo + ?Sized>(
    referers: Option<&'c Referers>,
    request: &R,
) -> Result<bool, OutOfSteps<'c>> {
    let Some(referers) = referers else {
        return Ok(true);
    };
    let mut outcome = None;
    request.each_field(b"referer", &mut |value| {
        if !matches!(outcome, Some(Err(_) | Ok(false))) {
            outcome = Some(referers.accept(value, request.host()));
        }
    });
    outcome.unwrap_or_else(|| Ok(referers.accept_none()))
}

fn query_matches<'c, 'v>(
    patterns: Option<&'c Patterns>,
    query: impl FnOnce() -> Option<&'v [u8]>,
) -> Result<bool, OutOfSteps<'c>> {
    let Some(patterns) = patterns else {
        return Ok(true);
    };
    let raw = query().unwrap_or_default();
    if !fields::is_encoded(raw) {
        return patterns.matches(raw);
    }
    let mut decoded = Decoded::new();
    fields::decode(raw, &mut decoded);
    patterns.matches(&decoded)
}

/// At least one set must match: every field in it must exist, and all its values must match.
fn any_set<'c>(
    sets: Option<&'c FieldSets>,
    values: impl Fn(&[u8], &mut dyn FnMut(&[u8])),
) -> Result<bool, OutOfSteps<'c>> {
    let Some(sets) = sets else {
        return Ok(true);
    };
    let mut any = sets.0.is_empty();
    for set in &sets.0 {
        let mut all = true;
        for field in set {
            let mut is_there = false;
            let mut all_match = Ok(true);
            values(&field.name, &mut |value| {
                is_there = true;
                if all_match == Ok(true) {
                    all_match = field.patterns.matches(value);
                }
            });
            all = is_there && all_match?;
            if !all {
                break;
            }
        }
        any = any || all;
        if any {
            break;
        }
    }
    Ok(any)
}

/// True if an `if` holds.
pub(crate) fn condition_holds<R: RequestInfo + ?Sized>(
    condition: &Condition,
    request: &R,
) -> Result<bool, ScriptFailed> {
    let mut text = Vec::new();
    render(&condition.template, request, &mut text)?;
    Ok(is_true(&text) != condition.negated)
}
