//! Sizes with a unit: `512K`, `128M`, `1G`.

/// Parses a number of bytes: a whole number, then nothing or one of `K`, `M`, `G` (powers of 1024), in either case,
/// with or without a `B`.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    let factor: u64 = match unit.trim_start().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1000),
            ("512K", 512 << 10),
            ("128m", 128 << 20),
            ("1 GB", 1 << 30),
            ("3KiB", 3 << 10),
        ] {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for text in ["", "M", "-1M", "1.5G", "12T", "99999999999G", "1M2"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
