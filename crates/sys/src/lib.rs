//! The safe face of Linux
