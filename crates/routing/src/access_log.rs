//! The access log's line.
//!
//! Values are escaped, so that a client can neither forge a line nor end its quotes: in text, `"`, `\`, control characters and non-ASCII
//! bytes become `\xXX` (as in nginx); JSON has its own escapes. An empty value is `-`.

use std::io::Write as _;

use tutti_config::model::{AccessLog, Condition, LogFormat, Template, TemplatePart};

use crate::conditions::condition_holds;
use crate::info::RequestInfo;
use crate::json::escape as escape_json;
use crate::render::{Groups, render, render_part};

/// The format of a line of the access log, and its condition.
#[derive(Debug)]
pub struct LogLine {
    format: LogFormat,
    condition: Option<Condition>,
}

impl LogLine {
    /// Compiles the configured format.
    pub fn compile(log: &AccessLog) -> LogLine {
        LogLine {
            format: log.format.clone(),
            condition: log.condition.clone(),
        }
    }

    /// True if this request should be logged. It is logged, too, if the script that decides has failed.
    pub fn is_wanted<R: RequestInfo + ?Sized>(&self, request: &R) -> bool {
        self.condition
            .as_ref()
            .is_none_or(|condition| condition_holds(condition, request).unwrap_or(true))
    }

    /// Appends the line, with its end.
    pub fn render<R: RequestInfo + ?Sized>(&self, request: &R, out: &mut Vec<u8>) {
        match &self.format {
            LogFormat::Text(template) => {
                template_line(template, request, out, escape_text);
            }
            LogFormat::Json(members) => {
                out.push(b'{');
                for (number, (name, value)) in members.iter().enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    out.push(b'"');
                    escape_json(name.as_bytes(), out);
                    out.extend_from_slice(b"\":");
                    if value.is_number {
                        json_number(&value.template, request, out);
                    } else {
                        out.push(b'"');
                        json_text(&value.template, request, out);
                        out.push(b'"');
                    }
                }
                out.push(b'}');
            }
        }
        out.push(b'\n');
    }
}

type Escape = fn(&[u8], &mut Vec<u8>);

fn template_line<R: RequestInfo + ?Sized>(
    template: &Template,
    request: &R,
    out: &mut Vec<u8>,
    escape: Escape,
) {
    for part in template.parts() {
        match part {
            TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
            TemplatePart::Script(_) => script_line(part, request, out),
            part => escaped(part, request, out, escape),
        }
    }
}

/// In JSON, literal text is escaped, too.
fn json_text<R: RequestInfo + ?Sized>(template: &Template, request: &R, out: &mut Vec<u8>) {
    for part in template.parts() {
        match part {
            TemplatePart::Literal(text) => escape_json(text.as_bytes(), out),
            TemplatePart::Script(_) => {
                let mut text = Vec::new();
                if render_part(part, Groups::default(), request, &mut text).is_err()
                    || text.is_empty()
                {
                    text = b"-".to_vec();
                }
                escape_json(&text, out);
            }
            part => escaped(part, request, out, escape_json),
        }
    }
}

/// A value that is not a JSON number, such as an argument sent by a client, becomes `null`: the line stays valid.
fn json_number<R: RequestInfo + ?Sized>(template: &Template, request: &R, out: &mut Vec<u8>) {
    let start = out.len();
    let is_rendered = render(template, request, out).is_ok();
    let written = out.get(start..).unwrap_or_default();
    if !is_rendered || !is_number(written) {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// RFC 8259 §6.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.starts_with(b"0")) {
        return false;
    }
    let mut rest = rest.get(whole..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = fraction.get(length..).unwrap_or_default();
    }
    if let Some(exponent) = rest.strip_prefix(b"e").or(rest.strip_prefix(b"E")) {
        let exponent = exponent
            .strip_prefix(b"-")
            .or(exponent.strip_prefix(b"+"))
            .unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

/// A script writes its own quotes, which cannot be distinguished from a client's; but line breaks are escaped, so it writes one line.
fn script_line<R: RequestInfo + ?Sized>(script: &TemplatePart, request: &R, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    if render_part(script, Groups::default(), request, &mut text).is_err() {
        out.push(b'-');
        return;
    }
    for byte in text.strip_suffix(b"\n").unwrap_or(&text) {
        if byte.is_ascii_control() {
            // Writing to a vector cannot fail.
            let _ = write!(out, "\\x{byte:02X}");
        } else {
            out.push(*byte);
        }
    }
}

/// The value is appended first, and replaced only if it must be escaped, which is rare.
fn escaped<R: RequestInfo + ?Sized>(
    part: &TemplatePart,
    request: &R,
    out: &mut Vec<u8>,
    escape: Escape,
) {
    let start = out.len();
    if render_part(part, Groups::default(), request, out).is_err() {
        out.truncate(start);
    }
    let written = out.get(start..).unwrap_or_default();
    if written.is_empty() {
        out.push(b'-');
    } else if written
        .iter()
        .any(|byte| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\'))
    {
        let raw = out.split_off(start);
        escape(&raw, out);
    }
}

fn escape_text(raw: &[u8], out: &mut Vec<u8>) {
    for byte in raw {
        // Bytes above ASCII may be terminal controls, and need not be UTF-8.
        if matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x7f..) {
            // Writing to a vector cannot fail.
            let _ = write!(out, "\\x{byte:02X}");
        } else {
            out.push(*byte);
        }
    }
}
