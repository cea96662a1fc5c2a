//! The next step for a request, with everything that it takes. Owned: it outlives the buffers.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tutti_config::model::{Compressor, Spooler};
use tutti_http::{BodyDecoder, FieldLines, ResponseFraming};
use tutti_pool::{Application, Exchange};
use tutti_proxy::Destination;

use crate::collector::Collected;
use crate::plan::{Changes, Plan};
use crate::posts::Gathered;
use crate::respond::{Late, Persistence};
use crate::substitute::Substitute;
use tutti_cache::Asked;
use tutti_cache::Found;
use tutti_conn::holdings::EncoderCharge;
use tutti_files::cache::CachedFile;
use tutti_files::folder::Folder;

/// The next step of an exchange.
pub(crate) enum Step {
    /// Wait for the guards of this, for so long at least, then do it or not.
    Guard { plan: Box<Plan>, pause: Duration },
    /// Read the request's body, then do this.
    Body {
        plan: Box<Plan>,
        decoder: BodyDecoder,
    },
    /// Send the rest of a file.
    File(Box<FileTail>),
    /// Answer with a list of what is in a folder.
    Listing(Box<Folder>, Box<Changes>),
    /// Answer another request in place of this one.
    Substitute(Box<Substitute>),
    /// Hand the request to an application.
    Application(Box<Call>),
    /// Answer with the metrics.
    Metrics(Box<Changes>),
    /// Store the request as a job.
    Spooler(Box<Posting>),
    /// Get an answer that the cache does not have, or that is too large to be sent at once.
    Cached(Box<Fetch>),
    /// Send the request to an upstream.
    Upstream(Box<UpstreamCall>),
    /// A server has changed the protocol, and the response is in the output.
    Tunnel(Box<Tunnel>),
    /// An application has accepted a WebSocket handshake, and the response is in the output.
    WebSocket(Box<Upgraded>),
    /// The response is complete in the output.
    End(Persistence),
    /// The same, but part of it waits in a file for a slow client: it is logged when the client has it.
    Late(Box<Late>),
    /// The response is complete in the output, but the client may still be sending.
    Linger,
}

/// A request on its way to an application.
pub(crate) struct Call {
    pub(crate) application: Arc<Application>,
    pub(crate) target: Option<Box<str>>,
    pub(crate) changes: Changes,
    pub(crate) body: Collected,
    /// `Sec-WebSocket-Accept`, if the request asks for WebSocket.
    pub(crate) upgrade: Option<[u8; 28]>,
}

impl Call {
    pub(crate) fn new(
        application: Arc<Application>,
        target: Option<Box<str>>,
        changes: Changes,
    ) -> Self {
        Self {
            application,
            target,
            changes,
            body: Collected::None,
            upgrade: None,
        }
    }
}

/// A request on its way to a spooler.
pub(crate) struct Posting {
    pub(crate) spooler: Arc<Spooler>,
    pub(crate) changes: Changes,
    pub(crate) body: Gathered,
}

/// A request on its way to an upstream.
pub(crate) struct UpstreamCall {
    pub(crate) destination: Destination,
    pub(crate) changes: Changes,
    pub(crate) body: Collected,
}

/// A request that the cache could not answer at once.
pub(crate) struct Fetch {
    pub(crate) asked: Box<Asked>,
    pub(crate) found: Found,
    pub(crate) plan: Plan,
}

/// A connection that is a tunnel to a server from now on. The response that says so is in the output.
pub(crate) struct Tunnel {
    pub(crate) to_server: tutti_proxy::Tunnel,
    /// The fields of the response's head, where the access log may ask for them.
    pub(crate) head: FieldLines,
}

/// A connection that is a WebSocket from now on.
pub(crate) struct Upgraded {
    pub(crate) exchange: Exchange,
    /// The fields of the response's head, where the access log may ask for them.
    pub(crate) head: FieldLines,
}

/// The part of a response that goes from a file's descriptor to the socket.
pub(crate) struct FileTail {
    pub(crate) file: Rc<CachedFile>,
    /// In order.
    pub(crate) segments: SmallVec<[Segment; 1]>,
    pub(crate) persistence: Persistence,
    pub(crate) status: u16,
    /// Length of the response's body.
    pub(crate) body_bytes: u64,
    /// The fields of the response's head, where the access log may ask for them.
    pub(crate) head: FieldLines,
    /// The file is compressed on its way.
    pub(crate) compressed: Option<Compressing>,
}

/// How a body is compressed and framed.
pub(crate) struct Compressing {
    pub(crate) compressor: Compressor,
    pub(crate) framing: ResponseFraming,
    /// The memory for that.
    pub(crate) _encoder: EncoderCharge,
}

/// A piece of a body.
pub(crate) enum Segment {
    /// Bytes of the file.
    File(Range<u64>),
    /// Text around the parts of a multipart body.
    Text(Vec<u8>),
}
