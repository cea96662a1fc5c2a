//! Answering with a file: conditions, ranges, and the bytes or the descriptor they come from.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::files::cache::{CachedFile, Content};
use crate::files::conditional::{Validators, Verdict};
use crate::files::range::{self, ByteRange, Requested};
use crate::request::{Changes, FileTail, Request, Segment, Step};
use crate::respond::{self, Page};

/// Appends the response to GET or HEAD of `file`.
pub(crate) fn respond(
    request: &Request<'_>,
    file: Rc<CachedFile>,
    changes: &Changes,
    out: &mut Vec<u8>,
) -> Step {
    let answer = Answer { request, changes };
    let conditions = request.conditions();
    if conditions.is_empty() {
        return whole(answer, file, out);
    }
    let validators = Validators {
        etag: &file.etag,
        modified: file.modified,
    };
    match conditions.evaluate(validators) {
        Verdict::Failed => short(answer, 412, b"", out),
        Verdict::NotModified => short(answer, 304, &file.validators, out),
        // RFC 9110 §14.2: a `Range` is for GET.
        Verdict::Proceed if request.is_head() => whole(answer, file, out),
        Verdict::Proceed => match conditions
            .effective_range(validators)
            .map(|range| range::parse(range, file.size))
        {
            None | Some(Requested::Whole) => whole(answer, file, out),
            Some(Requested::Unsatisfiable) => {
                let mut field = b"Content-Range: bytes */".to_vec();
                respond::append_number(&mut field, file.size);
                field.extend_from_slice(b"\r\n");
                short(answer, 416, &field, out)
            }
            Some(Requested::Parts(parts)) => match parts.as_slice() {
                [part] => single(answer, file, *part, out),
                parts => multiple(answer, file, parts, out),
            },
        },
    }
}

/// A request for a file, and what the configuration changes about the answer.
#[derive(Clone, Copy)]
struct Answer<'a> {
    request: &'a Request<'a>,
    changes: &'a Changes,
}

/// A response without the file's content.
fn short(answer: Answer<'_>, status: u16, fields: &[u8], out: &mut Vec<u8>) -> Step {
    let request = answer.request;
    let persistence = request.persistence();
    request.page(
        &Page {
            status,
            is_head: request.is_head(),
            persistence,
            fields,
        },
        answer.changes,
        out,
    );
    Step::End(persistence)
}

fn whole(answer: Answer<'_>, file: Rc<CachedFile>, out: &mut Vec<u8>) -> Step {
    let request = answer.request;
    let start = out.len();
    let persistence = request.persistence();
    respond::begin(out, &request.connection.local, request.snapshot, 200);
    out.extend_from_slice(&file.fields);
    respond::end(out, persistence);
    let segments = if request.is_head() {
        SmallVec::new()
    } else {
        SmallVec::from_iter([Segment::File(0..file.size)])
    };
    let body_bytes = if request.is_head() { 0 } else { file.size };
    body(
        answer,
        FileTail {
            status: 200,
            persistence,
            body_bytes,
            segments,
            file,
            head: Vec::new(),
        },
        out,
        start,
    )
}

fn single(answer: Answer<'_>, file: Rc<CachedFile>, part: ByteRange, out: &mut Vec<u8>) -> Step {
    let request = answer.request;
    let start = out.len();
    let persistence = request.persistence();
    respond::begin(out, &request.connection.local, request.snapshot, 206);
    if let Some(mime) = &file.mime {
        respond::field(out, "Content-Type", mime.as_bytes());
    }
    out.extend_from_slice(&file.validators);
    append_content_range(out, part, file.size);
    out.extend_from_slice(b"Content-Length: ");
    respond::append_number(out, part.len());
    out.extend_from_slice(b"\r\n");
    respond::end(out, persistence);
    let segments = SmallVec::from_iter([Segment::File(part.start..part.end)]);
    body(
        answer,
        FileTail {
            status: 206,
            persistence,
            body_bytes: part.len(),
            segments,
            file,
            head: Vec::new(),
        },
        out,
        start,
    )
}

/// `multipart/byteranges` (RFC 9110 §14.6).
fn multiple(
    answer: Answer<'_>,
    file: Rc<CachedFile>,
    parts: &[ByteRange],
    out: &mut Vec<u8>,
) -> Step {
    let request = answer.request;
    let start = out.len();
    let boundary = boundary(request, &file);
    let mut segments = SmallVec::new();
    let mut total = 0;
    for part in parts {
        let mut text = Vec::with_capacity(160);
        text.extend_from_slice(b"\r\n--");
        text.extend_from_slice(&boundary);
        text.extend_from_slice(b"\r\n");
        if let Some(mime) = &file.mime {
            respond::field(&mut text, "Content-Type", mime.as_bytes());
        }
        append_content_range(&mut text, *part, file.size);
        text.extend_from_slice(b"\r\n");
        total += text.len() as u64 + part.len();
        segments.push(Segment::Text(text));
        segments.push(Segment::File(part.start..part.end));
    }
    let mut text = b"\r\n--".to_vec();
    text.extend_from_slice(&boundary);
    text.extend_from_slice(b"--\r\n");
    total += text.len() as u64;
    segments.push(Segment::Text(text));

    let persistence = request.persistence();
    respond::begin(out, &request.connection.local, request.snapshot, 206);
    out.extend_from_slice(b"Content-Type: multipart/byteranges; boundary=");
    out.extend_from_slice(&boundary);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&file.validators);
    out.extend_from_slice(b"Content-Length: ");
    respond::append_number(out, total);
    out.extend_from_slice(b"\r\n");
    respond::end(out, persistence);
    body(
        answer,
        FileTail {
            status: 206,
            persistence,
            body_bytes: total,
            segments,
            file,
            head: Vec::new(),
        },
        out,
        start,
    )
}

/// Text that does not occur in the file but by chance: unpredictable to whoever wrote the file, so that none can be made to fake a part.
fn boundary(request: &Request<'_>, file: &CachedFile) -> Vec<u8> {
    use std::hash::{BuildHasher, RandomState};
    let seed = RandomState::new().hash_one((request.view.target(), file.size));
    format!("{seed:016x}{:08x}", file.modified as u32).into_bytes()
}

fn append_content_range(out: &mut Vec<u8>, part: ByteRange, size: u64) {
    out.extend_from_slice(b"Content-Range: bytes ");
    respond::append_number(out, part.start);
    out.push(b'-');
    respond::append_number(out, part.end.saturating_sub(1));
    out.push(b'/');
    respond::append_number(out, size);
    out.extend_from_slice(b"\r\n");
}

/// Finishes the head that begins at `start`, and appends the body if it is in memory; otherwise it is the next step.
fn body(answer: Answer<'_>, mut tail: FileTail, out: &mut Vec<u8>, start: usize) -> Step {
    let request = answer.request;
    request.adjust(tail.status, answer.changes, out, start);
    if let Content::Bytes(bytes) = &tail.file.content {
        request.finished(
            tail.status,
            tail.body_bytes,
            out.get(start..).unwrap_or_default(),
        );
        for segment in &tail.segments {
            match segment {
                Segment::Text(text) => out.extend_from_slice(text),
                Segment::File(range) => {
                    let range = range.start as usize..range.end as usize;
                    out.extend_from_slice(bytes.get(range).unwrap_or_default());
                }
            }
        }
        return Step::End(tail.persistence);
    }
    if request.snapshot.access_log.is_some() {
        tail.head = out.get(start..).unwrap_or_default().to_vec();
    }
    Step::File(tail)
}
