//! A file of WebAssembly, before anything is forked: read, recognised by its first bytes, and compiled on all cores.

use tutti_sys::fork::is_single_threaded;
use tutti_worker::StartError;
use wasmtime::{Engine, ResourcesRequired};

use crate::engine;
use crate::settings::Settings;

/// The first bytes of what is compiled from text to WebAssembly (its specification, §5.5.16), and then the version: of a module, of a component
/// (component model, Binary.md).
const MAGIC: &[u8] = b"\0asm";
const MODULE: &[u8] = &[1, 0, 0, 0];
const COMPONENT: &[u8] = &[13, 0, 1, 0];

/// Bytes of a page of memory (WebAssembly's specification, §4.2.8).
const PAGE: u64 = 65_536;

/// The form of what is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Functions and a memory.
    Module,
    /// Modules behind an interface.
    Component,
}

/// The configured file.
#[derive(Debug)]
pub(crate) struct Code {
    /// Its path, for messages.
    shown: String,
    /// The option that names it.
    member: &'static str,
    bytes: Vec<u8>,
    /// Its form; `None`: an unknown one.
    pub(crate) form: Option<Form>,
}

impl Code {
    /// Reads the file that the option `member` names. The error names the formats that people often give in place of WebAssembly.
    pub(crate) fn read(settings: &Settings, member: &'static str) -> Result<Self, StartError> {
        let mut code = Self {
            shown: settings.file.display().to_string(),
            member,
            bytes: Vec::new(),
            form: None,
        };
        code.bytes = std::fs::read(&settings.file).map_err(|error| {
            code.refused(error).hint(
                "a relative path starts at `working_directory`; the application's user must be allowed to read the file",
            )
        })?;
        if Engine::detect_precompiled(&code.bytes).is_some() {
            return Err(code
                .refused("it is machine code that wasmtime has compiled")
                .hint(format!("give the {member} itself (.wasm): the server compiles it, and runs no machine code that it finds")));
        }
        let Some(version) = code.bytes.strip_prefix(MAGIC) else {
            let is_text = code.bytes.trim_ascii_start().starts_with(b"(");
            let hint = match is_text {
                true => "this seems to be its text format: make it binary with `wasm-tools parse`",
                false => "give the .wasm file that the compiler has made",
            };
            return Err(code.refused("it is not WebAssembly").hint(hint));
        };
        code.form = match version {
            version if version.starts_with(MODULE) => Some(Form::Module),
            version if version.starts_with(COMPONENT) => Some(Form::Component),
            _ => None,
        };
        Ok(code)
    }

    /// The reason why it cannot be served.
    pub(crate) fn refused(&self, problem: impl std::fmt::Display) -> StartError {
        StartError::new(format!("loading `{}`", self.shown), problem).member(self.member)
    }

    /// Compiles it on all cores. What comes out is machine code, for engines with the same configuration.
    pub(crate) fn compile(
        &self,
        compile: impl FnOnce(&Engine, &[u8]) -> wasmtime::Result<Vec<u8>> + Send,
    ) -> Result<Vec<u8>, StartError> {
        let engine = engine::compiling()
            .map_err(|error| StartError::new("preparing the compiler", format!("{error:#}")))?;
        // The threads end here: a process that is to be forked has but one.
        let compiled = rayon::ThreadPoolBuilder::new()
            .build_scoped(
                |thread| thread.run(),
                |pool| pool.install(|| compile(&engine, &self.bytes)),
            )
            .map_err(|error| StartError::new("starting the compiler", error))?;
        // The kernel may need a moment to forget a thread that has been waited for.
        while !is_single_threaded().unwrap_or(true) {
            std::thread::yield_now();
        }
        compiled.map_err(|error| self.refused(format!("{error:#}")))
    }

    /// The engine with room for a worker's instances, each of which needs so much.
    pub(crate) fn engine(
        &self,
        settings: &Settings,
        needed: &ResourcesRequired,
    ) -> Result<Engine, StartError> {
        let pages = needed.max_initial_memory_size.unwrap_or(0);
        let initial = pages.saturating_mul(PAGE);
        if initial > settings.memory as u64 {
            let message = format!(
                "it needs {initial} bytes of memory from the start, and may have {}",
                settings.memory
            );
            return Err(
                StartError::new(format!("preparing `{}`", self.shown), message)
                    .member("instance/memory")
                    .hint("give its instances more, and some for what they compute"),
            );
        }
        engine::pooling(settings, needed).map_err(|error| {
            StartError::new("preparing the engine", format!("{error:#}"))
                .member("limits/concurrency")
                .hint("each instance takes 4 GiB of addresses (not of memory); fewer at once (`limits.concurrency`) take fewer")
        })
    }
}
