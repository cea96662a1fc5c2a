//! Random words.

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
