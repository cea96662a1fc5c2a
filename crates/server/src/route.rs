//! Where a request goes: carries out the decision of `tutti-routing` with respect to the file system.
//!
//! A `share` tries its paths in order; if none can be served its `fallback` decides, if one exists its `found`, if it has that.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use tutti_config::model::{ContentPart, Encoding, Template};
use tutti_conn::clock::now_millis;
use tutti_conn::counters::ConnectionTotals;
use tutti_files::cache::{CachedFile, Lookup};
use tutti_files::compression;
use tutti_files::folder::Folder;
use tutti_files::listing;
use tutti_files::share_path::{ResolutionLimits, SharePath};
use tutti_http::edits::{Edit, has_edit_of, is_alias};
use tutti_http::{FieldLines, Method, encode, folder_location};
use tutti_proxy::NoScript;
use tutti_request_log::Answerer;
use tutti_routing::{
    CompiledShare, Decision, DecisionKind, NotBelow, RequestInfo as _, Return, ScriptFailed,
};

use crate::action::share::{self, Found};
use crate::action::spooler::IDENTITY;
use crate::action::upstream::destination;
use crate::cache_use::{CacheUse, concern};
use crate::early_hints;
use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::exchange::route_log;
use crate::exchange::trace::TRACEPARENT;
use crate::fields::request_headers;
use crate::fields::request_id;
use crate::maintenance;
use crate::plan::{Act, Called, Plan, Returned, Served};
use crate::replace;
use crate::stub_status;
use crate::substitute::Way;

/// Decides how `request` is answered.
pub(crate) fn plan(request: &Request<'_>) -> Plan {
    let router = &request.snapshot.router;
    if let Some(substitute) = request.substitute {
        let settings = request.exchange.settings.get();
        return match &substitute.way {
            Way::Maintenance(page) => maintenance::page(request, page),
            Way::Page(page) => match router.decide_page(*page, settings, request) {
                Some(decision) => carry_out(request, decision),
                None => Plan::new(Act::page(500)),
            },
            Way::Route(route, rules) => {
                let inherited = (rules.clone(), settings);
                let decision = router.decide_internal(*route, inherited, request);
                carry_out(request, decision)
            }
        };
    }
    let Some(listener) = request.listener else {
        return Plan::new(Act::page(404));
    };
    // A response would repeat fields that scripts of a page must not read (RFC 9110 §9.3.8).
    if request.view.method() == Method::Trace {
        let methods = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
        return Plan::new(not_allowed(methods));
    }
    if request.snapshot.logs_routes {
        let local = &request.client.local;
        let line = request.view.request_line();
        route_log::begin(local, request.exchange.number(local), line);
    }
    let decision = router.decide(listener, request);
    carry_out(request, decision)
}

