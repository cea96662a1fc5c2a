//! Stored certificates, and when they expire.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maud::{Markup, html};
use serde_json::Value;
use tutti_metrics::EXPIRES_SOON;

use crate::markup::{Mood, members, moment, plain, state, table, time, words};
use crate::watch::Seen;

/// The page's content.
pub(crate) fn content(seen: &Seen, stored: &Value) -> Markup {
    let columns = [
        words("Certificate"),
        words("State"),
        words("Expires"),
        words("Names"),
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
        @else { (table("certificates", "Stored certificates; a chain expires with its first certificate", &columns, &rows)) }
        (automatic(seen))
    }
}

/// Automatic certificates: when the next order is due, and why the last one failed.
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
        @if !rows.is_empty() { (table("automatic", "Automatic certificates", &columns, &rows)) }
    }
}

/// The first expiry in a chain.
fn end_of(seen: &Seen, name: &str) -> Option<SystemTime> {
    let look = seen.now.as_ref()?;
    let family = tutti_metrics::names::CERTIFICATE_EXPIRY.name;
    let end = look.readings.sum(family, &[("certificate", name)]);
    (end > 0.0).then(|| UNIX_EPOCH + Duration::from_secs_f64(end))
}

fn state_of(end: SystemTime) -> Markup {
    match end.duration_since(SystemTime::now()) {
        Err(_) => state("expired", Mood::Bad),
        Ok(left) if left < EXPIRES_SOON => state(
            &format!("expires in {}", time(left.as_secs())),
            Mood::Doubtful,
        ),
        Ok(left) => state(&format!("valid for {}", time(left.as_secs())), Mood::Good),
    }
}
