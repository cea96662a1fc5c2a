//! The source of the configuration: that of the flag `--source`, or that of the configuration itself.

use tutti_config::model::Source;
use tutti_config::{Diagnostic, Diagnostics, Format, Pointer};
use tutti_protocol::{EtcdPlan, GivenSource, SourcePlan};

/// Reads the value of `--source`.
pub(super) fn given(given: Option<&GivenSource>) -> Result<Option<Box<SourcePlan>>, Diagnostics> {
    let source = match given {
        None => return Ok(None),
        Some(GivenSource::Url { url }) => tutti_config::source::of_url(url)?,
        Some(GivenSource::File { file }) => {
            let unreadable =
                |reason: &String| Diagnostics::one(Diagnostic::apply(Pointer::root(), reason));
            let file = file.as_ref().map_err(unreadable)?;
            let format = Format::of_file(&file.name).unwrap_or_default();
            tutti_config::source::of_text(&file.bytes, format)?
        }
    };
    Ok(Some(Box::new(plan(&source))))
}

/// Returns the source in the form that the source process gets.
pub(super) fn plan(source: &Source) -> SourcePlan {
    let etcd = &source.etcd;
    let tls = &source.tls;
    SourcePlan {
        name: source.options.name.clone(),
        labels: source.labels.clone(),
        address: source.address,
        secret_file: source.options.secret_file.clone(),
        etcd: EtcdPlan {
            members: source.members.clone(),
            prefix: etcd.prefix.clone(),
            user: etcd.user.clone(),
            password_file: etcd.password_file.clone(),
            ca: tls.ca.clone(),
            identity: tls.certificate.clone().zip(tls.key.clone()),
            server_name: tls.server_name.clone(),
        },
    }
}
