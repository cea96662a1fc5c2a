//! The context against which a configuration is checked, and the reporting of its faults.

use tutti_config::{Diagnostic, Diagnostics, Document, Pointer, ValidationContext};
use tutti_log::Level;
use tutti_log::Log;
use tutti_protocol::LanguageModule;

/// Returns the context against which configurations are checked.
pub fn context(modules: &[LanguageModule]) -> ValidationContext {
    ValidationContext::with_modules(
        modules
            .iter()
            .map(|m| (m.kind.as_str(), m.version.as_str())),
    )
}

/// Creates the fault of a valid part that is not available now.
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

/// Logs the mistakes in a configuration that the parser accepted.
pub fn log_remarks(log: &Log, document: &Document) {
    log_each(log, Level::Warn, document.remarks());
}

fn log_each(log: &Log, level: Level, faults: &[Diagnostic]) {
    for fault in faults {
        let text = format!("configuration: {}{}", fault.place(), fault.detail());
        log.line(level, &text);
    }
}
