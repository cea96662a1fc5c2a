//! Tests that cannot run here say so, and are counted at the end of `make test` (`packaging/test-summary`).

use std::fs::OpenOptions;
use std::io::Write;

/// Names the file that each skipped test adds a line to: its name, a tab, the reason.
const FILE: &str = "TUTTI_SKIPPED";

/// Ends the test (or the function of it) that it stands in, as skipped for this reason.
///
/// ```ignore
/// if !is_root() {
///     skip!("only root can mount");
/// }
/// ```
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        $crate::skipped(&format!($($reason)+));
        return;
    }};
}

/// Notes that this test, or a part of it, is skipped. Use it by itself only where the test goes on: [`skip!`] ends it.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread of a test");
    // Past the capture of a test's output, so that it is seen when the test runs alone, too.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
    let Some(path) = std::env::var_os(FILE) else {
        return;
    };
    // One write, so that lines of tests that run side by side stay whole.
    let line = format!("{test}\t{reason}\n");
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("the file that TUTTI_SKIPPED names can be written");
}
