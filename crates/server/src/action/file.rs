//! Answering with a file: conditions, ranges, and the bytes or the descriptor they come from.

use std::rc::Rc;

use smallvec::SmallVec;
use tutti_config::model::Compressor;
use tutti_http::{DeclaredBody, ResponseQuestion, frame_response};
use tutti_pool::Level;

use crate::holdings::EncoderCharge;
use crate::plan::Changes;
use crate::request::Request;
use crate::respond::{self, Page};
use crate::step::{Compressing, FileTail, Segment, Step};
use tutti_files::cache::{CachedFile, Content};
use tutti_files::compression::{Choice, Described, VARY};
use tutti_files::conditional::{Validators, Verdict};
use tutti_files::range::{self, ByteRange, Requested};

/// Appends the response to GET or HEAD of `file`.
pub(crate) fn respond(
    request: &Request<'_>,
    file: Rc<CachedFile>,
    changes: &Changes,
    out: &mut Vec<u8>,
) -> Step {
    let choice = request.compression(&Described {
        status: 200,
        content_type: file.mime.as_deref().map(str::as_bytes),
        is_fixed: false,
        length: Some(file.size),
    });
    let answer = Answer {
        request,
        changes,
        varies: choice.varies(),
    };
    let (file, compressor) = match choice {
        Choice::Compress(compressor) => match representation(request, &file, &compressor) {
            Some((compressed, encoder)) => (compressed, Some((compressor, encoder))),
            None => (file, None),
        },
        Choice::Never | Choice::NotThis => (file, None),
    };
    let conditions = request.conditions();
    if conditions.is_empty() {
        return whole(answer, file, compressor, out);
    }
    let validators = Validators {
        etag: &file.etag,
        modified: file.modified,
    };
    match conditions.evaluate(validators) {
        Verdict::Failed => short(answer, 412, b"", out),
        Verdict::NotModified => short(answer, 304, &file.validators, out),
        // RFC 9110 §14.2: a `Range` is for GET.
        Verdict::Proceed if request.is_head() || compressor.is_some() => {
            whole(answer, file, compressor, out)
        }
        Verdict::Proceed => match conditions
            .effective_range(validators)
            .map(|range| range::parse(range, file.size))
        {
            None | Some(Requested::Whole) => whole(answer, file, None, out),
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
    /// The answer depends on `Accept-Encoding`.
    varies: bool,
}

/// The file, compressed, with memory for an encoder where that happens on the way; `None` if it stays as it is.
fn representation(
    request: &Request<'_>,
    file: &Rc<CachedFile>,
    compressor: &Compressor,
) -> Option<(Rc<CachedFile>, Option<EncoderCharge>)> {
    let encoder = match &file.content {
        Content::Bytes(_) => None,
        Content::Descriptor(_) => Some(request.connection.charge_encoder(compressor)?),
    };
    match file.compressed(compressor) {
        Ok(compressed) => Some((compressed?, encoder)),
        Err(error) => {
            let message = format!("cannot compress a file: {error}");
            request.connection.local.complain(Level::Error, &message);
            None
        }
    }
}

impl Answer<'_> {
    /// Appends `Vary`, if it is needed.
    fn vary(&self, out: &mut Vec<u8>) {
        if self.varies {
            out.extend_from_slice(VARY);
        }
    }
}

/// A response without the file's content.
fn short(answer: Answer<'_>, status: u16, fields: &[u8], out: &mut Vec<u8>) -> Step {
    let request = answer.request;
    let persistence = request.persistence();
    let varying;
    let fields = if answer.varies && status == 304 {
        varying = [fields, VARY].concat();
        &varying
    } else {
        fields
    };
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

fn whole(
    answer: Answer<'_>,
    file: Rc<CachedFile>,
    compressor: Option<(Compressor, Option<EncoderCharge>)>,
    out: &mut Vec<u8>,
) -> Step {
    let request = answer.request;
    let start = out.len();
    respond::begin(out, &request.connection.local, request.snapshot, 200);
    out.extend_from_slice(&file.fields);
    answer.vary(out);
    let mut compressed = None;
    let persistence = match (compressor, &file.content) {
        (Some((compressor, Some(encoder))), Content::Descriptor(_)) => {
            let question = ResponseQuestion {
                version_minor: request.view.version_minor(),
                method: request.view.method(),
                status: 200,
                body: DeclaredBody::Unknown,
                keep_alive: request.persistence().is_open(),
            };
            let decision = frame_response(&question);
            compressed = Some(Compressing {
                compressor,
                framing: decision.framing,
                _encoder: encoder,
            });
            respond::end_framed(out, &decision)
        }
        _ => {
            let persistence = request.persistence();
            respond::end(out, persistence);
            persistence
        }
    };
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
            compressed,
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
    answer.vary(out);
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
            compressed: None,
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
    answer.vary(out);
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
            compressed: None,
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
