//! Files to be served, and compression: what a path leads to ([`cache`], within the bounds of [`share_path`]), its type ([`mime`]), which bytes
//! a request gets ([`conditional`], [`range`]), how a response is compressed ([`compression`]), and the contents of a folder ([`listing`]),
//! as far as a share shows it ([`folder`]).
//!
//! Called by the server's action `share`, and by the code that sends a body. Does not depend on connections, on the configuration in force,
//! or on HTTP framing except chunks. Must never: open anything but regular files, or block on one.

pub mod cache;
pub mod compression;
pub mod conditional;
pub mod dates;
pub mod folder;
pub mod listing;
pub mod mime;
pub mod range;
pub mod share_path;
