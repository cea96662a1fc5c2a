//! The oracle for hostile workers: filled in with its fuzz target.
