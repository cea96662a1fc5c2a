//! `replace`: literal texts in the body of a response are replaced as it passes.
//!
//! Bytes that may be the beginning of a text are kept back until the rest comes, at most the length of the longest one. Where several texts
//! begin at one place, the first in the configuration applies. The result does not depend on the pieces in which the body arrives.
//!
//! Must never: keep back more than that, except while much waits for the client, replace in a response that is encoded or partial, or let a
//! response grow without bound.

use memchr::memmem;
use tutti_config::model::Replacement;
use tutti_files::compression::{Described, has_whole_content};
use tutti_http::media_type;
use tutti_routing::Seen;

use crate::exchange::request::Request;
use crate::plan::Changes;
use crate::snapshot::Replacements;

/// Most bytes that replacements may add to one response: a client may choose the value of a variable, and how often a text occurs.
const MOST_ADDED: usize = 16 * 1024 * 1024;

/// Bytes that they may add to any response, and the multiple of a larger one's own length: what is kept back at the end of a body is replaced
/// at once, however slow the client is.
const FREELY_ADDED: usize = 1024 * 1024;
const MOST_TIMES: usize = 16;

/// Replaces texts in one body.
pub(crate) struct Replacer {
    texts: Vec<Text>,
    /// The length of the longest text.
    longest: usize,
    /// Bytes that may be the beginning of a text.
    kept: Vec<u8>,
    /// Bytes of the body so far.
    passed: usize,
    added: usize,
}

struct Text {
    find: Vec<u8>,
    with: Vec<u8>,
    once: bool,
    ignore_case: bool,
}

/// A response has grown too much.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overgrown;

impl std::fmt::Display for Overgrown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("`replace` makes it too large")
    }
}

/// True if texts are replaced in responses of this action, so that it needs whole, unencoded ones.
pub(crate) fn is_wanted(request: &Request<'_>) -> bool {
    request.settings().replace.is_some()
        && request.substitute.is_none_or(|one| one.mended.is_none())
}

/// True if texts are replaced in responses of this type.
pub(crate) fn applies_to(request: &Request<'_>, content_type: Option<&[u8]>) -> bool {
    let Some(content_type) = content_type else {
        return false;
    };
    let types = request.settings().replace.as_ref();
    let essence = media_type(content_type);
    // A pattern that cannot be evaluated changes nothing.
    is_wanted(request) && types.is_some_and(|one| one.types.matches(essence).unwrap_or(false))
}

impl Replacer {
    /// For a response that is described like this; `None`: nothing is replaced in it.
    pub(crate) fn of(
        request: &Request<'_>,
        response: &Described<'_>,
        changes: &Changes,
    ) -> Option<Self> {
        let wanted = request.settings().replace.as_ref()?;
        let has_whole_content = has_whole_content(response.status);
        let applies =
            has_whole_content && !response.is_fixed && applies_to(request, response.content_type);
        applies.then(|| Self::new(request, wanted, changes))
    }

    fn new(request: &Request<'_>, wanted: &Replacements, changes: &Changes) -> Self {
        let seen = Seen {
            request,
            rewritten: changes.rewritten.as_deref(),
            response: None,
        };
        let texts = wanted.list.iter().filter_map(|one: &Replacement| {
            let mut with = Vec::new();
            // A script that failed replaces nothing, which has been logged.
            tutti_routing::render(&one.with, &seen, &mut with).ok()?;
            Some(Text::new(one, with))
        });
        Self::of_texts(texts.collect())
    }

    fn of_texts(texts: Vec<Text>) -> Self {
        let lengths = texts.iter().map(|text| text.find.len());
        Self {
            longest: lengths.max().unwrap_or(0),
            texts,
            kept: Vec::new(),
            passed: 0,
            added: 0,
        }
    }

    /// True if a part of what it has taken waits for the next call, because `out` was full.
    pub(crate) fn is_behind(&self) -> bool {
        self.kept.len() >= self.longest.max(1)
    }

    /// Appends what is certain after another piece of the body, until `out` has `portion` bytes.
    pub(crate) fn write(
        &mut self,
        piece: &[u8],
        portion: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Overgrown> {
        self.passed = self.passed.saturating_add(piece.len());
        let mut bytes = std::mem::take(&mut self.kept);
        bytes.extend_from_slice(piece);
        // A text that begins before this end is whole.
        let end = (bytes.len() + 1).saturating_sub(self.longest.max(1));
        let done = self.replace((&bytes, end), portion, out)?;
        bytes.drain(..done);
        self.kept = bytes;
        Ok(())
    }

    /// Appends the rest, at the end of the body.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Overgrown> {
        let bytes = std::mem::take(&mut self.kept);
        let done = self.replace((&bytes, bytes.len()), usize::MAX, out)?;
        out.extend_from_slice(bytes.get(done..).unwrap_or_default());
        Ok(())
    }

