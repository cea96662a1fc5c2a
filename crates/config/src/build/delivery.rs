//! Error pages, internal routes, early hints, request mirroring, maintenance.

use std::collections::BTreeSet;

use tutti_document::{Diagnostic, Pointer, TreeNode, Value, shorten};

use super::builder::Builder;
use super::reader::{Reader, strings};
use crate::model::{
    Delivery, Destination, ErrorPage, ErrorStatus, InternalRoute, Maintenance, Mirror, PageStatus,
    Pass,
};
use crate::references::{self, Reference, ReferenceTarget};
use crate::table::{
    ActionOptions, DeliveryOptions, ErrorOptions, MaintenanceOptions, MirrorOptions, Opt,
};
use crate::template::Template;

impl<'d> Builder<'d> {
    /// Builds the rules of a listener.
    pub(super) fn errors(&mut self, reader: &Reader<'d>) -> Option<Box<Delivery>> {
        let delivery = Delivery {
            error_pages: self.error_pages(reader),
            intercept_errors: reader.read::<ErrorOptions>().intercept_errors,
            ..Delivery::default()
        };
        delivery.some()
    }

    /// Builds the rules of an action.
    pub(super) fn delivery(&mut self, reader: &Reader<'d>) -> Option<Box<Delivery>> {
        if self.in_error_page {
            for option in [&ErrorOptions::error_pages, &ErrorOptions::intercept_errors] {
                let message = "an error page cannot have error pages";
                self.refuse(reader, option, message);
            }
        } else {
            let message = "only an error page can set the status of a response";
            self.refuse(reader, &DeliveryOptions::response_status, message);
        }
        if reader.has(&ActionOptions::status) && self.in_error_page {
            let message = "`return` sets the status already";
            self.refuse(reader, &DeliveryOptions::response_status, message);
        }
        let delivery = Delivery {
            error_pages: match self.in_error_page {
                true => Vec::new(),
                false => self.error_pages(reader),
            },
            intercept_errors: reader.read::<ErrorOptions>().intercept_errors,
            internal: self.internal(reader),
            early_hints: early_hints(reader),
            mirror: self.mirror(reader),
        };
        delivery.some()
    }

    /// Returns the pages for single statuses first.
    fn error_pages(&mut self, reader: &Reader<'d>) -> Vec<ErrorPage> {
        let Some((node, pointer)) = reader.get(&ErrorOptions::error_pages) else {
            return Vec::new();
        };
        let was_in_one = std::mem::replace(&mut self.in_error_page, true);
        let mut pages = Vec::new();
        for member in node.members() {
            let reader = Reader::new(&member.node, pointer.child(&member.name));
            let status = page_status(&reader);
            let statuses = ErrorStatus::parse(&member.name);
            if let (Some(action), Some(statuses)) = (self.action(reader), statuses) {
                pages.push(ErrorPage {
                    statuses,
                    action,
                    status,
                });
            }
        }
        self.in_error_page = was_in_one;
        pages.sort_by_key(|page| matches!(page.statuses, ErrorStatus::Class(_)));
        pages
    }

    /// Returns those with the longest prefixes first.
    fn internal(&mut self, reader: &Reader<'d>) -> Vec<InternalRoute> {
        let Some((node, pointer)) = reader.get(&DeliveryOptions::internal) else {
            return Vec::new();
        };
        let mut routes = Vec::new();
        match &node.value {
            Value::Object(_) => {
                for member in node.members() {
                    let pointer = pointer.child(&member.name);
                    routes.extend(self.internal_route(&member.name, &member.node, pointer));
                }
            }
            _ => routes.extend(self.internal_route("/", node, pointer)),
        }
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
        routes
    }

    fn internal_route(
        &mut self,
        prefix: &str,
        node: &'d TreeNode,
        pointer: Pointer,
    ) -> Option<InternalRoute> {
        match self.pass(node, pointer.clone())? {
            Pass::Fixed(Destination::Route(Some(route))) => Some(InternalRoute {
                prefix: prefix.to_owned(),
                route,
            }),
            _ => {
                let message = "a response can redirect only to a named route";
                let diagnostic = Diagnostic::new(pointer, message);
                self.faults
                    .value(diagnostic.suggest("write `routes/NAME`"), node);
                None
            }
        }
    }

