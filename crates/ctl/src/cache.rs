//! `tutti cache`: removes stored responses of a running server.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::client::{ControlClient, encode};
use super::control_address::ControlArguments;
use super::report::{CommandError, say};
use super::style;

#[derive(Args)]
pub(crate) struct CacheArguments {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Subcommand)]
enum CacheCommand {
    /// Remove responses from a store, so that the next request for each fetches a new one
    Purge(PurgeArguments),
}

#[derive(Args)]
struct PurgeArguments {
    /// Name of the store, as in `settings.cache`
    store: String,
    /// Only the response with this key, which is its URL unless the configuration sets `key`
    #[arg(long, conflicts_with_all = ["prefix", "tag"])]
    key: Option<String>,
    /// Only responses whose key begins with this
    #[arg(long, conflicts_with = "tag")]
    prefix: Option<String>,
    /// Only responses with this tag
    #[arg(long)]
    tag: Option<String>,
    #[command(flatten)]
    control: ControlArguments,
}

pub(crate) fn run(arguments: &CacheArguments) -> Result<ExitCode, CommandError> {
    let CacheCommand::Purge(arguments) = &arguments.command;
    let client = ControlClient::new(&arguments.control)?;
    let answer = client.call("DELETE", &place(arguments), None, None)?;
    if answer.status == 404 {
        let store = &arguments.store;
        return Err(CommandError::new(format!("there is no cache `{store}`"))
            .hint("`tutti config get settings/cache` shows them"));
    }
    answer.succeeded(None)?;
    let answer = answer.json()?;
    let done = answer.get("success").and_then(serde_json::Value::as_str);
    let done = done
        .unwrap_or("the responses are purged")
        .trim_end_matches('.');
    say(&format!("{} {done}", style::good("done:")));
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of the control API for the responses to remove.
fn place(arguments: &PurgeArguments) -> String {
    let store = format!("/control/cache/{}", encode(&arguments.store));
    let parts = [
        ("keys", &arguments.key),
        ("prefixes", &arguments.prefix),
        ("tags", &arguments.tag),
    ];
    let mut named = parts
        .iter()
        .filter_map(|(kind, value)| Some((kind, value.as_ref()?)));
    match named.next() {
        Some((kind, value)) => format!("{store}/{kind}/{}", encode(value)),
        None => store,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_has_its_place() {
        let of = |key: &str, prefix: &str, tag: &str| {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            place(&PurgeArguments {
                store: "my pages".to_owned(),
                key: given(key),
                prefix: given(prefix),
                tag: given(tag),
                control: ControlArguments {
                    control: None,
                    control_token: None,
                },
            })
        };
        assert_eq!(of("", "", ""), "/control/cache/my%20pages");
        assert_eq!(
            of("http://h/a", "", ""),
            "/control/cache/my%20pages/keys/http:%2F%2Fh%2Fa"
        );
        assert_eq!(of("", "a", ""), "/control/cache/my%20pages/prefixes/a");
        assert_eq!(of("", "", "t"), "/control/cache/my%20pages/tags/t");
    }
}
