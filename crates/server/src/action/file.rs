//! Answers with a file: conditions, ranges, and the bytes or the descriptor.

use std::ops::Range;
use std::rc::Rc;

use smallvec::SmallVec;
use tutti_config::model::Compressor;
use tutti_conn::output::Output;
use tutti_conn::socket::BodyPart;
use tutti_files::cache::{CachedFile, Content};
use tutti_files::compression::{self, Choice, Described};
use tutti_files::conditional::{PreconditionResult, Validators};
use tutti_files::range::{self, ByteRange, Requested};
use tutti_http::{
    ConnectionField, DeclaredBody, FieldLines, NO_FIELDS, OutgoingHead, ResponseFraming,
    ResponseQuestion, frame_response, write_field,
};
use tutti_pool::Level;

use crate::content_coding::fields_of_part;
use crate::exchange::channel::Channel;
use crate::exchange::request::Request;
use crate::exchange::respond::{self, Own, Persistence};
use crate::exchange_step::ExchangeStep;
use crate::internal_redirect::{self, ErrorResponse};
use crate::own_trailers;
use crate::plan::{Changes, Served};
use crate::replace;
use crate::writer::{Body, Encoder, Head, Response, Segment, Writer, Written};

/// Appends the response to GET or HEAD of `file`.
pub(crate) fn respond(
    request: &Request<'_>,
    served: Served,
    changes: &Changes,
    output: &mut Output,
) -> ExchangeStep {
    let Served {
        file,
        is_encoded,
        varies,
    } = served;
    let content_type = file.mime.as_deref().map(str::as_bytes);
    let is_replaced = !is_encoded && replace::applies_to(request, content_type);
    if is_replaced || own_trailers::apply(request, request.status(200)) {
        let served = Served {
            file,
            is_encoded,
            varies,
        };
        return transformed(request, served, is_replaced, changes, output);
    }
    let choice = request.compression(&Described {
        status: request.status(200),
        content_type: file.mime.as_deref().map(str::as_bytes),
        is_fixed: is_encoded,
        length: Some(file.size),
    });
    let answer = FileResponse {
        request,
        changes,
        varies: varies || choice.varies(),
    };
    let (file, compressor) = match choice {
        Choice::Compress(compressor) => match representation(request, &file, compressor) {
            Some((compressed, encoder)) => (compressed, Some(encoder)),
            None => (file, None),
        },
        Choice::Never | Choice::NotThis => (file, None),
    };
    let conditions = request.conditions();
    if conditions.is_empty() {
        return whole(answer, file, compressor, output);
    }
    let validators = Validators {
        etag: &file.etag,
        modified: file.modified,
    };
    match conditions.evaluate(validators) {
        PreconditionResult::Failed => short(answer, 412, &NO_FIELDS, output),
        PreconditionResult::NotModified => short(answer, 304, &file.validators, output),
        // RFC 9110 §14.2: a `Range` is for GET.
        PreconditionResult::Proceed if request.is_head() || compressor.is_some() => {
            whole(answer, file, compressor, output)
        }
        PreconditionResult::Proceed => match conditions
            .effective_range(validators)
            .map(|range| range::parse(range, file.size))
        {
            None | Some(Requested::Whole) => whole(answer, file, None, output),
            Some(Requested::Unsatisfiable) => {
                let range = range::unsatisfied(file.size);
                let field = FieldLines::of("Content-Range", range.as_bytes());
                short(answer, 416, &field, output)
            }
            Some(Requested::Parts(parts)) => match parts.as_slice() {
                [part] => single(answer, file, *part, output),
                parts => multiple(answer, file, parts, output),
            },
        },
    }
}

/// A file whose body is changed as it is sent, or followed by fields. Ranges are of the original, and are not served.
fn transformed(
    request: &Request<'_>,
    served: Served,
    is_replaced: bool,
    changes: &Changes,
    output: &mut Output,
) -> ExchangeStep {
    let file = served.file;
    let conditions = request.conditions();
    let validators = Validators {
        etag: &file.etag,
        modified: file.modified,
    };
    let mut fields = FieldLines::new();
    for (name, value) in &file.fields {
        if name != b"Content-Length" && name != b"Accept-Ranges" {
            fields.push(name, value);
        }
    }
    if served.varies {
        compression::push_vary(&mut fields);
    }
    if !conditions.is_empty() {
        let answer = FileResponse {
            request,
            changes,
            // `Vary` is in the fields.
            varies: false,
        };
        match conditions.evaluate(validators) {
            PreconditionResult::Failed => return short(answer, 412, &NO_FIELDS, output),
            PreconditionResult::NotModified => {
                let fields = fields_of_part(request, (200, Some(file.size)), 304, fields.iter());
                return short(answer, 304, &changed(&fields, is_replaced), output);
            }
            PreconditionResult::Proceed => {}
        }
    }
    let head = Head {
        status: 200,
        length: Some(file.size),
        own: Own::ALL,
        may_persist: true,
        may_have_trailers: false,
    };
    let writer = Writer::begin(request, &head, fields.iter(), changes, output);
    let sent = match &file.content {
        _ if request.is_head() => writer.end(request, output),
        Content::Bytes(bytes) => Response::whole(writer, bytes, request, output),
        Content::Descriptor(_) => Written::Rest(Box::new(Response {
            writer,
            body: Body::File(
                Rc::clone(&file),
                SmallVec::from_iter([Segment::File(0..file.size)]),
            ),
            lingers: false,
        })),
    };
    sent.into()
}