/// Carries out the decision.
fn carry_out<'r>(request: &Request<'r>, mut decision: Decision<'r>) -> Plan {
    let router = &request.snapshot.router;
    loop {
        request.exchange.settings.set(decision.settings);
        let closed = maintenance::closing(request, decision.settings);
        if let Some(closed) = closed
            && !may_be_metrics(&decision.action)
        {
            return Plan::new(maintenance::act(request, closed));
        }
        let answerer = Answerer::of(&decision.action);
        request.exchange.answerer.set(answerer);
        // An error page has no route of its own: the client's counts.
        if decision.route.is_some() {
            request.exchange.route.set(decision.route);
        }
        let act = match decision.action {
            DecisionKind::Application(found) => {
                match request.snapshot.applications.get(found.index) {
                    // An application cannot take a tunnel.
                    Some(_) if request.view.method() == Method::Connect => Act::page(405),
                    Some(application) => Act::Application(Called {
                        application: application.clone(),
                        target: found.target.map(Box::from),
                        upgrade: None,
                    }),
                    None => Act::page(404),
                }
            }
            DecisionKind::Upstream(index) => match request.snapshot.upstreams.get(index) {
                Some(_) if request.view.method() == Method::Connect => Act::page(405),
                Some(upstream) => match destination(upstream, &decision, request) {
                    Ok(destination) => Act::Upstream(Box::new(destination)),
                    // A path that ends in a slash would be redirected to itself.
                    Err(NoScript::Folder) if decision.path(request).ends_with(b"/") => {
                        Act::page(404)
                    }
                    Err(NoScript::Folder) => Act::Page {
                        status: 301,
                        fields: directory_field(decision.path(request), request),
                    },
                    Err(NoScript::Status(status)) => Act::page(status),
                },
                None => Act::page(404),
            },
            DecisionKind::Return(answer) => {
                returned(&decision, answer, request).unwrap_or_else(|ScriptFailed| Act::page(500))
            }
            DecisionKind::Metrics | DecisionKind::StubStatus => match request.view.method() {
                Method::Get | Method::Head => metrics(request, &decision.action),
                _ => not_allowed(b"GET, HEAD"),
            },
            DecisionKind::Spooler(index) => spooler(request, index),
            DecisionKind::NotFound => Act::page(404),
            DecisionKind::Loop => {
                let reason = format!("the routes form a loop at `{}`", decision.pointer);
                refusals::failed(&request.client.local, request, 500, &reason);
                Act::page(500)
            }
            DecisionKind::Undecided => Act::page(500),
            DecisionKind::Share(share) => match serve(request, &decision, share) {
                Ok(Act::File(served)) if share.has_found() => match router.found(decision, request)
                {
                    Ok(next) => {
                        decision = next;
                        continue;
                    }
                    Err(last) => {
                        decision = last;
                        Act::File(served)
                    }
                },
                Ok(act) => act,
                Err(NoFile::Folder) => match router.folder(decision, request) {
                    Ok(next) => {
                        decision = next;
                        continue;
                    }
                    Err(last) => {
                        decision = last;
                        refusal(404)
                    }
                },
                // The fallback is only for missing files.
                Err(NoFile::Failed(status)) => Act::page(status),
                Err(NoFile::Denied) => denied(request, &decision),
                Err(NoFile::Status(status)) => match router.fallback(decision, request) {
                    Ok(next) => {
                        decision = next;
                        continue;
                    }
                    Err(last) => {
                        decision = last;
                        refusal(status)
                    }
                },
            },
        };
        if let Some(closed) = closed
            && !is_metrics(&decision.action)
        {
            return Plan::new(maintenance::act(request, closed));
        }
        return planned(request, act, &mut decision);
    }
}

fn is_metrics(action: &DecisionKind<'_>) -> bool {
    matches!(action, DecisionKind::Metrics | DecisionKind::StubStatus)
}

/// The metrics, in the form that the action names.
fn metrics(request: &Request<'_>, action: &DecisionKind<'_>) -> Act {
    match action {
        DecisionKind::StubStatus => {
            let counters = request.client.local.shared.counters.iter();
            let totals = ConnectionTotals::sum(counters.map(Arc::as_ref));
            Act::Content(Box::new(stub_status::answer(&totals)))
        }
        _ => Act::Metrics,
    }
}

/// True if an action leads to the metrics, or to a file, besides which it may lead there. Monitoring continues: a server in maintenance is
/// not down.
fn may_be_metrics(action: &DecisionKind<'_>) -> bool {
    match action {
        DecisionKind::Metrics | DecisionKind::StubStatus => true,
        DecisionKind::Share(share) => {
            share.has_found() || share.has_folder() || share.has_fallback()
        }
        _ => false,
    }
}

/// The plan for the decision, with its changes of the request and the rules for the response.
fn planned<'r>(request: &Request<'r>, act: Act, decision: &mut Decision<'r>) -> Plan {
    let edits = match act {
        Act::Application(_) | Act::Upstream(_) | Act::Spooler(_) => edits(decision, request),
        _ => Ok(Vec::new()),
    };
    let rules = std::mem::take(&mut decision.rules);
    request.exchange.rules.replace(rules);
    // A substitute has its own path, which is not the client's.
    if request.substitute.is_none() && decision.rewritten.is_some() {
        let rewritten = decision.rewritten.clone();
        request.exchange.rewritten.replace(rewritten);
    }
    match edits {
        Ok(edits) => {
            let hints = match act {
                Act::Application(_) | Act::Upstream(_) => early_hints::listed(request, decision),
                _ => FieldLines::new(),
            };
            cached(request, act, decision, edits, hints)
        }
        Err(ScriptFailed) => Plan::with(Act::page(500), decision, Vec::new(), FieldLines::new()),
    }
}

