//! How it works (!).

/// Whether it is open (!).
pub fn open() {
    let nobody = 1; // Who knows (!).
}

/// Returns what it is: `is told`.
///
/// Of a file (!), and nobody else's.
pub fn it() {}
