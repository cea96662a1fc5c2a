//! Destinations: the target of a `pass` must exist; otherwise the nearest existing name is suggested.

use std::collections::HashMap;

use tutti_document::{TreeNode, Value, shorten, suggest};

use crate::check::is_misspelt;
use crate::model::{Destination, Pass, TemplatePart};
use crate::references::segments_of;
use crate::table::ApplicationType;
use crate::template::Template;

/// Why a destination cannot be used.
pub(super) struct DestinationError {
    pub(super) message: String,
    pub(super) suggestion: Option<String>,
    pub(super) expected: Option<String>,
    /// The section of the configuration in which it is missing.
    pub(super) section: Option<&'static str>,
    /// The application has targets, under a misspelt name that has been reported.
    pub(super) is_target_misspelt: bool,
}

/// All names, by section: looked up for each destination.
pub(super) struct Sections<'d> {
    root: &'d TreeNode,
    applications: HashMap<&'d str, &'d TreeNode>,
    upstreams: HashMap<&'d str, &'d TreeNode>,
    routes: HashMap<&'d str, &'d TreeNode>,
    spoolers: HashMap<&'d str, &'d TreeNode>,
    streams: HashMap<&'d str, &'d TreeNode>,
}

impl<'d> Sections<'d> {
    /// True if there is an application with this name.
    pub(super) fn has_application(&self, name: &str) -> bool {
        self.applications.contains_key(name)
    }

    pub(super) fn of(root: &'d TreeNode) -> Sections<'d> {
        let section = |name: &str| {
            let members = root.child(name).map(TreeNode::members).unwrap_or_default();
            members
                .iter()
                .map(|member| (&*member.name, &member.node))
                .collect()
        };
        Sections {
            root,
            applications: section("applications"),
            upstreams: section("upstreams"),
            routes: section("routes"),
            spoolers: section("spoolers"),
            streams: section(STREAMS),
        }
    }
}

impl DestinationError {
    fn new(message: String, suggestion: Option<String>) -> Self {
        DestinationError {
            message,
            suggestion,
            expected: None,
            section: None,
            is_target_misspelt: false,
        }
    }

