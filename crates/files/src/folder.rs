//! A folder that a share lists: which entries are shown, and in which format.
//!
//! Must never: list a file that the share would not serve.

use std::io;

use tutti_config::model::{ListingFormat, Patterns};
use tutti_http::{list_members, media_type};

use crate::listing::{self, Listing, Look};
use crate::mime::MimeTypes;

/// A folder to list.
pub struct Folder {
    /// The means to read it within the bounds of the share.
    pub look: Look,
    /// The format of the list.
    pub format: ListingFormat,
    /// Its path in URLs.
    pub path: Vec<u8>,
    /// Paths that are not found.
    pub deny: Option<Patterns>,
    /// Types of files that are served.
    pub types: Option<Patterns>,
}

impl Folder {
    /// Returns the list as JSON or HTML. May block.
    pub fn page(&self, mime: &MimeTypes, is_json: bool) -> io::Result<String> {
        let listing = self.read(mime)?;
        Ok(match is_json {
            true => listing.json(),
            false => listing.html(&self.path),
        })
    }

    /// Reads the entries that the share would serve.
    fn read(&self, mime: &MimeTypes) -> io::Result<Listing> {
        listing::read(&self.look, |name, is_file| {
            let path = [&self.path, name].concat();
            // Nothing is served if a pattern cannot be evaluated.
            let is_denied = |path: &[u8]| match &self.deny {
                Some(deny) => deny.matches(path).unwrap_or(true),
                None => false,
            };
            let is_typed = || match &self.types {
                Some(types) if is_file => {
                    let mime = mime.of(name).unwrap_or_default();
                    types.matches(mime.as_bytes()).unwrap_or(false)
                }
                _ => true,
            };
            let inside = || [&path, b"/".as_slice()].concat();
            !is_denied(&path) && (is_file || !is_denied(&inside())) && is_typed()
        })
    }

    /// True if a client with these `Accept` fields gets JSON.
    pub fn is_json<'v>(&self, accept: impl Iterator<Item = &'v [u8]>) -> bool {
        match self.format {
            ListingFormat::Html => false,
            ListingFormat::Json => true,
            ListingFormat::Auto => likes_json(accept),
        }
    }

    /// True if the format depends on the client.
    pub fn varies(&self) -> bool {
        self.format == ListingFormat::Auto
    }

    /// Its name in the file system, for messages.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.look.path).into_owned()
    }
}

/// True if the client names JSON and not HTML, or JSON first.
fn likes_json<'v>(accept: impl Iterator<Item = &'v [u8]>) -> bool {
    let mut types = accept.flat_map(list_members).map(media_type);
    types.find_map(|media_type| {
        if media_type.eq_ignore_ascii_case(b"application/json") {
            Some(true)
        } else if media_type.eq_ignore_ascii_case(b"text/html") {
            Some(false)
        } else {
            None
        }
    }) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::likes_json;

    #[test]
    fn json_is_sent_only_if_accepted_alone_or_before_html() {
        for (accept, is_json) in [
            (&["application/json"][..], true),
            (&["Application/JSON;q=0.9, text/html"], true),
            (&["text/plain", "application/json"], true),
            (&["text/html, application/json"], false),
            (&["*/*"], false),
            (&[], false),
        ] {
            let fields = accept.iter().map(|field| field.as_bytes());
            assert_eq!(likes_json(fields), is_json, "{accept:?}");
        }
    }
}
