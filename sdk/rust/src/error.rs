//! Errors of services.

/// Any error of a service or its body.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