/// The validators of a file with replaced texts.
fn changed(validators: &FieldLines, is_replaced: bool) -> FieldLines {
    if !is_replaced {
        return validators.clone();
    }
    let mut fields = FieldLines::new();
    for (name, value) in validators {
        if name != b"Last-Modified" {
            compression::push_field(&mut fields, name, value);
        }
    }
    fields
}

/// A request for a file, and the configured changes of the response.
#[derive(Clone, Copy)]
struct FileResponse<'a> {
    request: &'a Request<'a>,
    changes: &'a Changes,
    /// The response depends on `Accept-Encoding`.
    varies: bool,
}

/// The file, compressed, with an encoder if that is done while sending; `None` if it is sent uncompressed.
fn representation(
    request: &Request<'_>,
    file: &Rc<CachedFile>,
    compressor: Compressor,
) -> Option<(Rc<CachedFile>, Option<Encoder>)> {
    let encoder = match &file.content {
        Content::Bytes(_) => None,
        Content::Descriptor(_) => Some(Encoder::new(request.client, compressor)?),
    };
    match file.compressed(&compressor) {
        Ok(compressed) => Some((compressed?, encoder)),
        Err(error) => {
            let message = format!("cannot compress a file: {error}");
            request.client.local.log_failure(Level::Error, &message);
            None
        }
    }
}

impl FileResponse<'_> {
    /// Appends `Vary`, if necessary.
    fn vary(&self, fields: &mut FieldLines) {
        if self.varies {
            compression::push_vary(fields);
        }
    }

    /// The head of a response, with the server's own fields.
    fn begin(&self, status: u16) -> OutgoingHead {
        let request = self.request;
        respond::begin(&request.client.local, request.settings(), status)
    }

    /// Completes a head with a known length. Returns the persistence of the connection.
    fn end(&self, head: &mut OutgoingHead) -> Persistence {
        let persistence = self.request.persistence();
        let version = self.request.view.version();
        head.push_connection(ConnectionField::of(version, persistence.is_open()));
        persistence
    }
}

/// A response without the file's content.
fn short(
    answer: FileResponse<'_>,
    status: u16,
    fields: &FieldLines,
    output: &mut Output,
) -> ExchangeStep {
    let request = answer.request;
    let mut varying;
    let fields = if answer.varies && status == 304 {
        varying = fields.clone();
        answer.vary(&mut varying);
        &varying
    } else {
        fields
    };
    let response = ErrorResponse::of(status, fields);
    internal_redirect::page(request, &response, answer.changes, output)
}

fn whole(
    answer: FileResponse<'_>,
    file: Rc<CachedFile>,
    compressor: Option<Option<Encoder>>,
    output: &mut Output,
) -> ExchangeStep {
    let request = answer.request;
    let status = request.status(200);
    let mut head = answer.begin(status);
    match request.settings().max_ranges {
        0 => file
            .fields
            .iter()
            .filter(|(name, _)| *name != b"Accept-Ranges")
            .for_each(|(name, value)| head.fields.push(name, value)),
        _ => head.fields.append(&file.fields),
    }
    answer.vary(&mut head.fields);
    let mut encoding = None;
    let persistence = match (compressor.flatten(), &file.content) {
        (Some(encoder), Content::Descriptor(_)) => {
            let question = ResponseQuestion {
                version: request.view.version(),
                method: request.view.method(),
                status,
                body: DeclaredBody::Unknown,
                keep_alive: request.persistence().is_open(),
            };
            let decision = frame_response(&question);
            encoding = Some((encoder, decision.framing));
            head.frame(&decision);
            Persistence::of(decision.keep_alive)
        }
        _ => answer.end(&mut head),
    };
    let (segments, body_bytes) = match request.is_head() {
        true => (SmallVec::new(), 0),
        false => (
            SmallVec::from_iter([Segment::File(0..file.size)]),
            file.size,
        ),
    };
    let content = FileContent {
        status,
        persistence,
        body_bytes,
        segments,
        file,
        encoding,
    };
    body(answer, content, head, output)
}

