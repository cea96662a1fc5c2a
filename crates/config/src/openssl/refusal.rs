//! Why a command is rejected.

/// A rejected command.
#[derive(Debug, PartialEq)]
pub(crate) struct RejectedCommand {
    /// The reason.
    pub(crate) message: String,
    /// Valid values.
    pub(crate) expected: Option<String>,
    /// The remedy.
    pub(crate) suggestion: Option<String>,
    /// The name of the command is wrong, not its value.
    pub(crate) is_name: bool,
}

impl RejectedCommand {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        RejectedCommand {
            message: message.into(),
            expected: None,
            suggestion: None,
            is_name: false,
        }
    }

    pub(crate) fn expect(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    pub(crate) fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// Names in backticks, separated by commas.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
