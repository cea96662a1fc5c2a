//! Arguments that several commands of a fleet have, and the words for them.

/// How to tell what a command has found.
#[derive(clap::Args, Clone)]
pub(super) struct OutputArguments {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The nodes that a command is for.
#[derive(clap::Args, Clone)]
pub(super) struct SelectorArguments {
    /// The nodes with this label, instead of all that have no document of a label
    #[arg(long, value_name = "LABEL=VALUE", value_parser = read_label)]
    label: Option<String>,
}

impl SelectorArguments {
    pub(super) fn selector(&self) -> &str {
        self.label
            .as_deref()
            .unwrap_or(tutti_fleet_store::keys::ALL)
    }
}

pub(super) fn read_label(text: &str) -> Result<String, String> {
    match tutti_options::source::is_label(text) {
        true => Ok(text.to_owned()),
        false => Err("expected LABEL=VALUE, of letters, digits, `-`, `_` and `.`".to_owned()),
    }
}

/// The nodes of a selector, for people.
pub(super) fn whom(selector: &str) -> String {
    match selector {
        tutti_fleet_store::keys::ALL => "all nodes".to_owned(),
        label => format!("nodes with `{label}`"),
    }
}

/// `1 node`, `3 nodes`.
pub(super) fn nodes(count: usize) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} node{ending}")
}