    /// Replaces the texts that begin before `end`, until `out` has `portion` bytes; returns how many bytes are done.
    fn replace(
        &mut self,
        (bytes, end): (&[u8], usize),
        portion: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, Overgrown> {
        let lower = self.texts.iter().any(|text| text.ignore_case);
        let lower = lower.then(|| bytes.to_ascii_lowercase());
        let lower = lower.as_deref().unwrap_or_default();
        let times = self.passed.saturating_mul(MOST_TIMES);
        let most_added = times.clamp(FREELY_ADDED, MOST_ADDED);
        let mut position = 0;
        // Where each text is next, as far as that is known.
        let mut next: Vec<Option<usize>> = vec![Some(0); self.texts.len()];
        let mut is_known = vec![false; self.texts.len()];
        while position < end {
            if out.len() >= portion {
                return Ok(position);
            }
            let mut found: Option<(usize, usize)> = None;
            for (number, text) in self.texts.iter().enumerate() {
                let (Some(place), Some(known)) = (next.get_mut(number), is_known.get_mut(number))
                else {
                    continue;
                };
                if !*known || place.is_some_and(|place| place < position) {
                    let within = if text.ignore_case { lower } else { bytes };
                    let rest = within.get(position..).unwrap_or_default();
                    *place = memmem::find(rest, &text.find).map(|place| place + position);
                    *known = true;
                }
                if let Some(place) = *place
                    && place < end
                    && found.is_none_or(|(first, _)| place < first)
                {
                    found = Some((place, number));
                }
            }
            let Some((place, number)) = found else {
                break;
            };
            let Some(text) = self.texts.get(number) else {
                break;
            };
            out.extend_from_slice(bytes.get(position..place).unwrap_or_default());
            self.added += text.with.len().saturating_sub(text.find.len());
            if self.added > most_added {
                return Err(Overgrown);
            }
            out.extend_from_slice(&text.with);
            position = place + text.find.len();
            if text.once {
                self.texts.remove(number);
                next.remove(number);
                is_known.remove(number);
            }
        }
        let done = position.max(end);
        out.extend_from_slice(bytes.get(position..done).unwrap_or_default());
        Ok(done)
    }
}

impl Text {
    fn new(one: &Replacement, with: Vec<u8>) -> Self {
        let options = &one.options;
        let find = options.find.as_bytes();
        Self {
            find: match options.ignore_case {
                true => find.to_ascii_lowercase(),
                false => find.to_vec(),
            },
            with,
            once: options.once,
            ignore_case: options.ignore_case,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replacer(texts: &[(&str, &str, bool, bool)]) -> Replacer {
        let text = |(find, with, once, ignore_case): &(&str, &str, bool, bool)| Text {
            find: find.as_bytes().to_vec(),
            with: with.as_bytes().to_vec(),
            once: *once,
            ignore_case: *ignore_case,
        };
        Replacer::of_texts(texts.iter().map(text).collect())
    }

    #[test]
    fn the_pieces_do_not_matter() {
        let texts = [
            ("abc", "1", false, false),
            ("b", "22", false, false),
            ("abcd", "never", false, false),
            ("once", "ONE", true, false),
            ("tag>", "<tag>", false, true),
        ];
        let body = b"ab abc b abcd once once TAG> Tag> a onc";
        let expected = "a22 1 22 1d ONE once <tag> <tag> a onc";
        for length in 1..=body.len() {
            let mut replacer = replacer(&texts);
            let mut out = Vec::new();
            for piece in body.chunks(length) {
                replacer.write(piece, usize::MAX, &mut out).unwrap();
                assert!(replacer.kept.len() < 4, "{length}");
            }
            replacer.finish(&mut out).unwrap();
            assert_eq!(String::from_utf8_lossy(&out), expected, "{length}");
        }
    }

    #[test]
    fn a_response_does_not_grow_without_bound() {
        let with = "x".repeat(64 * 1024);
        let mut replacer = replacer(&[("a", &with, false, false)]);
        let mut out = Vec::new();
        let outcome = replacer.write(&[b'a'; 64 * 1024], usize::MAX, &mut out);
        assert_eq!(outcome, Err(Overgrown));
        assert!(out.len() <= FREELY_ADDED + with.len());
    }

    #[test]
    fn the_portions_do_not_matter() {
        let texts = [("a", "12345678", false, false), ("bcd", "", false, false)];
        let body = b"aabcda bc bcdaa bc";
        let expected = "123456781234567812345678 bc 1234567812345678 bc";
        for portion in 1..=expected.len() {
            let mut replacer = replacer(&texts);
            let (mut all, mut out) = (Vec::new(), Vec::new());
            replacer.write(body, portion, &mut out).unwrap();
            loop {
                // The last text that begins within the portion is whole, as are the bytes before it.
                assert!(out.len() < portion + 8 + 4, "{portion}: {}", out.len());
                all.append(&mut out);
                if !replacer.is_behind() {
                    break;
                }
                replacer.write(b"", portion, &mut out).unwrap();
            }
            replacer.finish(&mut all).unwrap();
            assert_eq!(String::from_utf8_lossy(&all), expected, "{portion}");
        }
    }

    #[test]
    fn without_texts_left_everything_passes_at_once() {
        let mut replacer = replacer(&[("head", "HEAD", true, false)]);
        let mut out = Vec::new();
        replacer.write(b"<head>", 1, &mut out).unwrap();
        replacer.write(b"<head>", usize::MAX, &mut out).unwrap();
        replacer.finish(&mut out).unwrap();
        assert_eq!(out, b"<HEAD><head>");
    }
}
