//! The language modules of the machine that the goldens are written for.

use tutti_config::ValidationContext;

const MODULES: [(&str, &str); 11] = [
    ("cgi", ""),
    ("java", "17.0.15"),
    ("node", ""),
    ("wasm", ""),
    ("wasm-wasi-component", ""),
    ("perl", "5.36.0"),
    ("ruby", "3.1.7"),
    ("php", "7.4.33"),
    ("php", "8.2.35"),
    ("python", "3.11.2"),
    ("python", "3.12.1"),
];

/// The context of a case: for documentation, programs are shown, too.
pub(crate) fn context(case: &str) -> ValidationContext {
    let is_documentation = case.starts_with("documented-") || case.starts_with("howto-");
    let programs = is_documentation.then_some(("external", ""));
    ValidationContext::with_modules(programs.into_iter().chain(MODULES))
}
