//! `unsafe` only where the architecture allows it. That each block says why it is sound is clippy's to check
//! (`undocumented_unsafe_blocks`).

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;

use crate::breach::Breach;
use crate::source::SourceFile;

/// Folders and files that may contain `unsafe`, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/sys/src/", "the safe face of Linux"),
    ("crates/wire/src/map.rs", "maps the segment"),
    (
        "crates/wire/src/span.rs",
        "bytes that the other side may change at any time",
    ),
    (
        "crates/wire/src/forked.rs",
        "two calls of libc, which hosts make that link nothing of `sys`",
    ),
    (
        "crates/wire/src/interrupt.rs",
        "a signal handler that touches a mapped word",
    ),
    (
        "crates/wire/src/worker/class.rs",
        "two system calls on the calling thread, which hosts make that link nothing of `sys`",
    ),
    ("sdk/", "foreign language runtimes"),
    ("bench/", "allocators and clocks of programs that measure"),
    ("tests/", "programs that misbehave on purpose"),
];

pub(crate) fn check(file: &SourceFile) -> Vec<Breach> {
    if ALLOWED.iter().any(|(path, _)| file.path.starts_with(path)) {
        return Vec::new();
    }
    let mut places = Vec::new();
    find(file.whole.to_token_stream(), &mut places);
    places
        .into_iter()
        .map(|span| {
            Breach::new(
                format!("{}:{}", file.path, span.start().line),
                "`unsafe` is allowed only in `sys`, `sdk` and wire's mapping modules",
            )
        })
        .collect()
}

fn find(tokens: TokenStream, places: &mut Vec<Span>) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) if word == "unsafe" => places.push(word.span()),
            TokenTree::Group(group) => find(group.stream(), places),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(path: &str, text: &str) -> usize {
        check(&SourceFile::parse(path.to_owned(), text.to_owned()).unwrap()).len()
    }

    #[test]
    fn unsafe_outside_the_allowed_places_is_a_breach() {
        let code = "fn g() { unsafe { f() } }";
        assert_eq!(breaches("crates/pool/src/x.rs", code), 1);
        assert_eq!(breaches("crates/sys/src/x.rs", code), 0);
        let code = "m! { unsafe impl Send for X {} }\n#[cfg(test)]\nmod tests { unsafe fn f() {} }";
        assert_eq!(breaches("crates/pool/src/x.rs", code), 2);
    }

    #[test]
    fn the_word_alone_is_none() {
        let text = "#![forbid(unsafe_code)] // unsafe\nfn f() -> &'static str { \"unsafe {\" }";
        assert_eq!(breaches("crates/pool/src/x.rs", text), 0);
    }
}
