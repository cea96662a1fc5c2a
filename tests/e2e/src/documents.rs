//! The examples of the guides in `docs/`, which are run as they stand.

use serde_json::Value;

/// A chapter of a page: the text below `## heading`, up to the next heading of that level.
///
/// # Panics
/// When the page has no such chapter.
pub fn chapter<'page>(page: &'page str, heading: &str) -> &'page str {
    let (_, text) = page
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no chapter `{heading}`"));
    text.split("\n## ").next().unwrap_or(text)
}

/// The blocks of a page that are marked as `language`.
pub fn examples(page: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    page.split(&start)
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .map(str::to_owned)
        .collect()
}

/// The JSON of a page, with each of `places` replaced: paths that are only there on the reader's machine.
pub fn json_examples(page: &str, places: &[(&str, &str)]) -> Vec<Value> {
    let fill = |text: String| {
        let each = places.iter();
        each.fold(text, |text, (from, to)| text.replace(from, to))
    };
    examples(page, "json")
        .into_iter()
        .map(|text| serde_json::from_str(&fill(text)).expect("an example is JSON"))
        .collect()
}
