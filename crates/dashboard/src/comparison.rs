//! Two configurations of the history, line by line.

use std::time::Duration;

use maud::{Markup, html};
use similar::{ChangeTag, TextDiff};
use tutti_metrics::status_value::plural;

use crate::listing::Listing;

/// Lines shown around those that differ.
const AROUND: usize = 3;

/// A comparison that takes longer is completed coarsely: it may show more than the actual changes, never less.
const LONGEST: Duration = Duration::from_millis(300);

/// The page's content.
pub(crate) fn content(from: (u64, &Listing), to: (u64, &Listing)) -> Markup {
    let (before, after) = (from.1.texts(), to.1.texts());
    let diff = TextDiff::configure()
        .timeout(LONGEST)
        .diff_slices(&before, &after);
    let groups = diff.grouped_ops(AROUND);
    let count = |tag: ChangeTag| {
        diff.iter_all_changes()
            .filter(|change| change.tag() == tag)
            .count() as u64
    };
    html! {
        p { a href="/configuration" { "Back to the configuration" } }
        @if groups.is_empty() {
            p.note { "Change " (from.0) " and change " (to.0) " have the same configuration." }
        } @else {
            p { "From change " (from.0) " to change " (to.0) ": " (plural(count(ChangeTag::Delete), "line")) " removed, " (plural(count(ChangeTag::Insert), "line")) " added." }
            div.scroll.code.diff role="region" aria-label="Differences" tabindex="0" {
                @for (index, group) in groups.iter().enumerate() {
                    @if index > 0 { p.gap { "…" } }
                    @for operation in group { @for change in diff.iter_changes(operation) {
                        @match change.tag() {
                            ChangeTag::Delete => { del { span.sign { "− " } code { (change.value()) } } }
                            ChangeTag::Insert => { ins { span.sign { "+ " } code { (change.value()) } } }
                            ChangeTag::Equal => { div { span.sign { "  " } code { (change.value()) } } }
                        }
                    } }
                }
            }
        }
        @if from.1.is_cut || to.1.is_cut {
            p.note { "Only the first lines are compared: the configurations are longer." }
        }
    }
}
