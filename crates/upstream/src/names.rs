//! Keeps the addresses of servers' names up to date: looks names up again when the answer has expired.
//!
//! One task for each name of an upstream, on a thread of the caller's choice that is not a listen thread.
//!
//! Must never happen: that a failed lookup removes working addresses.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tutti_config::model::{Resolver, UpstreamAddress};
use tutti_dialer::Backoff;

use crate::group::ServerGroup;
use crate::lookup::{Questions, Resolution};
use crate::services;
use crate::target::ResolvedTarget;

/// The pause before a failed lookup is repeated: the first and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// An event to be logged about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameEvent {
    /// It cannot be looked up.
    Lost,
    /// It can be looked up again.
    Found,
}

/// Keeps the addresses of one name of an upstream up to date, for as long as this runs. `index` is that of [`ServerGroup::names`]. `log` is
/// called once when a problem begins, and once when it ends.
pub async fn keep_resolved(
    upstream: Arc<ServerGroup>,
    index: usize,
    name: UpstreamAddress,
    settings: Resolver,
    log: impl Fn(NameEvent, &str),
) {
    let mut former = upstream.targets(index);
    let mut backoff = Backoff::beginning_with(FIRST_PAUSE, LONGEST_PAUSE);
    // The last logged problem, so that each is logged once.
    let mut trouble: Option<Trouble> = None;
    loop {
        let found = look_up(&name, &former, &settings).await;
        let (now, pause) = match found.and_then(|found| upstream.permitted(found)) {
            Ok(answer) => {
                upstream.resolved(index, Some(answer.targets.clone()));
                former = answer.targets;
                (Trouble::of(answer.missing, &former), answer.valid)
            }
            Err(why) => {
                let has_some = upstream.resolved(index, None);
                (Some(Trouble::Whole(why, has_some)), LONGEST_PAUSE)
            }
        };
        if !Trouble::is_same(now.as_ref(), trouble.as_ref()) {
            log_change(&name, now.as_ref(), trouble.as_ref(), &log);
        }
        trouble = now;
        let pause = match trouble {
            Some(_) => pause.min(backoff.after_failure()),
            None => {
                backoff.reset();
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Why requests may find no server, or not all of them.
enum Trouble {
    /// The name cannot be looked up, and why; true: former addresses are kept.
    Whole(String, bool),
    /// The same for one of its targets.
    Target(Box<str>, String, bool),
    /// The answer declares that there is no target.
    NoTarget,
}

impl Trouble {
    fn of(missing: Option<(Box<str>, String)>, targets: &[ResolvedTarget]) -> Option<Trouble> {
        let Some((host, why)) = missing else {
            return targets.is_empty().then_some(Trouble::NoTarget);
        };
        let mut hosts = targets.iter().filter_map(|target| target.host.as_deref());
        let has_some = hosts.any(|name| *name == *host);
        Some(Trouble::Target(host, why, has_some))
    }

    fn is_same(one: Option<&Trouble>, other: Option<&Trouble>) -> bool {
        match (one, other) {
            (None, None)
            | (Some(Trouble::Whole(..)), Some(Trouble::Whole(..)))
            | (Some(Trouble::NoTarget), Some(Trouble::NoTarget)) => true,
            (Some(Trouble::Target(one, ..)), Some(Trouble::Target(other, ..))) => one == other,
            _ => false,
        }
    }
}

fn log_change(
    name: &UpstreamAddress,
    now: Option<&Trouble>,
    before: Option<&Trouble>,
    log: &impl Fn(NameEvent, &str),
) {
    let name = match name {
        UpstreamAddress::Name { host, .. } => format!("name `{host}`"),
        other => format!("service `{other}`"),
    };
    let kept = |has_some: bool, otherwise: &'static str| match has_some {
        true => "; its last addresses are kept",
        false => otherwise,
    };
    match (now, before) {
        (Some(Trouble::Whole(why, has_some)), _) => {
            let rest = kept(*has_some, "");
            let text = format!("the {name} cannot be resolved: {why}{rest}");
            log(NameEvent::Lost, &text);
        }
        (Some(Trouble::Target(host, why, has_some)), _) => {
            let rest = kept(*has_some, "; it gets no requests");
            let text = format!("the target `{host}` of the {name} cannot be resolved: {why}{rest}");
            log(NameEvent::Lost, &text);
        }
        (Some(Trouble::NoTarget), _) => {
            let text =
                format!("the {name} is declared unavailable by the target `.` of its SRV record");
            log(NameEvent::Lost, &text);
        }
        (None, Some(Trouble::Target(host, ..))) => {
            let text = format!("the {name} no longer has an unresolved target `{host}`");
            log(NameEvent::Found, &text);
        }
        (None, _) => log(NameEvent::Found, &format!("the {name} is resolved again")),
    }
}

/// Looks a name up like the names of servers.
pub async fn addresses(host: &str, settings: &Resolver) -> Result<Vec<IpAddr>, String> {
    let questions = Questions::new(settings)?;
    let (addresses, _) = questions.addresses(host).await?;
    Ok(addresses)
}

async fn look_up(
    name: &UpstreamAddress,
    former: &[ResolvedTarget],
    settings: &Resolver,
) -> Result<Resolution, String> {
    let questions = Questions::new(settings)?;
    let mut answer = match name {
        UpstreamAddress::Name { host, port } => {
            let (addresses, valid) = questions.addresses(host).await?;
            let mut targets: Vec<ResolvedTarget> = addresses
                .into_iter()
                .map(|ip| ResolvedTarget::alike(ip, *port))
                .collect();
            targets.sort_unstable();
            targets.dedup();
            Resolution {
                targets,
                valid,
                missing: None,
            }
        }
        UpstreamAddress::Service { query, .. } => {
            services::look_up(query, former, &questions).await?
        }
        // `ServerGroup::names` contains no others.
        _ => return Err("it is not a valid name".to_owned()),
    };
    answer.valid = questions.bounded(answer.valid);
    Ok(answer)
}