/// The plan for an action that may have a cache.
fn cached(
    request: &Request<'_>,
    act: Act,
    decision: &mut Decision<'_>,
    edits: Vec<Edit>,
    hints: FieldLines,
) -> Plan {
    let answerer = || match &act {
        Act::Application(called) => {
            let target = called.target.as_deref().unwrap_or_default();
            Some(format!("a{}\0{target}", called.application.name()).into_bytes())
        }
        Act::Upstream(destination) => {
            let upstream = &destination.upstream;
            let mut text =
                format!("u{}\0{:x}", upstream.name(), upstream.fetch_hash()).into_bytes();
            // The addresses of a stored response are those that `rewrite_response` has made for one client.
            let rewrite = upstream.model().rewrite.as_deref();
            for (_, to) in rewrite.into_iter().flat_map(|rewrite| &rewrite.location) {
                let mut value = Vec::new();
                decision.render(to, request, &mut value).ok()?;
                text.extend_from_slice(format!("\0{}:", value.len()).as_bytes());
                text.extend_from_slice(&value);
            }
            if let Some(body) = &destination.body {
                text.extend_from_slice(format!("\0body {}:", body.len()).as_bytes());
                text.extend_from_slice(body);
            }
            Some(text)
        }
        _ => None,
    };
    // An error page is for this client only.
    let cache = decision.cache.filter(|_| request.mended().is_none());
    let concern = cache.and_then(|cache| {
        let answerer = answerer()?;
        concern(request, decision, cache, (&answerer, act.parameters()))
    });
    let mut plan = Plan::with(act, decision, edits, hints);
    match concern {
        Some(CacheUse::Look(asked)) => plan.asked = Some(asked),
        Some(CacheUse::Mind(recording)) => plan.changes.cache = Some(recording),
        None => {}
    }
    plan
}

/// Jobs are for methods with an effect: a request that only reads cannot be one.
fn spooler(request: &Request<'_>, index: usize) -> Act {
    if !matches!(
        request.view.method(),
        Method::Post | Method::Put | Method::Patch | Method::Delete
    ) {
        return Act::Page {
            status: 405,
            fields: FieldLines::of("Allow", b"POST, PUT, PATCH, DELETE"),
        };
    }
    // It would be stored, delivered and stored again without end.
    if request.snapshot.is_of_job(request.client.listener.id) {
        let reason = "a job is delivered to a spooler; hint: its `pass` must lead to an application, an upstream or a file";
        refusals::failed(&request.client.local, request, 508, reason);
        return Act::page(508);
    }
    let spooler = request.snapshot.spoolers.get(index);
    spooler.map_or_else(|| Act::page(404), |one| Act::Spooler(Arc::clone(one)))
}

/// The changes to a request for its application or upstream: the configured ones, `traceparent` and the request id, unless those are
/// configured.
fn edits(decision: &Decision<'_>, request: &Request<'_>) -> Result<Vec<Edit>, ScriptFailed> {
    let mut edits = request_headers::edits(decision, request)?;
    if !has_edit_of(&edits, TRACEPARENT)
        && let Some(propagated) = request.exchange.traced.propagated()
    {
        edits.extend(propagated.edits());
    }
    if replace::is_wanted(request) {
        // Texts can only be replaced in a whole response that is not encoded.
        edits.retain(|edit| {
            !WHOLE_AND_PLAIN
                .iter()
                .any(|name| is_alias(edit.name().as_bytes(), name.as_bytes()))
        });
        edits.extend(WHOLE_AND_PLAIN.map(Edit::remove));
    }
    // The client's encoding is that of the client's body.
    if decision.request_body.is_some() && !has_edit_of(&edits, "Content-Encoding") {
        edits.push(Edit::remove("Content-Encoding"));
    }
    claim(request, &mut edits);
    let wanted = request.settings().request_id.as_deref();
    request_id::add_edit(wanted, &mut edits, || refusals::id(request));
    Ok(edits)
}

/// Fields of a request for a part of a response, or for an encoded one.
const WHOLE_AND_PLAIN: [&str; 3] = ["Accept-Encoding", "Range", "If-Range"];

/// Only guards may identify the user of a request, wherever it goes. A job has passed its guard when it was stored: it keeps the fields that
/// belonged to guards then, but not those that a client could still set.
fn claim(request: &Request<'_>, edits: &mut Vec<Edit>) {
    let is_job = request.snapshot.is_of_job(request.client.listener.id);
    let kept = |name: &str| {
        let mut lists = request.view.get_all(IDENTITY.as_bytes());
        let name = name.as_bytes();
        lists.any(|list| {
            let mut names = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            names.any(|one| one.eq_ignore_ascii_case(name))
        })
    };
    for name in request.snapshot.guards.fields() {
        let is_set = has_edit_of(edits, name) || (is_job && kept(name));
        if !is_set {
            edits.push(Edit::own(name.clone(), None));
        }
    }
    if is_job {
        edits.push(Edit::remove(IDENTITY));
    }
}

