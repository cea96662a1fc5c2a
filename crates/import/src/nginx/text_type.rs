//! The type of the text that a `return` sends.

use serde_json::{Map, Value, json};

use super::site::Site;
use super::types::{MOST_ENDINGS, by_ending};

/// The types of texts here: the usual one, and those of the endings that a path may have.
fn text_types(site: &Site) -> (String, Vec<(String, String)>) {
    let types = &site.scope.types;
    let usual = types.with_charset(types.default());
    let all = types.endings();
    let of = |path: &str| {
        let last = path.rsplit('/').next().unwrap_or_default();
        let (_, ending) = last.rsplit_once('.')?;
        let ending = ending.to_ascii_lowercase();
        all.iter().find(|(known, _)| *known == ending)
    };
    if let (Some(path), true) = (&site.prefix, site.is_exact) {
        let own = of(path).map(|(_, mime)| types.with_charset(mime));
        return (own.unwrap_or(usual), Vec::new());
    }
    let may_be = |ending: &str| match &site.expression {
        // One that names endings has no others.
        Some(expression) if expression.contains(r"\.") => {
            expression.to_ascii_lowercase().contains(ending)
        }
        _ => all.len() <= MOST_ENDINGS,
    };
    let endings = all.iter().filter(|(ending, _)| may_be(ending));
    let endings = endings.map(|(ending, mime)| ((*ending).to_owned(), types.with_charset(mime)));
    let mut endings: Vec<(String, String)> = endings.filter(|(_, mime)| *mime != usual).collect();
    endings.truncate(MOST_ENDINGS);
    (usual, endings)
}

/// Sets the type of the text that an action returns.
pub(super) fn set(site: &Site, action: &mut Value) {
    let (usual, endings) = text_types(site);
    let Some(action) = action.as_object_mut() else {
        return;
    };
    if usual.contains('/') {
        action.insert("content_type".to_owned(), usual.clone().into());
    }
    let is_empty = action.get("body").is_some_and(|body| body == "");
    let fields = action.get("response_headers").and_then(Value::as_object);
    // A field of the source goes first.
    if endings.is_empty() || is_empty || fields.is_some_and(has_type) {
        return;
    }
    let fields = action
        .entry("response_headers_always")
        .or_insert_with(|| json!({}));
    if let Some(fields) = fields.as_object_mut() {
        add(fields, by_ending(&usual, &endings));
    }
}

fn has_type(fields: &Map<String, Value>) -> bool {
    let mut names = fields.keys();
    names.any(|name| name.eq_ignore_ascii_case("content-type"))
}

fn add(fields: &mut Map<String, Value>, value: String) {
    if !has_type(fields) {
        fields.insert("Content-Type".to_owned(), value.into());
    }
}
