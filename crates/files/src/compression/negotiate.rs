//! `Accept-Encoding` (RFC 9110 §12.5.3): selects the offered method that a client prefers.

use tutti_config::model::{Compressor, Encoding};
use tutti_http::list_members;

/// A weight in thousandths.
type Weight = u16;

/// The weights that a client gave to the encodings.
#[derive(Debug, Default)]
struct Wishes {
    /// In the order of [`Encoding`]'s variants.
    named: [Option<Weight>; 4],
    others: Option<Weight>,
    /// The weight of an unencoded response.
    identity: Option<Weight>,
}

/// The method to which the client gives the highest weight, the first if there are several. `None`: no method, or an unencoded response is
/// preferred.
pub(super) fn best<'a>(
    accepted: impl Iterator<Item = &'a [u8]>,
    offered: impl Iterator<Item = Compressor>,
) -> Option<Compressor> {
    let wishes = Wishes::read(accepted);
    let mut best: Option<(Weight, Compressor)> = None;
    for compressor in offered {
        let weight = wishes.weight(compressor.encoding);
        if weight > best.map_or(0, |(weight, _)| weight) {
            best = Some((weight, compressor));
        }
    }
    let (weight, compressor) = best?;
    (weight >= wishes.identity.unwrap_or(0)).then_some(compressor)
}

impl Wishes {
    fn read<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut wishes = Self::default();
        for element in fields.flat_map(list_members) {
            let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let Some(weight) = parts.next().map_or(Some(1000), weight) else {
                continue;
            };
            let place = if name == b"*" {
                &mut wishes.others
            } else if name.eq_ignore_ascii_case(b"identity") {
                &mut wishes.identity
            } else {
                match position(name).and_then(|position| wishes.named.get_mut(position)) {
                    Some(place) => place,
                    None => continue,
                }
            };
            *place = Some(weight);
        }
        wishes
    }

    fn weight(&self, encoding: Encoding) -> Weight {
        let named = self.named.get(encoding as usize).copied().flatten();
        named.or(self.others).unwrap_or(0)
    }
}

/// The index of the encoding with this name.
fn position(name: &[u8]) -> Option<usize> {
    // RFC 9110 §8.4.1.3: `x-gzip` is `gzip`.
    let name = match name.get(..2) {
        Some(prefix) if prefix.eq_ignore_ascii_case(b"x-") => name.get(2..).unwrap_or_default(),
        _ => name,
    };
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    Encoding::from_word(&name).map(|encoding| encoding as usize)
}

/// `q=0.5` in thousandths; `None` if malformed.
fn weight(parameter: &[u8]) -> Option<Weight> {
    let value = match parameter {
        [b'q' | b'Q', b'=', value @ ..] => std::str::from_utf8(value).ok()?,
        _ => return None,
    };
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{fraction:0<3}").parse::<Weight>().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(accepted: &[&str], offered: &[Encoding]) -> &'static str {
        let compressors = offered.iter().map(|encoding| Compressor {
            encoding: *encoding,
            level: 1,
            min_length: 0,
        });
        best(accepted.iter().map(|field| field.as_bytes()), compressors)
            .map_or("none", |compressor| compressor.encoding.word())
    }

    #[test]
    fn the_highest_weight_wins_and_the_first_offered_among_equals() {
        use Encoding::{Br, Deflate, Gzip, Zstd};
        let all = [Br, Zstd, Gzip, Deflate];
        for (accepted, expected) in [
            (&["gzip, deflate, br, zstd"][..], "br"),
            (&["gzip;q=1.0, br;q=0.9"], "gzip"),
            (&["gzip", "deflate"], "gzip"),
            (&["X-GZIP"], "gzip"),
            (&["*"], "br"),
            (&["*;q=0.1, deflate"], "deflate"),
            (&["br;q=0, *"], "zstd"),
            (&["br;q=0"], "none"),
            (&[""], "none"),
            (&["identity"], "none"),
            (&["identity, gzip;q=0.5"], "none"),
            (&["identity;q=0.5, gzip"], "gzip"),
            (&["gzip;q=0.000"], "none"),
            (&["gzip;q=2"], "none"),
            (&["gzip;q=0.5555"], "none"),
            (&["gzip ; q=0.5"], "gzip"),
            (&["compress, unknown"], "none"),
            (&[", ,gzip,"], "gzip"),
        ] {
            assert_eq!(chosen(accepted, &all), expected, "{accepted:?}");
        }
        assert_eq!(chosen(&["gzip, br"], &[Gzip, Br]), "gzip");
        assert_eq!(chosen(&["br"], &[Gzip]), "none");
        assert_eq!(chosen(&[], &all), "none");
    }
}
