//! Whether a request fulfils the conditions of a step.

use tutti_config::model::{Condition, Conditions, FieldSets};

use crate::fields::{self, Decoded};
use crate::info::RequestInfo;
use crate::render::{is_true, render};
use crate::script::ScriptFailed;

/// Whether all conditions hold. The cheap ones are asked first.
///
/// # Errors
/// It depends on a script that failed: nobody can tell whom the step is for.
pub(crate) fn hold<R: RequestInfo + ?Sized>(
    conditions: &Conditions,
    request: &R,
) -> Result<bool, ScriptFailed> {
    if !plain_ones_hold(conditions, request) {
        return Ok(false);
    }
    match &conditions.condition {
        None => Ok(true),
        Some(condition) => condition_holds(condition, request),
    }
}

/// All but `if`.
fn plain_ones_hold<R: RequestInfo + ?Sized>(conditions: &Conditions, request: &R) -> bool {
    conditions
        .https
        .is_none_or(|https| https == request.is_https())
        && conditions
            .host
            .as_ref()
            .is_none_or(|host| host.matches(request.host()))
        && conditions
            .uri
            .as_ref()
            .is_none_or(|uri| uri.matches(request.path()))
        && conditions
            .method
            .as_ref()
            .is_none_or(|method| method.matches(request.method()))
        && conditions
            .source
            .as_ref()
            .is_none_or(|source| source.matches(request.remote()))
        && conditions
            .destination
            .as_ref()
            .is_none_or(|destination| destination.matches(request.local()))
        && conditions.query.as_ref().is_none_or(|query| {
            let raw = request.query().unwrap_or_default();
            if !fields::is_encoded(raw) {
                return query.matches(raw);
            }
            let mut decoded = Decoded::new();
            fields::decode(raw, &mut decoded);
            query.matches(&decoded)
        })
        && conditions.arguments.as_ref().is_none_or(|sets| {
            any_set(sets, |name, each| {
                fields::each_argument(request.query().unwrap_or_default(), name, |value| {
                    each(value);
                    true
                });
            })
        })
        && conditions.cookies.as_ref().is_none_or(|sets| {
            any_set(sets, |name, each| {
                request.each_field(b"cookie", &mut |field| {
                    fields::each_cookie(field, name, &mut *each)
                });
            })
        })
        && conditions
            .headers
            .as_ref()
            .is_none_or(|sets| any_set(sets, |name, each| request.each_field(name, each)))
}

/// One set must match; in it every field must be there, and all its values match.
fn any_set(sets: &FieldSets, values: impl Fn(&[u8], &mut dyn FnMut(&[u8]))) -> bool {
    sets.0.is_empty()
        || sets.0.iter().any(|set| {
            set.iter().all(|field| {
                let mut is_there = false;
                let mut all_match = true;
                values(&field.name, &mut |value| {
                    is_there = true;
                    all_match = all_match && field.patterns.matches(value);
                });
                is_there && all_match
            })
        })
}

/// Whether an `if` holds.
///
/// # Errors
/// Its script failed.
pub(crate) fn condition_holds<R: RequestInfo + ?Sized>(
    condition: &Condition,
    request: &R,
) -> Result<bool, ScriptFailed> {
    let mut text = Vec::new();
    render(&condition.template, request, &mut text)?;
    Ok(is_true(&text) != condition.negated)
}
