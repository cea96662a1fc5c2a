//! A text that the user passes: a file, or `-` for standard input.

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

use super::report::CommandError;
use super::style;

/// Returns its name and its bytes.
pub(super) fn read(file: &Path) -> Result<(String, Vec<u8>), CommandError> {
    if file == Path::new("-") {
        if io::stdin().is_terminal() {
            // Otherwise a user who forgot the file would wait without knowing why.
            let _ = writeln!(
                io::stderr(),
                "{}",
                style::quiet("reading JSON from the terminal; end with Ctrl-D")
            );
        }
        let mut bytes = Vec::new();
        io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| CommandError::new(format!("cannot read standard input: {error}")))?;
        return Ok(("<stdin>".to_owned(), bytes));
    }
    match std::fs::read(file) {
        Ok(bytes) => Ok((file.display().to_string(), bytes)),
        Err(error) => Err(CommandError::new(format!(
            "cannot read `{}`: {error}",
            file.display()
        ))),
    }
}
