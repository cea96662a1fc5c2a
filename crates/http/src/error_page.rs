//! The page for errors of the server itself.

use crate::status::reason_phrase;

/// The media type of [`write_error_page`].
pub const ERROR_PAGE_TYPE: &[u8] = b"text/html";

/// Appends a small HTML page that names the status.
pub fn write_error_page(status: u16, out: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    let code = digits.format(status).as_bytes();
    let reason = reason_phrase(status).as_bytes();
    let separator: &[u8] = if reason.is_empty() { b"" } else { b" " };
    for part in [
        b"<!DOCTYPE html>\n<title>".as_slice(),
        code,
        separator,
        reason,
        b"</title>\n<h1>",
        code,
        separator,
        reason,
        b"</h1>\n",
    ] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_the_status() {
        for (status, expected) in [
            (
                404,
                "<!DOCTYPE html>\n<title>404 Not Found</title>\n<h1>404 Not Found</h1>\n",
            ),
            (599, "<!DOCTYPE html>\n<title>599</title>\n<h1>599</h1>\n"),
        ] {
            let mut out = Vec::new();
            write_error_page(status, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
