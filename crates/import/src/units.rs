//! Times and sizes as servers write them.

/// Bytes of the largest request body where the source has no limit of its own; Apache's since 2.4.53.
pub(crate) const USUAL_BODY: u64 = 1 << 30;

/// Bytes of a body that the source calls unlimited; no disk holds more than this.
pub(crate) const ANY_BODY: u64 = 1 << 50;

/// A time of nginx in seconds: `60`, `60s`, `1m30s`, `500ms`.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let mut total = 0.0;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, unit) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let end = unit
            .find(|character: char| character.is_ascii_digit())
            .unwrap_or(unit.len());
        let (unit, tail) = unit.split_at(end);
        let factor = match unit.trim() {
            "" | "s" => 1.0,
            "ms" => 0.001,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            "w" => 604_800.0,
            "M" => 2_592_000.0,
            "y" => 31_536_000.0,
            _ => return None,
        };
        total += number * factor;
        rest = tail.trim_start();
    }
    Some(total)
}

/// A size of nginx in bytes: `8k`, `10m`, `1g`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (number, factor) = match text.trim().to_ascii_lowercase() {
        text if text.ends_with('k') => (text.trim_end_matches('k').to_owned(), 1 << 10),
        text if text.ends_with('m') => (text.trim_end_matches('m').to_owned(), 1 << 20),
        text if text.ends_with('g') => (text.trim_end_matches('g').to_owned(), 1 << 30),
        text => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A time in whole seconds.
pub(crate) fn whole_seconds(text: &str) -> Option<u64> {
    seconds(text).map(|seconds| seconds.ceil() as u64)
}