/// Why a share has no file to serve.
enum NoFile {
    /// This status, if there is no fallback.
    Status(u16),
    /// There is a folder without a file to serve, and the share has an action for it.
    Folder,
    /// This status: the file cannot be opened, or a script for the path has failed, or a pattern that decides whether the file may be
    /// served.
    Failed(u16),
    /// `deny` matches the path: the client does not learn whether the file exists, and the fallback is not used.
    Denied,
}

impl From<ScriptFailed> for NoFile {
    fn from(_: ScriptFailed) -> Self {
        NoFile::Failed(500)
    }
}

/// Looks for a file to serve.
fn serve(
    request: &Request<'_>,
    decision: &Decision<'_>,
    share: &CompiledShare,
) -> Result<Act, NoFile> {
    if is_denied(request, share, decision.path(request))? {
        return Err(NoFile::Denied);
    }
    // If a share only checks for a file, its `found` action decides about the method.
    if !share.has_found() {
        match request.view.method() {
            Method::Get | Method::Head => {}
            // A substitute for another response is no file of the target, and a fallback may have its own methods.
            Method::Options if request.substitute.is_none() && !share.has_fallback() => {
                return Ok(Act::Page {
                    status: 204,
                    fields: FieldLines::of("Allow", METHODS_OF_FILES),
                });
            }
            _ => return Err(NoFile::Status(405)),
        }
    }
    let below = decision.below(share, request);
    let below = below.map_err(|NotBelow| {
        if !share.has_fallback() {
            let reason = format!("is not below the `prefix` \"{}\"", share.prefix);
            refusals::refused(&request.client.local, request, 404, &reason);
        }
        NoFile::Status(404)
    })?;
    let mut path = request.client.local.buffers.take();
    let chroot = match &share.chroot {
        None => None,
        Some(template) => {
            let mut chroot = Vec::new();
            below.render(template, request, &mut chroot)?;
            Some(chroot)
        }
    };
    let is_bounded =
        chroot.is_some() || !share.options.follow_symlinks || !share.options.traverse_mounts;
    let look = Look {
        request,
        decision,
        share,
        bounds: is_bounded.then_some(ResolutionLimits {
            chroot: chroot.as_deref(),
            follow_symlinks: share.options.follow_symlinks,
            traverse_mounts: share.options.traverse_mounts,
        }),
    };
    // A share has at least one path.
    let mut outcome = Err(Missed::Status(404, ""));
    for template in &share.paths {
        path.clear();
        below.render(template, request, &mut path)?;
        let is_tested = share.has_found() && share.has_folder();
        let folder = (is_tested || path.ends_with(b"/")).then(|| path.clone());
        if path.ends_with(b"/") && is_index_denied(request, share, decision.path(request))? {
            return Err(NoFile::Denied);
        }
        outcome = look.at(template, &mut path);
        if let (Some(folder), Err(Missed::Status(404, _))) = (folder, &outcome) {
            if let Some(listing) = look.listing(&folder) {
                outcome = Ok(listing);
            } else if share.has_folder() && look.folder(&folder).is_some() {
                outcome = Err(Missed::Folder);
            }
        }
        if !matches!(outcome, Err(Missed::Status(..))) {
            break;
        }
    }
    let outcome = outcome.map_err(|missed| match missed {
        Missed::Failed(status) => NoFile::Failed(status),
        Missed::Folder => NoFile::Folder,
        Missed::Status(status, why) => {
            if !share.has_fallback() {
                let reason = share::explained(&path, look.bounds, status, why);
                refusals::refused(&request.client.local, request, status, &reason);
            }
            NoFile::Status(status)
        }
    });
    request.client.local.buffers.give(path);
    outcome
}

/// Why a path leads to no file that may be served.
enum Missed {
    /// The status, and the reason for the log.
    Status(u16, &'static str),
    /// It is a folder, for which the share has an action.
    Folder,
    /// It cannot be opened, or a pattern could not be evaluated, which has been logged; with the status.
    Failed(u16),
}

/// The parameters for looking up a file of a share.
struct Look<'a> {
    request: &'a Request<'a>,
    decision: &'a Decision<'a>,
    share: &'a CompiledShare,
    bounds: Option<ResolutionLimits<'a>>,
}

