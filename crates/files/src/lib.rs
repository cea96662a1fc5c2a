//! Files to be served, and bytes compressed: what a path leads to ([`cache`], within the bounds of [`share_path`]), its type ([`mime`]), whether
//! and which of its bytes a request wants ([`conditional`], [`range`]), how a response is compressed ([`compression`]), and what is in a
//! folder ([`listing`]), as far as a share shows it ([`folder`]).
//!
//! Called by the server's action `share`, and by whatever sends a body. Knows nothing of connections, configurations in force or HTTP's
//! framing in memory but for chunks. Must never: open anything but regular files, or block on one.

pub mod cache;
pub mod compression;
pub mod conditional;
pub mod dates;
pub mod folder;
pub mod listing;
pub mod mime;
pub mod range;
pub mod share_path;
