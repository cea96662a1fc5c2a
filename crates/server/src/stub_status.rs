//! The counts of connections and requests in the form of nginx's `stub_status`, for collectors that read it.
//!
//! The form is that of nginx's documentation (ngx_http_stub_status_module); collectors compare it byte by byte, with its spaces at the ends of
//! lines.

use tutti_conn::counters::ConnectionTotals;
use tutti_http::FieldLines;

use crate::plan::Returned;

/// The response.
pub(crate) fn answer(totals: &ConnectionTotals) -> Returned {
    Returned {
        status: 200,
        fields: FieldLines::of("Content-Type", b"text/plain"),
        body: text(totals).into(),
    }
}

/// A connection is accepted or refused before it is counted, so all that are accepted are handled, too. The head of a request is read while
/// its connection still counts as idle, so none is ever being read.
fn text(totals: &ConnectionTotals) -> String {
    let ConnectionTotals {
        accepted,
        active,
        idle,
        requests,
        ..
    } = totals;
    let open = active + idle;
    format!(
        "Active connections: {open} \nserver accepts handled requests\n {accepted} {accepted} {requests} \nReading: 0 Writing: {active} Waiting: {idle} \n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_that_of_nginx() {
        let totals = ConnectionTotals {
            accepted: 16_630_948,
            active: 185,
            idle: 106,
            requests: 31_070_465,
            ..ConnectionTotals::default()
        };
        let expected = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630948 31070465 \nReading: 0 Writing: 185 Waiting: 106 \n";
        assert_eq!(text(&totals), expected);
    }
}
