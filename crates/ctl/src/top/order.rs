//! Orders given with a key.

/// A request to the server that changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// Restart this application.
    Restart(String),
}

impl Order {
    pub(super) fn under_way(&self) -> String {
        let Order::Restart(name) = self;
        format!("application {name} is being restarted …")
    }
}