fn single(
    answer: FileResponse<'_>,
    file: Rc<CachedFile>,
    part: ByteRange,
    output: &mut Output,
) -> ExchangeStep {
    let mut head = answer.begin(206);
    let fields = &mut head.fields;
    if let Some(mime) = &file.mime {
        fields.push(b"Content-Type", mime.as_bytes());
    }
    fields.append(&file.validators);
    answer.vary(fields);
    fields.push(b"Content-Range", part.content_range(file.size).as_bytes());
    fields.push_number(b"Content-Length", part.len());
    let persistence = answer.end(&mut head);
    let segments = SmallVec::from_iter([Segment::File(part.start..part.end)]);
    body(
        answer,
        FileContent {
            status: 206,
            persistence,
            body_bytes: part.len(),
            segments,
            file,
            encoding: None,
        },
        head,
        output,
    )
}

/// `multipart/byteranges` (RFC 9110 §14.6).
fn multiple(
    answer: FileResponse<'_>,
    file: Rc<CachedFile>,
    parts: &[ByteRange],
    output: &mut Output,
) -> ExchangeStep {
    let boundary = boundary(answer.request, &file);
    let mut segments = SmallVec::new();
    let mut total = 0;
    for part in parts {
        let mut text = Vec::with_capacity(160);
        text.extend_from_slice(b"\r\n--");
        text.extend_from_slice(&boundary);
        text.extend_from_slice(b"\r\n");
        if let Some(mime) = &file.mime {
            write_field(&mut text, b"Content-Type", mime.as_bytes());
        }
        let range = part.content_range(file.size);
        write_field(&mut text, b"Content-Range", range.as_bytes());
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

    let mut head = answer.begin(206);
    let fields = &mut head.fields;
    fields.push_with(b"Content-Type", |line| {
        line.extend_from_slice(b"multipart/byteranges; boundary=");
        line.extend_from_slice(&boundary);
    });
    fields.append(&file.validators);
    answer.vary(fields);
    fields.push_number(b"Content-Length", total);
    let persistence = answer.end(&mut head);
    body(
        answer,
        FileContent {
            status: 206,
            persistence,
            body_bytes: total,
            segments,
            file,
            encoding: None,
        },
        head,
        output,
    )
}

/// Text that occurs in the file only by chance: unpredictable for its author, so that a part cannot be faked.
fn boundary(request: &Request<'_>, file: &CachedFile) -> Vec<u8> {
    use std::hash::{BuildHasher, RandomState};
    let seed = RandomState::new().hash_one((request.view.target(), file.size));
    format!("{seed:016x}{:08x}", file.modified as u32).into_bytes()
}

/// The content of a response from a file.
struct FileContent {
    file: Rc<CachedFile>,
    /// In order.
    segments: SmallVec<[Segment; 1]>,
    persistence: Persistence,
    status: u16,
    /// Length of the response's body.
    body_bytes: u64,
    /// It is compressed while it is sent.
    encoding: Option<(Encoder, ResponseFraming)>,
}

/// Sends the head, and appends the body if it is in memory; otherwise that remains to be sent.
fn body(
    answer: FileResponse<'_>,
    content: FileContent,
    mut head: OutgoingHead,
    output: &mut Output,
) -> ExchangeStep {
    let request = answer.request;
    request.adjust(answer.changes, &mut head);
    if let Content::Bytes(bytes) = &content.file.content {
        request.finished(content.status, content.body_bytes, &head.fields);
        request.pace(output);
        respond::put(request.client, head, output);
        let part = |range: &Range<u64>| {
            let range = range.start as usize..range.end as usize;
            bytes.get(range).unwrap_or_default()
        };
        if let Channel::Stream(stream) = &request.client.channel
            && let [Segment::File(range)] = content.segments.as_slice()
        {
            // Past the output, if its connection has room. After an error, the output shows that the response is incomplete.
            let bytes = part(range);
            if stream.send_body(output, &BodyPart::of(bytes)).is_err() {
                output.bytes.extend_from_slice(bytes);
            }
            return ExchangeStep::End(content.persistence);
        }
        let out = &mut output.bytes;
        for segment in &content.segments {
            match segment {
                Segment::Text(text) => out.extend_from_slice(text),
                Segment::File(range) => out.extend_from_slice(part(range)),
            }
        }
        return ExchangeStep::End(content.persistence);
    }
    let is_head = content.segments.is_empty();
    let (encoder, framing) = match content.encoding {
        Some((encoder, framing)) => (Some(encoder), framing),
        None if is_head => (None, ResponseFraming::NoBody),
        None => (None, ResponseFraming::Length(content.body_bytes)),
    };
    let head = request.put(head, output);
    let writer = Writer::begun(
        content.status,
        (framing, content.persistence),
        encoder,
        head,
    );
    if is_head {
        return writer.end(request, output).into();
    }
    ExchangeStep::Send(Box::new(Response {
        writer,
        body: Body::File(content.file, content.segments),
        lingers: false,
    }))
}
