//! The system as an instance sees it.

use std::io;

use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use crate::log::{Lines, Output};
use crate::settings::Settings;

/// Output, the configured environment, the configured folders: no input, no arguments, no sockets.
pub(crate) fn world(settings: &Settings) -> io::Result<WasiCtxBuilder> {
    let mut builder = WasiCtxBuilder::new();
    builder
        .stdout(Lines::new(Output::Out))
        .stderr(Lines::new(Output::Error));
    for (name, value) in &settings.environment {
        builder.env(name, value);
    }
    for folder in &settings.folders {
        builder
            .preopened_dir(&folder.path, &folder.name, FsPerms::ReadWrite)
            .map_err(|error| io::Error::other(format!("opening `{}`: {error:#}", folder.name)))?;
    }
    Ok(builder)
}
