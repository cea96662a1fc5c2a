//! "did you mean": the nearest name, by edit distance with transpositions of neighbours.

use strsim::osa_distance;

/// Longer names are not compared: they are not typing mistakes, and the comparison is quadratic.
const LONGEST: usize = 128;

/// With more names than this there is no suggestion.
const MOST: usize = 10_000;

/// Returns the candidate nearest to `name`, if it is near enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .take(MOST)
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= limit)
        .map(|candidate| {
            (
                osa_distance(&lower, &candidate.to_ascii_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_slips_and_leaves_strangers_alone() {
        let keys = ["listeners", "routes", "applications", "settings"];
        assert_eq!(nearest("listener", keys), Some("listeners"));
        assert_eq!(nearest("lsiteners", keys), Some("listeners"));
        assert_eq!(nearest("Routes", keys), Some("routes"));
        assert_eq!(nearest("upstreams", keys), None);
        assert_eq!(nearest("", keys), None);
    }
}
