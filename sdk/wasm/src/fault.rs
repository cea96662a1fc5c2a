//! The end of an instance that did not come back: its cause, and where it was.

use std::fmt::Write as _;
use std::time::Duration;

use wasmtime::WasmBacktrace;
use wasmtime_wasi::I32Exit;

/// The reason for which an instance was stopped while it computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stopped {
    /// It computed for too long.
    #[error("it has computed for {}, as long as `time` of `instance` allows", seconds(.0))]
    Computing(Duration),
    /// No client waits for its response any more.
    #[error("the time of its request was up (`limits`) while it computed")]
    Late,
    /// Its client has gone, and the time that it had to finish is over.
    #[error("its client had gone, and it computed for {} more", seconds(.0))]
    Abandoned(Duration),
}

impl Stopped {
    /// The same of an instance that waited for something.
    pub(crate) fn while_waiting(self, noun: &str) -> String {
        match self {
            Self::Abandoned(time) => format!(
                "its client had gone, and the {noun} waited for something for {} more; its instance was ended",
                seconds(&time)
            ),
            _ => format!(
                "the time of the request was up (`limits`) while the {noun} waited for something; its instance was ended"
            ),
        }
    }
}

fn seconds(time: &Duration) -> String {
    match time.as_secs() {
        1 => "1 second".to_owned(),
        count => format!("{count} seconds"),
    }
}

/// The cause on the first line, then the functions that it was in, innermost first, a line each.
pub(crate) fn describe(error: &wasmtime::Error) -> String {
    let mut text = match error.downcast_ref::<I32Exit>() {
        Some(I32Exit(code)) => format!("it called exit({code}) instead of answering"),
        None => error.root_cause().to_string(),
    };
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    for frame in backtrace.map(WasmBacktrace::frames).unwrap_or_default() {
        text.push_str("\n  called at ");
        let symbol = frame.symbols().first();
        let name = symbol
            .and_then(wasmtime::FrameSymbol::name)
            .or(frame.func_name());
        let file = symbol.and_then(|symbol| Some((symbol.file()?, symbol.line()?)));
        // Writing to a string cannot fail.
        let _ = match (file, frame.module_offset()) {
            (Some((file, line)), _) => write!(text, "{file}:{line} in "),
            (None, Some(offset)) => write!(text, "{offset:#x} in "),
            (None, None) => Ok(()),
        };
        let _ = match name {
            // Names of Rust; those of other languages stay as they are.
            Some(name) => write!(text, "{:#}", rustc_demangle::demangle(name)),
            None => write!(text, "a function without a name"),
        };
    }
    text.replacen("\n  called at ", "\n  at ", 1)
}
