//! The configuration that the server starts with: that of the files, or the stored one.
//!
//! Called once, at a start or an upgrade. Must never happen: that files with a fault replace a configuration that
//! works.

use std::collections::BTreeMap;

use tutti_config::{Diagnostics, Document};
use tutti_log::Level;
use tutti_log::Log;
use tutti_protocol::{Cause, ControllerHello, FromController};
use tutti_unprivileged::{context, log_faults, log_remarks};

use super::certificate_files::{self, Read};
use super::files::{combine, unreadable};
use super::service::ControllerService;

/// Answers main's question for the configuration to start with.
pub(super) async fn of(
    service: &ControllerService,
    hello: &ControllerHello,
    stored: Option<Document>,
    set_aside: bool,
    log: &Log,
) -> FromController {
    let mut texts = BTreeMap::new();
    let news = match Beginning::choose(service, hello, stored, log).await {
        Beginning::Stored(stored, faults) => {
            service.add_problems(faults);
            service.beginning(stored, hello.is_upgrade, None)
        }
        Beginning::Files(document, read) => {
            texts = certificate_files::texts(&read);
            service.adopt(&read);
            service.beginning(Some(document), false, Some(cause()))
        }
        Beginning::Nothing(faults, hint) => {
            log_faults(log, &faults);
            let mut message = format!("the configuration files cannot be used:\n{faults}");
            if let Some(hint) = hint {
                message = format!("{}\nhint: {hint}", message.trim_end());
            }
            FromController::Unfit { message }
        }
    };
    match news {
        FromController::Begin {
            configuration,
            cause,
            grants,
            ..
        } => FromController::Begin {
            configuration,
            cause,
            set_aside,
            grants,
            certificates: texts,
        },
        other => other,
    }
}

/// The configuration that the server starts with.
enum Beginning {
    /// The stored configuration, if there is one, with the faults of the files that take precedence.
    Stored(Option<Document>, Diagnostics),
    /// The configuration of the files, and the certificates that it names by file. They are not stored yet.
    Files(Document, Vec<Read>),
    /// None: the files have these faults, and there is no replacement. With a remedy, if there is one.
    Nothing(Diagnostics, Option<&'static str>),
}

impl Beginning {
    /// Chooses. Files take precedence; if they have a fault, the start fails, or the stored configuration is used if
    /// `--lenient` is given.
    async fn choose(
        service: &ControllerService,
        hello: &ControllerHello,
        stored: Option<Document>,
        log: &Log,
    ) -> Beginning {
        let files = match &hello.files {
            None => return Beginning::Stored(stored, Diagnostics::default()),
            Some(Ok(files)) => combine(files),
            Some(Err(reason)) => Err(unreadable(reason)),
        };
        let checked = match files {
            Ok(document) => {
                log_remarks(log, &document);
                usable(service, hello, document).await
            }
            Err(faults) => Err(faults),
        };
        match (checked, stored) {
            (Ok((document, read)), Some(stored)) if document == stored && read.is_empty() => {
                Beginning::Stored(Some(stored), Diagnostics::default())
            }
            (Ok((document, read)), _) => Beginning::Files(document, read),
            (Err(faults), None) => Beginning::Nothing(faults, None),
            (Err(faults), Some(_)) if !hello.is_lenient => Beginning::Nothing(
                faults,
                Some(
                    "the configuration that was in force before is stored; `--lenient` starts with it",
                ),
            ),
            (Err(faults), stored) => {
                log.line(
                    Level::Alert,
                    "the configuration files cannot be used; `--lenient`: continuing with the configuration that was in force before",
                );
                log_faults(log, &faults);
                Beginning::Stored(stored, faults)
            }
        }
    }
}

/// Returns the document if it can be served, with the certificates that it names by file.
async fn usable(
    service: &ControllerService,
    hello: &ControllerHello,
    document: Document,
) -> Result<(Document, Vec<Read>), Diagnostics> {
    let config = tutti_config::validate(&document, &context(&hello.modules))?;
    let read = service.0.read_certificates(&config.certificate_files);
    Ok((document, read.await?))
}

/// The cause of the change that is made by a start with configuration files.
fn cause() -> Cause {
    Cause {
        by: "tutti".to_owned(),
        change: "start with the configuration files".to_owned(),
    }
}
