//! `tutti cert`: the certificates stored in a running server.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;
use tutti_options::{visible, visible_value};

use super::client::{ControlClient, ControlResponse, encode};
use super::control_address::ControlArguments;
use super::input::read;
use super::report::{CommandError, say, write};
use super::style;

#[derive(Args)]
pub(crate) struct CertificateArguments {
    #[command(subcommand)]
    command: CertificateCommand,
}

#[derive(Subcommand)]
enum CertificateCommand {
    /// List the certificates with their names, expiry dates and host names
    List {
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Print a stored certificate and its chain, without the key
    Get {
        /// Name of the certificate
        name: String,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Store a certificate with its chain and key, or replace one
    Put {
        /// Name, as used in `tls` of a listener
        name: String,
        /// PEM files: the certificate, its chain and its key, in one file or several (`-`: standard input)
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Order a new certificate from its authority now, although it is not due, or read it from its files again
    Renew {
        /// Name of the certificate, from `tutti cert list`
        name: String,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Print the root certificate of the server's own authority (`"directory": "internal"`), and how clients come to trust it
    Root {
        /// Name of a certificate that it has issued, from `tutti cert list`; needed if there are several authorities
        name: Option<String>,
        #[command(flatten)]
        control: ControlArguments,
    },
    /// Remove a certificate that no listener uses
    Delete {
        /// Name of the certificate
        name: String,
        #[command(flatten)]
        control: ControlArguments,
    },
}

pub(crate) fn run(arguments: &CertificateArguments) -> Result<ExitCode, CommandError> {
    match &arguments.command {
        CertificateCommand::List { control } => list(&ControlClient::new(control)?),
        CertificateCommand::Get { name, control } => {
            let answer = of_stored("GET", name, &place(name), &ControlClient::new(control)?)?;
            write(&answer.body)
        }
        CertificateCommand::Put {
            name,
            files,
            control,
        } => put(name, files, &ControlClient::new(control)?),
        CertificateCommand::Renew { name, control } => {
            let path = format!("/control/certificates/{}/renew", encode(name));
            of_stored("POST", name, &path, &ControlClient::new(control)?)?;
            say(&format!("{} {name} is renewed", style::good("done:")));
            Ok(ExitCode::SUCCESS)
        }
        CertificateCommand::Root { name, control } => {
            root(name.as_deref(), &ControlClient::new(control)?)
        }
        CertificateCommand::Delete { name, control } => {
            of_stored("DELETE", name, &place(name), &ControlClient::new(control)?)?;
            say(&format!("{} {name} is removed", style::good("done:")));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn place(name: &str) -> String {
    format!("/certificates/{}", encode(name))
}

/// Sends a request about the certificate with this name.
fn of_stored(
    method: &str,
    name: &str,
    path: &str,
    client: &ControlClient,
) -> Result<ControlResponse, CommandError> {
    let answer = client.call(method, path, None, None)?;
    if answer.status == 404 {
        return Err(
            CommandError::new(format!("there is no certificate `{name}`"))
                .hint("`tutti cert list` lists them"),
        );
    }
    answer.succeeded(None)?;
    Ok(answer)
}

fn put(name: &str, files: &[PathBuf], client: &ControlClient) -> Result<ExitCode, CommandError> {
    let mut bundle = Vec::new();
    for file in files {
        let (_, bytes) = read(file)?;
        bundle.extend_from_slice(&bytes);
        // Makes the next file begin on its own line.
        if !bundle.ends_with(b"\n") {
            bundle.push(b'\n');
        }
    }
    let body = Some((bundle.as_slice(), "application/x-pem-file"));
    let answer = client.send("PUT", &place(name), body, None)?;
    answer.succeeded(None)?;
    if let Some(warning) = answer.json()?.get("warning").and_then(Value::as_str) {
        say(&format!(
            "{} {}",
            style::place("warning:"),
            visible(warning)
        ));
    }
    say(&format!("{} {name} is stored", style::good("done:")));
    Ok(ExitCode::SUCCESS)
}

/// Prints the root certificate to the standard output, and the rest beside it.
fn root(name: Option<&str>, client: &ControlClient) -> Result<ExitCode, CommandError> {
    let answer = client.call("GET", "/status/certificates", None, None)?;
    let all = match answer.status {
        404 => Value::Null,
        _ => {
            answer.succeeded(None)?;
            answer.json()?
        }
    };
    let all = all.as_object().cloned().unwrap_or_default();
    let mut roots: Vec<&str> = all
        .iter()
        .filter(|(bundle, _)| name.is_none_or(|name| name == *bundle))
        .filter_map(|(_, status)| status.get("authority").and_then(Value::as_str))
        .collect();
    roots.sort_unstable();
    roots.dedup();
    match roots.as_slice() {
        [] => Err(
            CommandError::new("the server has no authority of its own that has issued it")
                .hint("`\"settings\": {\"acme\": {\"local\": {\"directory\": \"internal\"}}}` creates one"),
        ),
        [pem] => {
            eprintln!("{TRUST}");
            write(pem.as_bytes())
        }
        _ => Err(CommandError::new("the server has several authorities")
            .hint("write the name of a certificate, from `tutti cert list`")),
    }
}

/// Instructions for trusting a root certificate.
const TRUST: &str = "\
A holder of the key of this certificate can pretend to be any site to the clients that trust it.
  Debian, Ubuntu: tutti cert root > /usr/local/share/ca-certificates/tutti.crt; update-ca-certificates
  Fedora:         tutti cert root > /etc/pki/ca-trust/source/anchors/tutti.pem; update-ca-trust
  macOS:          security add-trusted-cert -d -k /Library/Keychains/System.keychain tutti.pem
  Windows:        certutil -addstore Root tutti.pem
  Firefox:        Settings, Certificates, Authorities, Import
  curl:           curl --cacert tutti.pem https://…";

fn list(client: &ControlClient) -> Result<ExitCode, CommandError> {
    let answer = client.call("GET", "/certificates", None, None)?;
    answer.succeeded(None)?;
    let stored = visible_value(answer.json()?);
    let stored = stored.as_object().cloned().unwrap_or_default();
    if stored.is_empty() {
        say(&style::quiet("no certificates"));
    }
    let width = stored.keys().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0);
    for (name, bundle) in &stored {
        let first = bundle.pointer("/chain/0").unwrap_or(&Value::Null);
        let text = |pointer| first.pointer(pointer).and_then(Value::as_str);
        let until = text("/validity/until").unwrap_or("unknown");
        let alternatives = first
            .pointer("/subject/alt_names")
            .and_then(Value::as_array);
        let names: Vec<&str> = match alternatives {
            Some(names) if !names.is_empty() => names.iter().filter_map(Value::as_str).collect(),
            _ => text("/subject/common_name").into_iter().collect(),
        };
        say(&format!(
            "{}  until {until}  {}",
            style::strong(&format!("{name:width$}")),
            names.join(", ")
        ));
    }
    Ok(ExitCode::SUCCESS)
}