    fn mirror(&mut self, reader: &Reader<'d>) -> Option<Mirror> {
        let reader = reader.inner(&DeliveryOptions::mirror)?;
        let (node, pointer) = reader.get(&MirrorOptions::to)?;
        match self.pass(node, pointer.clone())? {
            Pass::Fixed(Destination::Upstream(upstream)) => Some(Mirror {
                upstream,
                options: reader.read(),
            }),
            _ => {
                let diagnostic =
                    Diagnostic::new(pointer, "copies of requests can only go to an upstream");
                self.faults
                    .value(diagnostic.suggest("write `upstreams/NAME`"), node);
                None
            }
        }
    }

    /// `maintenance` of the settings, a listener or an action.
    pub(super) fn maintenance(&mut self, outer: &Reader<'d>, option: &Opt) -> Option<Maintenance> {
        let reader = outer.inner(option)?;
        let options: MaintenanceOptions = reader.read();
        if let (Some(page), Some((node, pointer))) =
            (&options.page, reader.get(&MaintenanceOptions::page))
            && !page.is_absolute()
        {
            let message = format!(
                "`{}` is not an absolute path",
                shorten(&page.to_string_lossy())
            );
            let diagnostic = Diagnostic::new(pointer, message);
            let hint = "begin it with `/`";
            self.faults.value(diagnostic.suggest(hint), node);
        }
        Some(Maintenance {
            except: reader
                .addresses(&MaintenanceOptions::except)
                .unwrap_or_default(),
            pointer: reader.pointer,
            options,
        })
    }

    /// Reports every `pass` from outside to an internal route, through which clients would reach what only responses
    /// should.
    pub(super) fn check_internal_routes(&mut self) {
        let references = references::of_root(self.root);
        let is_internal = |one: &&Reference<'_>| one.option.1 == DeliveryOptions::internal.name;
        let internal = references.iter().filter(is_internal);
        let internal: BTreeSet<String> = internal.filter_map(route_name).collect();
        let is_pass = |one: &&Reference<'_>| one.option.1 == ActionOptions::pass.name;
        for reference in references.iter().filter(is_pass) {
            let Some(name) = route_name(reference) else {
                continue;
            };
            let from = named_route(&reference.pointer);
            let is_outside = from.is_none_or(|from| !internal.contains(&from));
            if is_outside && internal.contains(&name) {
                let message = format!(
                    "the route `{}` is internal: only a response can redirect there",
                    shorten(&name)
                );
                let hint = "choose a route for `internal` that no `pass` refers to";
                let diagnostic = Diagnostic::new(reference.pointer.clone(), message);
                self.faults.value(diagnostic.suggest(hint), reference.node);
            }
        }
    }
}

fn early_hints(reader: &Reader<'_>) -> Vec<Template> {
    let Some((node, _)) = reader.get(&DeliveryOptions::early_hints) else {
        return Vec::new();
    };
    let texts = strings(node).into_iter();
    texts
        .filter_map(|text| Template::parse(text).ok())
        .collect()
}

fn page_status(reader: &Reader<'_>) -> PageStatus {
    if reader.has(&ActionOptions::status) {
        return PageStatus::Own;
    }
    match reader.get(&DeliveryOptions::response_status) {
        None => PageStatus::Kept,
        Some((node, _)) => match node.whole_number().and_then(|one| u16::try_from(one).ok()) {
            Some(status) => PageStatus::Fixed(status),
            None => PageStatus::Own,
        },
    }
}

/// Returns the name of the route that a reference leads to, if it is a named route.
fn route_name(reference: &Reference<'_>) -> Option<String> {
    match &reference.target {
        ReferenceTarget::Part(part) => named_route(part),
        _ => None,
    }
}

/// Returns the name of the route that contains a place.
fn named_route(place: &Pointer) -> Option<String> {
    let mut segments = place.segments();
    (segments.next()? == "routes").then(|| segments.next())?
}
