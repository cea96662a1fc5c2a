//! Random ids.

/// Returns a random id, for a roll-out or a process.
pub fn random_word() -> String {
    let mut bytes = [0; 8];
    // A machine without randomness has bigger problems; the time is unique enough.
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |time| time.as_nanos());
        return format!("{now:032x}");
    }
    data_encoding::HEXLOWER.encode(&bytes)
}
