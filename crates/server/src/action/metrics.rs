//! Answers with the metrics of the whole server.
//!
//! The router collects them ([`Scraper`]): a listen thread knows only its own part, and does not read `/proc`.
//!
//! Must never: answer an unsafe method, or be reached unless configured: a `pass` with variables does not lead here.

use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_files::compression::gzipped;
use tutti_http::NO_FIELDS;
use tutti_metrics::ExpositionFormat;

use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::internal_redirect::{self, ErrorResponse};
use crate::plan::Changes;
use crate::sending::Whole;

/// Answers with the metrics.
pub(crate) async fn run(
    request: &Request<'_>,
    changes: &Changes,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    let client = request.client;
    client.set_deadline(NEVER);
    let format = format(request);
    let shared = &client.local.shared;
    let page = request.unless_gone(shared.scraper.scrape(format)).await?;
    let Some(page) = page else {
        let answer = ErrorResponse::of(503, &NO_FIELDS);
        return Ok(internal_redirect::page(request, &answer, changes, output));
    };
    // Even without `settings.http.compression`: the text is repetitive, and requested again and again.
    let compressed = gzipped(request.view.get_all(b"Accept-Encoding"), &page);
    let mut fields: Vec<(&[u8], &[u8])> = vec![
        (b"Content-Type", format.media_type().as_bytes()),
        (b"Vary", b"Accept, Accept-Encoding"),
    ];
    if compressed.is_some() {
        fields.push((b"Content-Encoding", b"gzip"));
    }
    let whole = Whole {
        status: 200,
        fields: &fields,
        body: &compressed.unwrap_or(page),
        is_body_coming: false,
    };
    Ok(whole.send(request, changes, output).into())
}

/// The format that the client prefers.
fn format(request: &Request<'_>) -> ExpositionFormat {
    let fields: Vec<&[u8]> = request.view.get_all(b"Accept").collect();
    // Several fields form one list (RFC 9110 §5.3).
    ExpositionFormat::accepted(&String::from_utf8_lossy(&fields.join(&b","[..])))
}
