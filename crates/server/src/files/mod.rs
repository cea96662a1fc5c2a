//! Files: what a path leads to, its type, and which bytes of it a request wants.

pub(crate) mod cache;
pub(crate) mod conditional;
pub(crate) mod mime;
pub(crate) mod place;
pub(crate) mod range;
