//! The knowledge that a configuration is checked against, and how its faults are told.

use tutti_config::{Diagnostic, Diagnostics, Document, Pointer, ValidationContext};
use tutti_log::Level;
use tutti_log::Log;
use tutti_protocol::LanguageModule;

/// The knowledge that configurations are checked against.
pub fn context(modules: &[LanguageModule]) -> ValidationContext {
    ValidationContext::with_modules(
        modules
            .iter()
            .map(|m| (m.kind.as_str(), m.version.as_str())),
    )
}

/// A fault of something valid that cannot be had here and now.
pub fn fault(pointer: Pointer, message: String, hint: Option<String>) -> Diagnostic {
    let fault = Diagnostic::apply(pointer, message);
    match hint {
        Some(hint) => fault.suggest(hint),
        None => fault,
    }
}

/// Writes each fault of a configuration to the log.
pub fn log_faults(log: &Log, faults: &Diagnostics) {
    log_each(log, Level::Alert, &faults.0);
}

/// Writes to the log which slips of a configuration the parser accepted.
pub fn log_remarks(log: &Log, document: &Document) {
    log_each(log, Level::Warn, document.remarks());
}

fn log_each(log: &Log, level: Level, faults: &[Diagnostic]) {
    for fault in faults {
        let text = format!("configuration: {}{}", fault.place(), fault.detail());
        log.line(level, &text);
    }
}