impl Look<'_> {
    /// Looks up one of its paths.
    fn at(&self, template: &Template, path: &mut Vec<u8>) -> Result<Act, Missed> {
        let (request, share) = (self.request, self.share);
        let names_directory = path.ends_with(b"/");
        let literal_climbs = || share::literal_climbs(template);
        let asked = self.decision.path(request);
        match share::find(
            request,
            path,
            &share.options.index,
            self.bounds,
            literal_climbs,
        ) {
            Found::File(file) => {
                if names_directory || share.has_found() || self.is_wanted(&file)? {
                    Ok(Act::File(self.best(file, path)))
                } else {
                    let why = "is of a MIME type that `types` does not allow";
                    Err(Missed::Status(403, why))
                }
            }
            // A redirect would lead to the same path again.
            Found::Directory if share.has_found() => Err(Missed::Status(404, "is a directory")),
            Found::Directory if template.as_literal().is_some() || asked.ends_with(b"/") => {
                let why = "is a directory; hint: end the `share` with `$uri` to serve its contents";
                Err(Missed::Status(404, why))
            }
            // As if there were none: what is in it is denied, and so is whether it exists.
            Found::Directory if self.is_denied(&[asked, b"/"].concat())? => {
                Err(Missed::Status(404, "is a directory that `deny` hides"))
            }
            Found::Directory => Ok(Act::Page {
                status: 301,
                fields: directory_field(asked, request),
            }),
            Found::Refused(status) => Err(Missed::Status(status, reason(status))),
            Found::Failed(status) => Err(Missed::Failed(status)),
        }
    }

    /// The form of the file that the client prefers: itself, or a precompressed one.
    fn best(&self, file: Rc<CachedFile>, path: &[u8]) -> Served {
        let (request, share) = (self.request, self.share);
        if share.options.precompressed.is_empty() || share.has_found() {
            return Served::plain(file);
        }
        let local = &request.client.local;
        let mut offered: SmallVec<[Encoding; 4]> =
            SmallVec::from_slice(&share.options.precompressed);
        let accepted = || request.view.get_all(b"Accept-Encoding");
        while let Some(encoding) = compression::preferred(accepted(), &offered) {
            let beside = [path, extension(encoding)].concat();
            let place = SharePath {
                path: &beside,
                bounds: self.bounds,
            };
            let mime = &request.snapshot.mime;
            if let Lookup::File(found) = local.files.lookup(place, mime, now_millis())
                && (share.options.precompressed_older || found.modified >= file.modified)
            {
                return Served {
                    file: found.as_sibling(&file, encoding),
                    is_encoded: true,
                    varies: true,
                };
            }
            offered.retain(|other| *other != encoding);
        }
        Served {
            file,
            is_encoded: false,
            varies: true,
        }
    }

    /// The list of the folder, if lists are configured and it is one. Denied folders are not listed.
    fn listing(&self, folder: &[u8]) -> Option<Act> {
        let share = self.share;
        let format = share.options.listing.filter(|_| !share.has_found())?;
        let path = self.decision.path(self.request);
        // A list of `/a` would have links to its siblings.
        if !path.ends_with(b"/") {
            return None;
        }
        Some(Act::Listing(Arc::new(Folder {
            look: self.folder(folder)?,
            format,
            path: path.to_vec(),
            deny: share.deny.clone(),
            types: share.types.clone(),
        })))
    }

    /// The folder with this path, if there is one within the bounds.
    fn folder(&self, path: &[u8]) -> Option<listing::Look> {
        let share = self.share;
        if share::climbs(path) > 0 || memchr::memchr(0, path).is_some() {
            return None;
        }
        let look = listing::Look {
            path: path.to_vec(),
            chroot: self
                .bounds
                .and_then(|bounds| bounds.chroot)
                .map(<[u8]>::to_vec),
            is_bounded: self.bounds.is_some(),
            follow_symlinks: share.options.follow_symlinks,
            traverse_mounts: share.options.traverse_mounts,
            limit: share.options.listing_limit as usize,
        };
        listing::is_folder(&look).then_some(look)
    }

    /// True if `deny` matches this path.
    fn is_denied(&self, path: &[u8]) -> Result<bool, Missed> {
        is_denied(self.request, self.share, path).map_err(|_| Missed::Failed(500))
    }

    /// True if `types` permits the file.
    fn is_wanted(&self, file: &CachedFile) -> Result<bool, Missed> {
        let Some(types) = &self.share.types else {
            return Ok(true);
        };
        let mime = file.mime.as_deref().unwrap_or_default();
        types.matches(mime.as_bytes()).map_err(|out_of_steps| {
            let pointer = &self.share.pointer;
            self.request.pattern_failed(out_of_steps, pointer);
            Missed::Failed(500)
        })
    }
}

