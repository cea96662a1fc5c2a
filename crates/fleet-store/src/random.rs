//! Random words and numbers.

/// A random word, for a roll-out or a process.
pub fn random_word() -> String {
    let mut bytes = [0; 8];
    // Without randomness a machine has other troubles; the time tells words apart as well.
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |time| time.as_nanos());
        return format!("{now:032x}");
    }
    data_encoding::HEXLOWER.encode(&bytes)
}

/// A random number below a bound, for pauses and orders that are not the same everywhere.
pub fn random_below(bound: u64) -> u64 {
    let mut bytes = [0; 8];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes) % bound.max(1),
        Err(_) => 0,
    }
}
