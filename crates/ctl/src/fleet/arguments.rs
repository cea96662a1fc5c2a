//! Arguments shared by several fleet commands, and their wording.

use tutti_metrics::status_value::plural;

/// The output format.
#[derive(clap::Args, Clone)]
pub(super) struct OutputArguments {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The nodes that a command applies to.
#[derive(clap::Args, Clone)]
pub(super) struct SelectorArguments {
    /// The nodes with this label, instead of all nodes without a document for one of their labels
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

/// Describes the nodes of a selector.
pub(super) fn selected_nodes(selector: &str) -> String {
    match selector {
        tutti_fleet_store::keys::ALL => "all nodes".to_owned(),
        label => format!("nodes with `{label}`"),
    }
}

/// `1 node`, `3 nodes`.
pub(super) fn nodes(count: usize) -> String {
    plural(count as u64, "node")
}