/// The extension of a precompressed file.
fn extension(encoding: Encoding) -> &'static [u8] {
    match encoding {
        Encoding::Br => b".br",
        Encoding::Zstd => b".zst",
        Encoding::Gzip => b".gz",
        Encoding::Deflate => b".zz",
    }
}

/// Why a share has no file at the last path it tried.
fn reason(status: u16) -> &'static str {
    match status {
        404 => "does not exist",
        _ => "cannot be read (permission denied), or leads out of the share",
    }
}

/// The answer for a path that matches `deny`; the log has the reason.
fn denied(request: &Request<'_>, decision: &Decision<'_>) -> Act {
    let path = String::from_utf8_lossy(decision.path(request));
    let reason = format!("{path:?} is denied by `{}`", decision.pointer);
    refusals::refused(&request.client.local, request, 404, &reason);
    Act::page(404)
}

/// True if `deny` matches this path.
fn is_denied(request: &Request<'_>, share: &CompiledShare, path: &[u8]) -> Result<bool, NoFile> {
    let Some(deny) = &share.deny else {
        return Ok(false);
    };
    deny.matches(path).map_err(|out_of_steps| {
        request.pattern_failed(out_of_steps, &share.pointer);
        NoFile::Failed(500)
    })
}

/// True if the index file of a folder is denied by its own path.
fn is_index_denied(
    request: &Request<'_>,
    share: &CompiledShare,
    path: &[u8],
) -> Result<bool, NoFile> {
    if share.deny.is_none() {
        return Ok(false);
    }
    let folder = path.strip_suffix(b"/").unwrap_or(path);
    let index = share.options.index.as_bytes();
    is_denied(request, share, &[folder, b"/", index].concat())
}

/// The methods that a share without a fallback answers.
const METHODS_OF_FILES: &[u8] = b"GET, HEAD, OPTIONS";

fn refusal(status: u16) -> Act {
    match status {
        405 => not_allowed(METHODS_OF_FILES),
        _ => Act::page(status),
    }
}

/// RFC 9110 §15.5.6: a 405 names the methods.
fn not_allowed(methods: &'static [u8]) -> Act {
    Act::Page {
        status: 405,
        fields: FieldLines::of("Allow", methods),
    }
}

/// A `return`, with its `location` and its body.
fn returned(
    decision: &Decision<'_>,
    answer: &Return,
    request: &Request<'_>,
) -> Result<Act, ScriptFailed> {
    let status = answer.status;
    let mut fields = match &answer.location {
        Some(location) => location_field(decision, location, request)?,
        None => FieldLines::new(),
    };
    let Some(content) = &answer.content else {
        return Ok(Act::Page { status, fields });
    };
    fields.push(b"Content-Type", content.content_type.as_bytes());
    let body = match content.parts.as_slice() {
        [] => Bytes::new(),
        [ContentPart::Literal(text)] => text.clone(),
        parts => {
            let mut text = Vec::new();
            decision.render_content(parts, request, &mut text)?;
            text.into()
        }
    };
    Ok(Act::Content(Box::new(Returned {
        status,
        fields,
        body,
    })))
}

fn location_field(
    decision: &Decision<'_>,
    location: &Template,
    request: &Request<'_>,
) -> Result<FieldLines, ScriptFailed> {
    let mut value = Vec::new();
    decision.render(location, request, &mut value)?;
    let mut fields = FieldLines::new();
    // It would be this same request again (RFC 3986 §4.4), without end.
    if value.is_empty() {
        return Ok(fields);
    }
    // The value of a variable must not end the line or the attribute in a page that shows the URI, or be read as something other than one
    // URI, which contains none of these characters (RFC 3986 §2).
    let may_stay = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>');
    if value.iter().all(|byte| may_stay(*byte)) {
        fields.push(b"Location", &value);
    } else {
        fields.push_with(b"Location", |line| encode(&value, line, may_stay));
    }
    Ok(fields)
}

/// The path with a slash appended, and the query.
fn directory_field(path: &[u8], request: &Request<'_>) -> FieldLines {
    let mut value = folder_location(path);
    if let Some(query) = request.view.query() {
        value.push(b'?');
        value.extend_from_slice(query);
    }
    FieldLines::of("Location", &value)
}
