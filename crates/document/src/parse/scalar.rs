//! Strings, numbers and words.

use super::{Parsed, Parser};
use crate::config_path::ConfigPath;
use crate::diagnostic::shorten;
use crate::tree::Value;

impl Parser<'_> {
    pub(super) fn single_quoted(&mut self, place: &ConfigPath<'_>) -> Parsed<String> {
        let start = self.position;
        let rest = self.text.get(start + 1..).unwrap_or_default();
        let Some(end) = rest
            .find(['\'', '\n'])
            .filter(|end| rest.as_bytes().get(*end) == Some(&b'\''))
        else {
            return self.lost(
                place,
                start,
                "strings need double quotes",
                Some("use double quotes"),
            );
        };
        self.slip(
            place,
            start,
            end + 2,
            "strings need double quotes",
            Some("use double quotes"),
        )?;
        self.position = start + end + 2;
        Ok(rest.get(..end).unwrap_or_default().to_owned())
    }

    pub(super) fn string(&mut self, place: &ConfigPath<'_>) -> Parsed<String> {
        let open = self.position;
        self.position += 1;
        let mut text = String::new();
        loop {
            let rest = self
                .text
                .as_bytes()
                .get(self.position..)
                .unwrap_or_default();
            let plain = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))
                .unwrap_or(rest.len());
            text.push_str(
                self.text
                    .get(self.position..self.position + plain)
                    .unwrap_or_default(),
            );
            self.position += plain;
            match self.peek() {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(text);
                }
                Some(b'\\') => self.escape(place, &mut text)?,
                Some(b'\n' | b'\r') => {
                    let hint = Some(
                        "add the missing quote; a line break inside a string is written `\\n`",
                    );
                    return self.lost(
                        place,
                        open,
                        "the string that begins here is not closed on its line",
                        hint,
                    );
                }
                Some(control) => {
                    let message =
                        format!("a string contains the control character 0x{control:02x}");
                    let hint = format!("write `\\u{control:04x}`");
                    self.slip(place, self.position, 1, &message, Some(&hint))?;
                    text.push(char::from(control));
                    self.position += 1;
                }
                None => {
                    return self.lost(
                        place,
                        open,
                        "the string that begins here is not closed",
                        None,
                    );
                }
            }
        }
    }

    fn escape(&mut self, place: &ConfigPath<'_>, text: &mut String) -> Parsed<()> {
        let start = self.position;
        let letter = self.text.as_bytes().get(start + 1).copied();
        self.position += 2;
        let character = match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(place, start, text),
            None => return self.lost(place, start, "the document ends inside a string", None),
            Some(_) => {
                // Stays on a character boundary: the character after the backslash may take several bytes.
                self.position = start + 1;
                let other = self
                    .text
                    .get(self.position..)
                    .and_then(|rest| rest.chars().next())
                    .unwrap_or('\\');
                let message = format!("`\\{other}` is not a JSON escape sequence");
                let hint = format!("write `\\\\{other}` for a backslash");
                self.slip(place, start, 1 + other.len_utf8(), &message, Some(&hint))?;
                text.push('\\');
                return Ok(());
            }
        };
        text.push(character);
        Ok(())
    }

    /// Parses `\uXXXX`, or a pair of them for characters beyond 16 bits.
    fn unicode(&mut self, place: &ConfigPath<'_>, start: usize, text: &mut String) -> Parsed<()> {
        let Some(first) = self.hex() else {
            self.slip(
                place,
                start,
                2,
                "`\\u` is not followed by four hexadecimal digits",
                None,
            )?;
            return Ok(());
        };
        let mut code = first;
        if (0xd800..0xdc00).contains(&first)
            && self.text.get(self.position..self.position + 2) == Some("\\u")
        {
            let before = self.position;
            self.position += 2;
            match self.hex() {
                Some(second) if (0xdc00..0xe000).contains(&second) => {
                    code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                }
                _ => self.position = before,
            }
        }
        match char::from_u32(code) {
            Some(character) => text.push(character),
            None => self.slip(
                place,
                start,
                6,
                "half of a surrogate pair is not a character",
                None,
            )?,
        }
        Ok(())
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.position..self.position + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.position += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    /// Consumes everything that looks like a number, then checks the grammar (RFC 8259 §6).
    pub(super) fn number(&mut self, place: &ConfigPath<'_>) -> Parsed<Value> {
        let start = self.position;
        let rest = self.text.get(start..).unwrap_or_default();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c)))
            .unwrap_or(rest.len());
        let number = rest.get(..end).unwrap_or_default();
        self.position += end;
        if let Err(hint) = check_number(number) {
            let message = format!("`{}` is not a JSON number", shorten(number));
            self.slip(place, start, end, &message, Some(hint))?;
            return Ok(Value::Number("0".into()));
        }
        Ok(Value::Number(number.into()))
    }

    pub(super) fn word(&mut self, place: &ConfigPath<'_>) -> Parsed<Value> {
        let start = self.position;
        let rest = self.text.get(start..).unwrap_or_default();
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || "_./:*$-".contains(c)))
            .unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        self.position += end;
        let (value, hint) = match word {
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            "null" => return Ok(Value::Null),
            "True" | "TRUE" | "yes" | "on" => (Value::Bool(true), "write `true`".to_owned()),
            "False" | "FALSE" | "no" | "off" => (Value::Bool(false), "write `false`".to_owned()),
            "None" | "NULL" | "Null" | "nil" | "undefined" => {
                (Value::Null, "write `null`".to_owned())
            }
            other => (
                Value::String(other.into()),
                format!("write `\"{}\"`", shorten(other)),
            ),
        };
        self.slip(
            place,
            start,
            end,
            &format!("`{}` needs quotes", shorten(word)),
            Some(&hint),
        )?;
        Ok(value)
    }
}

/// Returns the correction if `number` is not a number.
fn check_number(number: &str) -> Result<(), &'static str> {
    let unsigned = number.strip_prefix('-').unwrap_or(number);
    if number.starts_with('+') {
        return Err("leave the `+` out");
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() > 1 && whole.starts_with('0') && digits(whole) {
        return Err("leave the leading zeros out");
    }
    if whole.is_empty() && fraction.is_some_and(digits) {
        return Err("put a `0` before the point");
    }
    if !digits(whole) {
        return Err("strings need double quotes; numbers cannot have units");
    }
    if !fraction.is_none_or(digits) {
        return Err("put digits after the point");
    }
    let exponent = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
    if exponent.is_none_or(digits) {
        Ok(())
    } else {
        Err("put digits after the `e`")
    }
}