    fn of(section: &'static str, message: String, suggestion: Option<String>) -> Self {
        DestinationError {
            section: Some(section),
            ..DestinationError::new(message, suggestion)
        }
    }
}

/// The sections that a destination may begin with.
const SECTIONS: [&str; 3] = ["routes", "applications", "upstreams"];

/// A section that only destinations without variables may name: otherwise clients would choose what stores their
/// requests.
const SPOOLERS: &str = "spoolers";

/// A section that only listeners may name: its steps are for connections, not for requests.
const STREAMS: &str = "streams";

/// A destination that variables must not produce: otherwise clients could ask for it.
const METRICS: &str = "metrics";

/// The metrics in nginx's form, below `metrics`.
const STUB_STATUS: &str = "stub_status";

/// Resolves a `pass` against the names of the configuration.
pub(super) fn resolve(
    sections: &Sections<'_>,
    template: &Template,
) -> Result<Pass, DestinationError> {
    let Some(text) = template.as_literal() else {
        computed(template)?;
        return Ok(Pass::Computed(template.clone()));
    };
    let segments = segments_of(text).map_err(|message| DestinationError::new(message, None))?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let destination = match *segments.as_slice() {
        ["routes"] => route(sections, None)?,
        ["routes", name] => route(sections, Some(name))?,
        ["applications", name] => application(sections, name, None)?,
        ["applications", name, target] => application(sections, name, Some(target))?,
        ["upstreams", name] => upstream(sections, name)?,
        [SPOOLERS, name] => spooler(sections, name)?,
        [METRICS] => Destination::Metrics,
        [METRICS, STUB_STATUS] => Destination::StubStatus,
        [section, ..]
            if SECTIONS.contains(&section) || section == SPOOLERS || section == METRICS =>
        {
            let message = format!("`{}` is not a destination", shorten(text));
            let mut fault = DestinationError::new(message, None);
            fault.expected = Some(forms());
            return Err(fault);
        }
        _ => return Err(unknown_section(sections, text, &segments)),
    };
    Ok(Pass::Fixed(destination))
}

/// The destination of a listener's connections.
pub(super) enum StreamDestination {
    /// A group of servers.
    Upstream(String),
    /// Steps.
    Stream(String),
}

/// Resolves the `stream` of a listener, or the `pass` of one of its steps, which may not name other steps.
pub(super) fn of_connection(
    sections: &Sections<'_>,
    text: &str,
    may_be_stream: bool,
) -> Result<StreamDestination, DestinationError> {
    let segments = segments_of(text).map_err(|message| DestinationError::new(message, None))?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match *segments.as_slice() {
        ["upstreams", name] => {
            upstream(sections, name).map(|_| StreamDestination::Upstream(name.to_owned()))
        }
        [STREAMS, name] if may_be_stream => named(sections, STREAMS, &sections.streams, name)
            .map(|()| StreamDestination::Stream(name.to_owned())),
        _ => {
            let message = format!("connections cannot be passed to `{}`", shorten(text));
            let mut fault = DestinationError::new(message, None);
            let forms = match may_be_stream {
                true => "`upstreams/NAME` or `streams/NAME`",
                false => "`upstreams/NAME`",
            };
            fault.expected = Some(forms.to_owned());
            Err(fault)
        }
    }
}

/// Finds an object in its section.
fn named(
    sections: &Sections<'_>,
    section: &'static str,
    known: &HashMap<&str, &TreeNode>,
    name: &str,
) -> Result<(), DestinationError> {
    if known.contains_key(name) {
        return Ok(());
    }
    let word = section.trim_end_matches('s');
    let message = format!("there is no {word} `{}`", shorten(name));
    let all = names(sections.root.child(section));
    let hint = among(section, name, all);
    Err(DestinationError::of(section, message, hint))
}

fn forms() -> String {
    "`routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET`, `upstreams/NAME`, `spoolers/NAME`, `metrics` or `metrics/stub_status`"
        .to_owned()
}

/// The forms that may be computed.
fn computed_forms() -> String {
    "`routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET` or `upstreams/NAME`"
        .to_owned()
}

/// At least the section before the first variable must be right, if there is one.
fn computed(template: &Template) -> Result<(), DestinationError> {
    let first = match template.parts().first() {
        Some(TemplatePart::Literal(first)) => &**first,
        // The text before the first `${` of a script, if it is plain.
        Some(TemplatePart::Script(script)) => {
            match script.source.trim_matches('`').split("${").next() {
                Some(first) if !first.contains('\\') => first,
                _ => return Ok(()),
            }
        }
        _ => return Ok(()),
    };
    let (section, whole) = match first.split_once('/') {
        Some((section, _)) => (section, true),
        None => (first, false),
    };
    // `applications$uri`: the variable begins with the slash.
    if SECTIONS.contains(&section)
        || (!whole && SECTIONS.iter().any(|known| known.starts_with(section)))
    {
        return Ok(());
    }
    let hint = suggest::nearest(section, SECTIONS).map(|name| format!("did you mean `{name}`?"));
    let mut fault = DestinationError::new(
        format!("`{}` does not begin a destination", shorten(section)),
        hint,
    );
    fault.expected = Some(computed_forms());
    Err(fault)
}

fn unknown_section(sections: &Sections<'_>, text: &str, segments: &[&str]) -> DestinationError {
    let first = segments.first().copied().unwrap_or_default();
    let section = if sections.applications.contains_key(text) {
        Some("applications")
    } else {
        sections.routes.contains_key(text).then_some("routes")
    };
    let hint = if let Some(section) = section {
        Some(format!("did you mean `{section}/{text}`?"))
    } else {
        let known = SECTIONS.into_iter().chain([SPOOLERS, METRICS]);
        suggest::nearest(first, known).map(|section| {
            let rest = segments.get(1..).unwrap_or_default();
            let whole: Vec<&str> = std::iter::once(section)
                .chain(rest.iter().copied())
                .collect();
            format!("did you mean `{}`?", shorten(&whole.join("/")))
        })
    };
    let mut fault =
        DestinationError::new(format!("`{}` is not a destination", shorten(text)), hint);
    fault.expected = Some(forms());
    fault
}

fn route(sections: &Sections<'_>, name: Option<&str>) -> Result<Destination, DestinationError> {
    let routes = sections.root.child("routes");
    match (routes.map(|routes| &routes.value), name) {
        (Some(Value::Array(_)), None) => Ok(Destination::Route(None)),
        (Some(Value::Object(_)), Some(name)) => {
            if sections.routes.contains_key(name) {
                return Ok(Destination::Route(Some(name.to_owned())));
            }
            let message = format!("there is no route `{}`", shorten(name));
            Err(DestinationError::new(
                message,
                among("routes", name, names(routes)),
            ))
        }
        (Some(Value::Object(_)), None) => {
            let message = "`routes` is an object: its routes have names".to_owned();
            Err(DestinationError::new(
                message,
                list("routes", names(routes)),
            ))
        }
        (Some(Value::Array(_)), Some(_)) => {
            let message = "`routes` is an array: its only route is called `routes`".to_owned();
            Err(DestinationError::new(
                message,
                Some("write `routes`".to_owned()),
            ))
        }
        (_, None) => {
            let message = "there is no `routes` section".to_owned();
            Err(DestinationError::of("routes", message, None))
        }
        (_, Some(name)) => Err(DestinationError::of(
            "routes",
            format!("there is no route `{}`", shorten(name)),
            None,
        )),
    }
}

/// Returns the application with this name.
pub(super) fn application(
    sections: &Sections<'_>,
    name: &str,
    target: Option<&str>,
) -> Result<Destination, DestinationError> {
    let Some(application) = sections.applications.get(name) else {
        let applications = sections.root.child("applications");
        let message = format!("there is no application `{}`", shorten(name));
        return Err(DestinationError::of(
            "applications",
            message,
            among("applications", name, names(applications)),
        ));
    };
    let prefix = format!("applications/{name}");
    let targets = application.child("targets");
    match (targets, target) {
        (Some(targets), Some(target)) if targets.child(target).is_none() => {
            let message = format!(
                "the application `{}` has no target `{}`",
                shorten(name),
                shorten(target)
            );
            return Err(DestinationError::new(
                message,
                among(&prefix, target, names(Some(targets))),
            ));
        }
        (Some(targets), None) => {
            let message = format!(
                "the application `{}` has targets, and `pass` names none",
                shorten(name)
            );
            return Err(DestinationError::new(
                message,
                list(&prefix, names(Some(targets))),
            ));
        }
        (None, Some(_)) => {
            let message = format!("the application `{}` has no targets", shorten(name));
            let hint = Some(format!("write `{}`", shorten(&prefix)));
            let mut fault = DestinationError::of("applications", message, hint);
            fault.is_target_misspelt = may_have_targets(application);
            return Err(fault);
        }
        _ => {}
    }
    Ok(Destination::Application {
        name: name.to_owned(),
        target: target.map(str::to_owned),
    })
}

/// True if the application's targets have been reported: their name is misspelt, or its `type` is unknown.
fn may_have_targets(application: &TreeNode) -> bool {
    let text = application.child("type").and_then(TreeNode::as_str);
    let known = text.and_then(ApplicationType::of);
    known.is_none_or(|(known, _)| is_misspelt(application, known.object, "targets"))
}

fn upstream(sections: &Sections<'_>, name: &str) -> Result<Destination, DestinationError> {
    named(sections, "upstreams", &sections.upstreams, name)
        .map(|()| Destination::Upstream(name.to_owned()))
}

fn spooler(sections: &Sections<'_>, name: &str) -> Result<Destination, DestinationError> {
    named(sections, SPOOLERS, &sections.spoolers, name)
        .map(|()| Destination::Spooler(name.to_owned()))
}

fn names(node: Option<&TreeNode>) -> Vec<&str> {
    node.map(|node| node.members().iter().map(|member| &*member.name).collect())
        .unwrap_or_default()
}

/// Suggests the nearest name, or all of them if there are few.
fn among(prefix: &str, name: &str, names: Vec<&str>) -> Option<String> {
    match suggest::nearest(name, names.iter().copied()) {
        Some(near) => Some(format!(
            "did you mean `{}`?",
            shorten(&format!("{prefix}/{}", escaped(near)))
        )),
        None => list(prefix, names),
    }
}

fn list(prefix: &str, names: Vec<&str>) -> Option<String> {
    /// A longer list is no help.
    const FEW: usize = 5;
    let shown: Vec<String> = names
        .iter()
        .take(FEW)
        .map(|name| format!("`{}`", shorten(&format!("{prefix}/{}", escaped(name)))))
        .collect();
    match (shown.is_empty(), names.len() > FEW) {
        (true, _) => None,
        (false, false) => Some(format!("there is {}", shown.join(", "))),
        (false, true) => Some(format!(
            "there is {}, and {} more",
            shown.join(", "),
            names.len() - FEW
        )),
    }
}

/// Encodes a name for a destination.
fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F")
}
