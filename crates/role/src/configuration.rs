//! The knowledge that a configuration is checked against, and how its faults are told.

use tutti_config::{Context, Diagnostic, Diagnostics, Pointer};
use tutti_log::Level;
use tutti_log::Log;
use tutti_protocol::Module;

/// The knowledge that configurations are checked against.
pub fn context(modules: &[Module]) -> Context {
    Context::with_modules(
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
    for fault in &faults.0 {
        let text = format!("configuration: {}{}", fault.place(), fault.detail());
        log.line(Level::Alert, &text);
    }
}
