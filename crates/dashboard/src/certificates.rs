//! Stored certificates, and how long they hold.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maud::{Markup, html};
use serde_json::Value;

use crate::markup::{Mood, members, moment, plain, span, state, table, words};
use crate::watch::Seen;

/// A certificate that ends within this time should have been renewed.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// The page's content.
pub(crate) fn content(seen: &Seen, stored: &Value) -> Markup {
    let columns = [
        words("Certificate"),
        words("State"),
        words("Ends"),
        words("For"),
        words("Issued by"),
        words("Key"),
    ];
    let rows: Vec<Vec<Markup>> = members(stored, "")
        .map(|(name, bundle)| {
            let leaf = bundle.pointer("/chain/0");
            let part = |pointer: &str| leaf.and_then(|leaf| leaf.pointer(pointer));
            let names = part("/subject/alt_names").and_then(Value::as_array);
            let names: Vec<&str> = names
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let names = if names.is_empty() {
                plain(part("/subject/common_name"))
            } else {
                names.join(", ")
            };
            let issuer = part("/issuer/common_name").or_else(|| part("/issuer/organization"));
            let end = end_of(seen, name);
            vec![
                html! { (name) },
                end.map_or_else(|| html! { "–" }, state_of),
                end.map_or_else(|| html! { (plain(part("/validity/until"))) }, moment),
                html! { (names) },
                html! { (plain(issuer)) },
                html! { (plain(bundle.get("key"))) },
            ]
        })
        .collect();
    html! {
        @if rows.is_empty() { p.note { "There are no certificates." } }
        @else { (table("certificates", "Stored certificates; of a chain, the first that ends counts", &columns, &rows)) }
        (automatic(seen))
    }
}

/// Certificates that come by themselves: when the next order is due, and why the last one failed.
fn automatic(seen: &Seen) -> Markup {
    let columns = [
        words("Certificate"),
        words("Account"),
        words("State"),
        words("Next order"),
        words("Failures"),
        words("Last error"),
    ];
    let Some(look) = seen.now.as_ref() else {
        return html! {};
    };
    let all = members(&look.status, "/certificates");
    let all = all.filter(|(_, certificate)| certificate.get("state").is_some());
    let rows: Vec<Vec<Markup>> = all
        .map(|(name, certificate)| {
            let failures = certificate.get("failures").and_then(Value::as_u64);
            let failures = failures.unwrap_or(0);
            let mood = match certificate.get("state").and_then(Value::as_str) {
                Some("valid") if failures == 0 => Mood::Good,
                Some("missing") if failures > 0 => Mood::Bad,
                _ => Mood::Doubtful,
            };
            vec![
                html! { (name) },
                html! { (plain(certificate.get("account"))) },
                state(&plain(certificate.get("state")), mood),
                html! { (plain(certificate.get("next_order"))) },
                html! { (failures) },
                html! { (plain(certificate.pointer("/last_error/message"))) },
            ]
        })
        .collect();
    html! {
        @if !rows.is_empty() { (table("automatic", "Certificates that come by themselves", &columns, &rows)) }
    }
}

/// The metric knows the first end in a chain.
fn end_of(seen: &Seen, name: &str) -> Option<SystemTime> {
    let look = seen.now.as_ref()?;
    let family = tutti_metrics::names::CERTIFICATE_EXPIRY.name;
    let end = look.readings.sum(family, &[("certificate", name)]);
    (end > 0.0).then(|| UNIX_EPOCH + Duration::from_secs_f64(end))
}

fn state_of(end: SystemTime) -> Markup {
    match end.duration_since(SystemTime::now()) {
        Err(_) => state("has ended", Mood::Bad),
        Ok(left) if left < SOON => state(&format!("ends in {}", span(left)), Mood::Doubtful),
        Ok(left) => state(&format!("holds for {}", span(left)), Mood::Good),
    }
}
