//! Templates with the values of a request.

use tutti_config::model::{
    CapturedGroups, ContentPart, Group, GroupOwner, ScriptPart, Template, TemplatePart, VariableMap,
};

use crate::info::RequestInfo;
use crate::json;
use crate::map;
use crate::script::{self, MapValues, ScriptFailed};
use crate::variables;

/// The groups that a template may use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Groups<'g> {
    /// Those of a map's expression, or of `match.uri`.
    pub(crate) of_match: Option<&'g CapturedGroups>,
    /// Those of `match.host`.
    pub(crate) of_host: Option<&'g CapturedGroups>,
}

impl Groups<'_> {
    /// The text of a group; empty if it took no part in the match.
    pub(crate) fn get(&self, group: &Group) -> &[u8] {
        let captured = match group.of {
            GroupOwner::Match => self.of_match,
            GroupOwner::Host => self.of_host,
        };
        captured.map_or(b"", |captured| captured.get(&group.name))
    }
}

/// Renders the template for this request.
///
/// # Errors
/// It is a script that failed; the request has been notified.
pub fn render<R: RequestInfo + ?Sized>(
    template: &Template,
    request: &R,
    out: &mut Vec<u8>,
) -> Result<(), ScriptFailed> {
    render_with(template, Groups::default(), request, out)
}

/// Renders a template that may use these groups.
///
/// # Errors
/// As those of [`render_part`].
pub(crate) fn render_with<R: RequestInfo + ?Sized>(
    template: &Template,
    groups: Groups<'_>,
    request: &R,
    out: &mut Vec<u8>,
) -> Result<(), ScriptFailed> {
    let mut parts = template.parts().iter();
    parts.try_for_each(|part| render_part(part, groups, request, out))
}

/// Renders a part of a template.
///
/// # Errors
/// It is a script that failed, or a map whose regular expression exceeded its step limit; the request has been notified.
pub(crate) fn render_part<R: RequestInfo + ?Sized>(
    part: &TemplatePart,
    groups: Groups<'_>,
    request: &R,
    out: &mut Vec<u8>,
) -> Result<(), ScriptFailed> {
    match part {
        TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
        TemplatePart::Variable(variable) => variables::value(variable, request, out),
        TemplatePart::Script(script) => {
            script::value(script, map_values(script, request)?, request, out)?;
        }
        TemplatePart::Map(map) => map_value(&map.0, request, out)?,
        TemplatePart::Group(group) => out.extend_from_slice(groups.get(group)),
    }
    Ok(())
}

/// Returns the values of the maps that a script names. They are evaluated before it: a map without a value must not look like an undefined
/// variable.
///
/// # Errors
/// As those of [`render_part`].
pub(crate) fn map_values<R: RequestInfo + ?Sized>(
    script: &ScriptPart,
    request: &R,
) -> Result<MapValues, ScriptFailed> {
    let maps = script.maps.iter().map(|map| {
        let mut value = Vec::new();
        map_value(&map.0, request, &mut value)?;
        Ok((format!("map_{}", map.0.name), value))
    });
    maps.collect()
}

fn map_value<R: RequestInfo + ?Sized>(
    map: &VariableMap,
    request: &R,
    out: &mut Vec<u8>,
) -> Result<(), ScriptFailed> {
    let mut key = Vec::new();
    render(&map.key, request, &mut key)?;
    let chosen = map::choose(map, &key).map_err(|out_of_steps| {
        request.pattern_failed(out_of_steps, &map.pointer);
        ScriptFailed
    })?;
    match chosen {
        Some((template, captured)) => {
            let groups = Groups {
                of_match: captured.as_ref(),
                of_host: None,
            };
            render_with(template, groups, request, out)
        }
        None => render(&map.default, request, out),
    }
}

/// Renders the body of a `return` for this request.
///
/// # Errors
/// It contains a script that failed; the request has been notified.
pub(crate) fn render_content<R: RequestInfo + ?Sized>(
    parts: &[ContentPart],
    groups: Groups<'_>,
    request: &R,
    out: &mut Vec<u8>,
) -> Result<(), ScriptFailed> {
    let mut value = Vec::new();
    for part in parts {
        match part {
            ContentPart::Literal(text) => out.extend_from_slice(text),
            ContentPart::Text(template) => render_with(template, groups, request, out)?,
            ContentPart::JsonText(template) => {
                value.clear();
                render_with(template, groups, request, &mut value)?;
                json::escape(&value, out);
            }
        }
    }
    Ok(())
}

/// True if a rendered `if` holds: it is not empty, `0`, `false`, `null` or `undefined`.
pub fn is_true(text: &[u8]) -> bool {
    !matches!(text, b"" | b"0" | b"false" | b"null" | b"undefined")
}
