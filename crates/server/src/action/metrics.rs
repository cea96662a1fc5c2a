//! The metrics of the whole server as the answer to a request.
//!
//! Whoever knows all of them is asked ([`Scraper`]): a listen thread knows only its own part, and does not read `/proc`.
//!
//! Must never: answer a method that is to change something, or stand where the configuration does not say so: a `pass` with variables
//! does not lead here.

use tutti_files::compression::gzipped;
use tutti_metrics::Format;
use tutti_pool::Level;

use super::answer::{Answer, Begun, Head};
use crate::plan::Changes;
use crate::request::Request;
use crate::respond::{Own, Page};
use crate::step::Step;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_http::NO_FIELDS;

/// Answers with the metrics.
pub(crate) async fn run(
    request: &Request<'_>,
    changes: &Changes,
    output: &mut Output,
) -> Result<Step, Gone> {
    let client = request.client;
    // Earlier answers must not wait for this one.
    request.flush(output).await?;
    client.set_deadline(NEVER);
    let format = format(request);
    let shared = &client.local.shared;
    let page = request.unless_gone(shared.scraper.scrape(format)).await?;
    let Some(page) = page else {
        let persistence = request.persistence();
        let page = Page {
            status: 503,
            is_head: request.is_head(),
            persistence,
            fields: &NO_FIELDS,
        };
        request.page(&page, changes, output);
        return Ok(Step::End(persistence));
    };
    // Also without `settings.http.compression`: it is text that repeats itself, and is fetched again and again.
    let compressed = gzipped(request.view.get_all(b"Accept-Encoding"), &page);
    let head = Head {
        status: 200,
        length: Some(compressed.as_ref().unwrap_or(&page).len() as u64),
        own: Own::ALL,
        may_persist: true,
    };
    let mut fields: Vec<(&[u8], &[u8])> = vec![
        (b"Content-Type", format.media_type().as_bytes()),
        (b"Vary", b"Accept, Accept-Encoding"),
    ];
    if compressed.is_some() {
        fields.push((b"Content-Encoding", b"gzip"));
    }
    let page = compressed.unwrap_or(page);
    let begun = Begun::new(request, &head, fields.into_iter(), changes, output);
    let persistence = begun.persistence;
    match write(begun, &page, request, output) {
        Ok(answer) => Ok(match answer.end(request, output) {
            None => Step::End(persistence),
            Some(late) => Step::Late(late),
        }),
        Err(error) => {
            let message = format!("cannot compress the metrics: {error}");
            client.local.complain(Level::Error, &message);
            Err(Gone::Closed)
        }
    }
}

fn write(
    begun: Begun,
    page: &[u8],
    request: &Request<'_>,
    output: &mut Output,
) -> std::io::Result<Answer> {
    let mut answer = Answer::new(begun)?;
    answer.write(std::iter::once(page), output)?;
    answer.finish(request, tutti_http::Trailers::default(), output)?;
    Ok(answer)
}

/// The format that the client reads best.
fn format(request: &Request<'_>) -> Format {
    let fields: Vec<&[u8]> = request.view.get_all(b"Accept").collect();
    // Several fields are one list (RFC 9110 §5.3).
    Format::accepted(&String::from_utf8_lossy(&fields.join(&b","[..])))
}
