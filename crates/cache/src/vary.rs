//! The request fields that select one of several responses with the same key (RFC 9111 §4.1).

use tutti_http::{FieldLines, list_members};

/// A response with more names in `Vary` is not stored: real ones have fewer.
const MOST_NAMES: usize = 16;

/// Longer values, which only probing clients send, match nothing.
const MOST_BYTES: usize = 4096;

/// A request field that selected a response: its name and the value.
type Choice = (Box<[u8]>, Box<[u8]>);

/// The request fields that selected a response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vary(Vec<Choice>);

impl Vary {
    /// Reads `Vary` of a response to a request whose fields `values` gives by name, if they are known; `None`: no other request can match.
    pub fn of(response: &FieldLines, values: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Self> {
        let mut chosen: Vec<Choice> = Vec::new();
        for name in response.get_all(b"Vary").flat_map(list_members) {
            if name == b"*" || chosen.len() == MOST_NAMES {
                return None;
            }
            let name: Box<[u8]> = name.to_ascii_lowercase().into();
            if chosen.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let value = normal(&name, &values(&name)?);
            if value.len() > MOST_BYTES {
                return None;
            }
            chosen.push((name, value.into()));
        }
        Some(Self(chosen))
    }

    /// Names and values.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Makes it from stored pairs; `None`: no stored response has such pairs.
    pub(crate) fn of_pairs(pairs: Vec<Choice>) -> Option<Self> {
        // `Vary: *` matches no request, and longer values are never stored.
        let is_sound = |(name, value): &Choice| **name != *b"*" && value.len() <= MOST_BYTES;
        (pairs.len() <= MOST_NAMES && pairs.iter().all(is_sound)).then_some(Self(pairs))
    }

    /// True if a request with these fields would get the same response.
    pub fn matches(&self, values: impl Fn(&[u8]) -> Option<Vec<u8>>) -> bool {
        self.0
            .iter()
            .all(|(name, value)| values(name).is_some_and(|own| normal(name, &own) == **value))
    }

    /// Bytes of memory.
    pub(crate) fn weight(&self) -> usize {
        let pair = |(name, value): &Choice| name.len() + value.len() + 32;
        self.0.iter().map(pair).sum()
    }
}

/// A value without insignificant differences: whitespace around members, and the order and case of codings.
fn normal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut members: Vec<Vec<u8>> = list_members(value).map(<[u8]>::to_vec).collect();
    if name == b"accept-encoding" {
        members
            .iter_mut()
            .for_each(|one| one.make_ascii_lowercase());
        members.sort_unstable();
    }
    members.join(&b", "[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(vary: &str) -> FieldLines {
        FieldLines::of("Vary", vary.as_bytes())
    }

    fn request(language: &'static str) -> impl Fn(&[u8]) -> Option<Vec<u8>> {
        move |name| match name {
            b"accept-language" | b"accept-encoding" => Some(language.into()),
            b"unknown" => None,
            _ => Some(Vec::new()),
        }
    }

    #[test]
    fn a_request_with_other_values_is_not_alike() {
        let vary = Vary::of(&response("Accept-Language, X-Other"), request("de, en")).unwrap();
        assert!(vary.matches(request("de,en")));
        assert!(!vary.matches(request("en,de")));
        assert!(!vary.matches(request("")));
        assert!(!vary.matches(request("DE,en")));
    }

    #[test]
    fn the_order_of_codings_does_not_matter() {
        let vary = Vary::of(&response("accept-encoding"), request("gzip, BR")).unwrap();
        assert!(vary.matches(request("br,gzip")));
        assert!(!vary.matches(request("br")));
    }

    #[test]
    fn a_vary_that_cannot_be_compared_prevents_storing() {
        assert_eq!(Vary::of(&response("*"), request("")), None);
        assert_eq!(Vary::of(&response("a, *"), request("")), None);
        assert_eq!(Vary::of(&response("b, unknown"), request("")), None);
        let many: Vec<String> = (0..20).map(|name| format!("n{name}")).collect();
        assert_eq!(Vary::of(&response(&many.join(",")), request("")), None);
        assert_eq!(
            Vary::of(&FieldLines::new(), request("")),
            Some(Vary::default())
        );
        assert_eq!(
            Vary::of(&response("x, X,x"), request("")).unwrap().0.len(),
            1
        );
    }
}
