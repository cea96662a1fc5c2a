//! `rewrite`: a new target for the rest of the request's way.
//!
//! The template is rendered as a target, encoded, and parsed like one from a client: conditions, files, applications and servers then see
//! the same path.

use smallvec::SmallVec;
use tutti_config::model::{Template, TemplatePart, Variable};
use tutti_http::{OwnedPath, encode_argument, encode_path, encode_written};
use tutti_script::EvaluatedPart;

use crate::fields;
use crate::info::RequestInfo;
use crate::render::{Groups, map_values, render_part};
use crate::script::{self, ScriptFailed};
use crate::variables;

/// Applies a `rewrite`. The first `?` in the text of the configuration begins the query, one in a value never does. That text may be
/// percent-encoded; values are not decoded again.
///
/// # Errors
/// It is a script that failed; the request has been notified.
pub fn rewrite<R: RequestInfo + ?Sized>(
    template: &Template,
    request: &R,
    merge_slashes: bool,
) -> Result<OwnedPath, ScriptFailed> {
    rewrite_with(template, Groups::default(), request, merge_slashes)
}

/// Applies a `rewrite` that may use these groups.
///
/// # Errors
/// As those of [`rewrite`].
pub(crate) fn rewrite_with<R: RequestInfo + ?Sized>(
    template: &Template,
    groups: Groups<'_>,
    request: &R,
    merge_slashes: bool,
) -> Result<OwnedPath, ScriptFailed> {
    let mut made = Made::default();
    for part in template.parts() {
        match part {
            TemplatePart::Literal(text) => made.literal(text.as_bytes(), encode_written),
            TemplatePart::Variable(variable) => made.variable(variable, request),
            TemplatePart::Map(_) | TemplatePart::Group(_) => {
                let mut value = Vec::new();
                render_part(part, groups, request, &mut value)?;
                made.value(&value);
            }
            // In the path, the text of a script is not percent-encoded.
            TemplatePart::Script(script) => {
                let maps = map_values(script, request)?;
                script::parts(script, maps, request, &mut |part| match part {
                    EvaluatedPart::Text(text) => made.literal(text, encode_path),
                    EvaluatedPart::Value(value) => made.value(value),
                })?
            }
        }
    }
    Ok(OwnedPath::made(
        &made.target(request.query()),
        merge_slashes,
    ))
}

/// The target being rendered.
#[derive(Default)]
struct Made {
    path: Vec<u8>,
    /// Set once a `?` has begun the query.
    query: Option<Vec<u8>>,
    /// It contains `$request_uri` or `$query`, so the client's query is not appended.
    is_sent: bool,
    /// The last character was a `?`: at the end of the template it drops the client's query.
    ends_in_mark: bool,
}

impl Made {
    /// Appends text of the configuration; `encode_for_path` writes what belongs to the path.
    fn literal(&mut self, text: &[u8], encode_for_path: fn(&[u8], &mut Vec<u8>)) {
        for (index, piece) in text.split(|byte| *byte == b'?').enumerate() {
            if index > 0 {
                self.mark();
                self.ends_in_mark = true;
            }
            if !piece.is_empty() {
                self.mark();
                match &mut self.query {
                    Some(query) => encode_written(piece, query),
                    None => encode_for_path(piece, &mut self.path),
                }
            }
        }
    }

    /// Appends a value.
    fn value(&mut self, value: &[u8]) {
        self.mark();
        match &mut self.query {
            Some(query) => encode_argument(value, query),
            None => encode_path(value, &mut self.path),
        }
    }

    /// Handles the last `?`: the first one begins the query.
    fn mark(&mut self) {
        if !std::mem::take(&mut self.ends_in_mark) {
            return;
        }
        let query = self.query.get_or_insert_default();
        if !query.is_empty() {
            query.push(if self.is_sent { b'&' } else { b'?' });
        }
    }

    fn variable<R: RequestInfo + ?Sized>(&mut self, variable: &Variable, request: &R) {
        self.mark();
        match variable {
            // Encoded already, and all of them: nothing is appended.
            Variable::Query if self.query.is_some() => self.sent_query(request.query()),
            _ if self.query.is_some() => {
                let mut value = Vec::new();
                variables::value(variable, request, &mut value);
                self.value(&value);
            }
            // Encoded already: an encoded slash is kept.
            Variable::Uri => {
                let path = request.request_path();
                self.path.extend_from_slice(path.encoded_path());
            }
            Variable::RequestUri => {
                let target = request.target();
                let end = memchr::memchr(b'?', target).unwrap_or(target.len());
                let (path, query) = target.split_at(end);
                self.path.extend_from_slice(path);
                self.query = query.get(1..).map(<[u8]>::to_vec);
                self.is_sent = true;
            }
            variable => {
                let mut value = Vec::new();
                variables::value(variable, request, &mut value);
                self.value(&value);
            }
        }
    }

    /// Appends the client's query as it is.
    fn sent_query(&mut self, sent: Option<&[u8]>) {
        self.is_sent = true;
        if let Some(query) = &mut self.query {
            match sent.unwrap_or_default() {
                // As in nginx, no `&` is left without arguments behind it.
                b"" if query.ends_with(b"&") => drop(query.pop()),
                sent => query.extend_from_slice(sent),
            }
        }
    }

    /// The complete target. The client's arguments are appended, except those that the template sets.
    fn target(self, sent: Option<&[u8]>) -> Vec<u8> {
        let sent = sent.filter(|_| !self.is_sent && !self.ends_in_mark);
        let mut target = self.path;
        let query = match (self.query, sent) {
            (Some(mut query), sent) => {
                append_others(&mut query, sent.unwrap_or_default());
                Some(query).filter(|query| !query.is_empty())
            }
            (None, sent) => sent.map(<[u8]>::to_vec),
        };
        if let Some(query) = query {
            target.push(b'?');
            target.extend_from_slice(&query);
        }
        target
    }
}

/// Appends the arguments of `sent` whose names do not occur in `query`.
fn append_others(query: &mut Vec<u8>, sent: &[u8]) {
    let names = |query: &[u8]| -> SmallVec<[Vec<u8>; 4]> {
        let mut names = SmallVec::new();
        fields::all_arguments(query, &mut |name, _| names.push(comparable(name)));
        names
    };
    let own = names(query.as_slice());
    for pair in sent.split(|byte| *byte == b'&') {
        if !pair.is_empty() && names(pair).iter().all(|name| !own.contains(name)) {
            if !query.is_empty() {
                query.push(b'&');
            }
            query.extend_from_slice(pair);
        }
    }
}

/// The name of an argument as PHP normalises it, the least strict of all: `a.b`, `a b`, `a[b` and `a_b[]` are equal, and a NUL ends a name.
fn comparable(name: &[u8]) -> Vec<u8> {
    let end = memchr::memchr(0, name).unwrap_or(name.len());
    let name = name.get(..end).unwrap_or_default();
    // A bracket that is not closed is a part of the name.
    let index = memchr::memchr(b'[', name).filter(|at| {
        let inner = name.get(at + 1..).unwrap_or_default();
        memchr::memchr(b']', inner).is_some()
    });
    let end = index.unwrap_or(name.len());
    let name = name.get(..end).unwrap_or_default().trim_ascii_start();
    let replaced = name.iter().map(|byte| match byte {
        b'.' | b' ' | b'[' => b'_',
        byte => *byte,
    });
    replaced.collect()
}
