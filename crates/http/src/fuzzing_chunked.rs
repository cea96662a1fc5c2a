//! A second reading of the chunked coding, for the oracle of the first.

use crate::limits::MessageLimits;

/// `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )` without space before the first (RFC 9112 §7.1.1).
fn are_extensions(written: &[u8]) -> bool {
    fn skip_token(text: &[u8]) -> Option<&[u8]> {
        let is_part =
            |byte: &&u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let length = text.iter().take_while(is_part).count();
        (length > 0).then(|| text.get(length..)).flatten()
    }
    fn skip_value(text: &[u8]) -> Option<&[u8]> {
        let Some(mut text) = text.strip_prefix(b"\"") else {
            return skip_token(text);
        };
        loop {
            text = match text {
                [b'\\', _, rest @ ..] => rest,
                [b'"', rest @ ..] => return Some(rest),
                [b'\\'] | [] => return None,
                [_, rest @ ..] => rest,
            };
        }
    }
    fn skip_extension(text: &[u8]) -> Option<&[u8]> {
        let after = skip_token(text.strip_prefix(b";")?.trim_ascii_start())?;
        match after.trim_ascii_start().strip_prefix(b"=") {
            Some(value) => skip_value(value.trim_ascii_start()),
            None => Some(after),
        }
    }
    let mut rest = written;
    while !rest.is_empty() {
        match skip_extension(rest) {
            // Space may only be before another one.
            Some(after) if after.trim_ascii_start().starts_with(b";") => {
                rest = after.trim_ascii_start();
            }
            Some(after) => return after.is_empty(),
            None => return false,
        }
    }
    true
}

/// The data of a whole body, and its length with the framing.
pub(crate) fn decode(input: &[u8], limits: &MessageLimits) -> Option<(Vec<u8>, usize)> {
    fn line<'a>(input: &'a [u8], position: &mut usize) -> Option<&'a [u8]> {
        let rest = input.get(*position..)?;
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let line = rest.get(..end)?;
        *position += end + 2;
        let is_clean = line
            .iter()
            .all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
        is_clean.then_some(line)
    }
    let (mut data, mut position, mut extensions, mut trailers) = (Vec::new(), 0, 0, 0);
    loop {
        let head = line(input, &mut position)?;
        let digits = head.split(|&byte| byte == b';').next()?;
        extensions += head.len() - digits.len();
        if digits.is_empty()
            || digits.len() > 16
            || extensions > limits.max_chunk_extension_bytes as usize
        {
            return None;
        }
        let written = head.get(digits.len()..)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) || !are_extensions(written) {
            return None;
        }
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        data.extend_from_slice(input.get(position..position.checked_add(size)?)?);
        position += size;
        if input.get(position..position + 2)? != b"\r\n" || data.len() as u64 > limits.max_body_size
        {
            return None;
        }
        position += 2;
    }
    loop {
        let trailer = line(input, &mut position)?;
        trailers += trailer.len() + 1;
        if trailers > limits.max_trailer_bytes as usize {
            return None;
        }
        if trailer.is_empty() {
            return Some((data, position));
        }
        let name = trailer.split(|&byte| byte == b':').next()?;
        let forbidden = [
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "trailer",
        ];
        if name.len() == trailer.len()
            || !crate::is_field_name(name)
            || forbidden
                .iter()
                .any(|text| name.eq_ignore_ascii_case(text.as_bytes()))
        {
            return None;
        }
    }
}
