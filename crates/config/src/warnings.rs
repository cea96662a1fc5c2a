//! Warnings about configurations that are valid but likely a mistake.
//!
//! Called when a configuration has been checked or applied, with access to folders. It warns of options without effect,
//! and of shares that serve files that no client should get: the sources of the configuration's own applications,
//! hidden files, scripts, private keys and databases. Must never happen: a warning about a correct configuration. So
//! the routes are followed as a request would go, and a file is named only if it is known to exist: an application
//! names it, or the folder contains it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use tutti_document::{
    ConfigPath, Diagnostic, Diagnostics, Document, Member, Pointer, TreeNode, Value,
};
use tutti_options::password::PasswordHash;
use tutti_options::processes::Processes;
use tutti_options::types::Special;

use crate::build::{checking, declare_maps, patterns};
use crate::check::{self, Faults};
use crate::pattern::{Patterns, percent_decode};
use crate::secrets::{self, Sort, sorted};
use crate::table::{ApplicationType, DECODED};

/// Maximum steps of routes that are examined. Beyond that, a configuration is not examined further.
const MOST_STEPS: usize = 1_000_000;

/// Maximum routes that a request is followed through.
const MOST_HOPS: usize = 100;

/// Maximum shares, and applications, that are examined.
const MOST: usize = 1000;

/// Maximum files of a folder that are examined, of each kind.
const MOST_FILES: usize = 50;

/// Harmless hidden files.
const HARMLESS: [&str; 5] = [
    ".well-known",
    ".gitkeep",
    ".gitignore",
    ".gitattributes",
    ".nojekyll",
];

/// Returns warnings about a valid document. `names_in` returns the names in a folder, those of folders with a trailing
/// slash; none if the folder cannot be read.
pub fn warnings(document: &Document, names_in: &dyn Fn(&Path) -> Vec<String>) -> Diagnostics {
    checking(|| find_warnings(document, names_in))
}

/// A script that a share hands out instead of running it.
#[derive(Clone, Debug)]
pub struct ExposedScript {
    /// The share.
    pub share: Pointer,
    /// A path that is answered with the script.
    pub uri: String,
    /// The pattern for `deny` of the share.
    pub pattern: String,
}

/// Finds scripts that shares hand out, one of each share.
pub fn exposed_scripts(
    document: &Document,
    names_in: &dyn Fn(&Path) -> Vec<String>,
) -> Vec<ExposedScript> {
    checking(|| {
        let found = Walk::new(document.root()).exposed(names_in).into_iter();
        let scripts = found.filter(|one| matches!(one.sort, Sort::Script | Sort::Source(_)));
        let scripts = scripts.map(|one| ExposedScript {
            share: one.pointer,
            uri: one.uri,
            pattern: one.pattern,
        });
        scripts.collect()
    })
}

fn find_warnings(document: &Document, names_in: &dyn Fn(&Path) -> Vec<String>) -> Diagnostics {
    let mut faults = Faults::new(document);
    declare_maps(document.root());
    check::check(document, &mut faults);
    let mut warnings = document.remarks().to_vec();
    warnings.append(&mut faults.warnings);
    let mut walk = Walk::new(document.root());
    for shared in walk.fixed.iter().take(MOST) {
        if names_in(&shared.folder).is_empty() {
            continue;
        }
        let mut warning = shared.serves_nothing();
        document.locate(&mut warning, shared.node.span);
        warnings.push(warning);
    }
    for (mut warning, node) in capped(document.root()) {
        document.locate(&mut warning, node.span);
        warnings.push(warning);
    }
    let mut weak = Vec::new();
    weak_passwords(document.root(), &ConfigPath::root(), &mut weak);
    for (mut warning, node) in weak {
        document.locate(&mut warning, node.span);
        warnings.push(warning);
    }
    for found in walk.exposed(names_in) {
        let mut warning = found.warning();
        document.locate(&mut warning, found.node.span);
        warnings.push(warning);
    }
    warnings.sort_by_key(|warning| warning.location.map(|location| location.offset));
    Diagnostics(warnings)
}

/// Warns of numbers of processes greater than the maximum.
fn capped(root: &TreeNode) -> Vec<(Diagnostic, &TreeNode)> {
    let applications = root.child("applications").map(TreeNode::members);
    let mut found = Vec::new();
    for member in applications.unwrap_or_default().iter().take(MOST) {
        let known = member.node.child("type").and_then(TreeNode::as_str);
        let known = known.and_then(ApplicationType::of);
        let special = known.and_then(|(known, _)| Special::of(known.name, &member.node));
        let (Some(special), Some(processes)) = (special, member.node.child("processes")) else {
            continue;
        };
        let most = Processes::most(special.threads());
        let place = Pointer::root().child("applications").child(&member.name);
        let place = place.child("processes");
        let of_object = ["max", "spare"].into_iter();
        let of_object =
            of_object.filter_map(|name| Some((place.child(name), processes.child(name)?)));
        for (place, node) in std::iter::once((place.clone(), processes)).chain(of_object) {
            if node
                .whole_number()
                .is_some_and(|number| number > most.into())
            {
                let message = match special.threads().get() {
                    0 | 1 => format!("there are at most {most} processes"),
                    threads => {
                        format!("there are at most {most} processes of {threads} threads each")
                    }
                };
                let warning = Diagnostic::new(place, message);
                found.push((warning.suggest(format!("write {most}")), node));
            }
        }
    }
    found
}

/// Warns of password hashes that are too quick to be safe, once for each `users`.
fn weak_passwords<'d>(
    node: &'d TreeNode,
    place: &ConfigPath<'_>,
    found: &mut Vec<(Diagnostic, &'d TreeNode)>,
) {
    match &node.value {
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                weak_passwords(element, &place.index(index), found);
            }
        }
        Value::Object(members) => {
            for member in members {
                let place = place.name(&member.name);
                let basic = member.node.child("basic");
                match basic.and_then(|basic| basic.child("users")) {
                    Some(users) if &*member.name == "authenticate" => {
                        let (basic, option) = (place.name("basic"), "users");
                        found.extend(weak_users(users, &basic.name(option).pointer()));
                    }
                    _ => weak_passwords(&member.node, &place, found),
                }
            }
        }
        _ => {}
    }
}

fn weak_users<'d>(users: &'d TreeNode, place: &Pointer) -> Option<(Diagnostic, &'d TreeNode)> {
    let is_weak = |member: &&Member| {
        let hash = member.node.as_str().map(PasswordHash::parse);
        matches!(hash, Some(Ok(hash)) if hash.kind.is_weak())
    };
    let mut weak = users.members().iter().filter(is_weak);
    let first = weak.next()?;
    let message = match weak.count() {
        0 => "the hash is weak (MD5, SHA-1 or traditional crypt)".to_owned(),
        more => format!("this hash and {more} more are weak (MD5, SHA-1 or traditional crypt)"),
    };
    let message = format!("{message}: a thief of it finds the password in minutes");
    let warning = Diagnostic::new(place.child(&first.name), message);
    let hint = "replace it with the output of `htpasswd -nB NAME`";
    Some((warning.suggest(hint), &first.node))
}

/// Files that belong to an application.
struct Sources<'d> {
    application: &'d str,
    /// Files that the configuration names.
    named: Vec<PathBuf>,
    /// Folders of such files, and the endings of their names.
    folders: Vec<PathBuf>,
    endings: &'static [&'static str],
}

/// A `share`, and a file that it serves.
struct Exposed<'d> {
    node: &'d TreeNode,
    pointer: Pointer,
    uri: String,
    sort: Sort<'d>,
    /// The pattern for `deny`.
    pattern: String,
}

impl Exposed<'_> {
    fn warning(&self) -> Diagnostic {
        let uri = &self.uri;
        let of_suspicious = |what: &str| {
            let message = format!("`GET {uri}` serves {what}");
            let hint = format!(
                "move it out of the folder, or add `\"deny\": [\"{}\"]` here",
                self.pattern
            );
            Diagnostic::new(self.pointer.clone(), message).suggest(hint)
        };
        match self.sort {
            Sort::Script => of_suspicious("the source of a script"),
            Sort::Key => of_suspicious("what looks like a private key"),
            Sort::Data => of_suspicious("what looks like a database or a dump of one"),
            Sort::Source(name) => {
                let message = format!(
                    "`GET {uri}` serves a source file of the application `{name}`, instead of running it"
                );
                let hint = format!(
                    "pass such paths to the application in an earlier step, and add `\"deny\": [\"{}\"]` here",
                    self.pattern
                );
                Diagnostic::new(self.pointer.clone(), message).suggest(hint)
            }
            Sort::Hidden => {
                let message = format!("`GET {uri}` serves a hidden file");
                let hint = "add `\"deny\": [\"*/.*\", \"!/.well-known/*\"]` here";
                Diagnostic::new(self.pointer.clone(), message).suggest(hint)
            }
        }
    }
}

/// A `share` of a folder: the text before `$uri`.
#[derive(Clone)]
struct Shared<'d> {
    node: &'d TreeNode,
    pointer: Pointer,
    folder: PathBuf,
    /// The URL path of the folder.
    prefix: &'d str,
}

impl Shared<'_> {
    /// Returns the path by which `file` is requested; `None` if it is not below the folder.
    fn uri_of(&self, file: &Path) -> Option<String> {
        let below = file.strip_prefix(&self.folder).ok()?.to_str()?;
        (!below.is_empty()).then(|| format!("{}/{below}", self.prefix))
    }

    /// Returns the warning for a folder without `$uri` after it.
    fn serves_nothing(&self) -> Diagnostic {
        let folder = self.folder.display();
        let message = format!("`{folder}` is a folder: every request for it is answered 404");
        let hint = format!("write `{folder}$uri` to serve the files in it");
        Diagnostic::new(self.pointer.clone(), message).suggest(hint)
    }
}

struct Walk<'d> {
    root: &'d TreeNode,
    /// Routes with names.
    routes: HashMap<&'d str, &'d TreeNode>,
    /// Compiled once; the key is the address of the node.
    patterns: HashMap<*const TreeNode, Patterns>,
    steps_left: usize,
    /// Shares in the order of the document.
    shares: Vec<Shared<'d>>,
    /// Shares with paths that are the same for every request.
    fixed: Vec<Shared<'d>>,
    /// Shares that serve the file in question.
    hits: Vec<*const TreeNode>,
}

impl<'d> Walk<'d> {
    fn new(root: &'d TreeNode) -> Walk<'d> {
        let named = root
            .child("routes")
            .map(TreeNode::members)
            .unwrap_or_default();
        let mut walk = Walk {
            root,
            routes: named
                .iter()
                .map(|route| (&*route.name, &route.node))
                .collect(),
            patterns: HashMap::new(),
            steps_left: MOST_STEPS,
            shares: Vec::new(),
            fixed: Vec::new(),
            hits: Vec::new(),
        };
        let pointer = Pointer::root().child("routes");
        match root.child("routes").map(|routes| (&routes.value, routes)) {
            Some((Value::Array(_), steps)) => walk.collect(steps, &pointer),
            Some((Value::Object(routes), _)) => {
                for route in routes {
                    walk.collect(&route.node, &pointer.child(&route.name));
                }
            }
            _ => {}
        }
        walk
    }

    fn collect(&mut self, steps: &'d TreeNode, pointer: &Pointer) {
        for (index, step) in steps.elements().iter().enumerate() {
            let pointer = pointer.index(index).child("action");
            let mut left: Vec<_> = step
                .child("action")
                .map(|node| (node, pointer))
                .into_iter()
                .collect();
            while let Some((node, pointer)) = left.pop() {
                if let Some(share) = node.child("share") {
                    let prefix = prefix_of(node);
                    let fixed = templates(share).filter(|path| !path.contains(['$', '`']));
                    self.fixed
                        .extend(
                            fixed
                                .filter(|path| !path.ends_with('/'))
                                .map(|path| Shared {
                                    node: share,
                                    pointer: pointer.child("share"),
                                    folder: PathBuf::from(path),
                                    prefix,
                                }),
                        );
                    for folder in templates(share).filter_map(folder_of) {
                        let pointer = pointer.child("share");
                        self.shares.push(Shared {
                            node: share,
                            pointer,
                            folder,
                            prefix,
                        });
                    }
                }
                // A file that is found may be served by a share of its own.
                for next in ["fallback", "found"] {
                    let node = node.child(next);
                    left.extend(node.map(|node| (node, pointer.child(next))));
                }
            }
        }
    }

    fn exposed(&mut self, names_in: &dyn Fn(&Path) -> Vec<String>) -> Vec<Exposed<'d>> {
        let sources = sources(self.root);
        let mut listings: HashMap<PathBuf, Vec<String>> = HashMap::new();
        let mut list = |folder: &Path| -> Vec<String> {
            let known = listings.entry(folder.to_owned());
            known.or_insert_with(|| names_in(folder)).clone()
        };
        let mut reported: HashSet<(*const TreeNode, Sort<'_>)> = HashSet::new();
        let mut found = Vec::new();
        let mut folders_left = secrets::MOST_FOLDERS;
        let shares: Vec<Shared<'_>> = self.shares.iter().take(MOST).cloned().collect();
        for shared in shares {
            let mut all = candidates(&shared, &sources, &mut list);
            // A source of an application is reported as such, and not as a script as well.
            let known: HashSet<PathBuf> = all.iter().map(|one| one.file.clone()).collect();
            let others = suspicious(&shared, &mut folders_left, &mut list).into_iter();
            all.extend(others.filter(|one| !known.contains(&one.file)));
            for candidate in all {
                let key = (std::ptr::from_ref(shared.node), candidate.sort);
                if reported.contains(&key)
                    || !self.hands_out(&shared, &candidate.file, &candidate.uri)
                {
                    continue;
                }
                reported.insert(key);
                found.push(Exposed {
                    node: shared.node,
                    pointer: shared.pointer.clone(),
                    uri: candidate.uri,
                    sort: candidate.sort,
                    pattern: candidate.pattern,
                });
            }
        }
        found
    }

    /// True if a request for `uri`, from any listener, gets `file` from this share.
    fn hands_out(&mut self, shared: &Shared<'d>, file: &Path, uri: &str) -> bool {
        self.hits.clear();
        let listeners = self.root.child("listeners").map(TreeNode::members);
        let mut seen: HashSet<&str> = HashSet::new();
        for listener in listeners.unwrap_or_default() {
            let pass = listener.node.child("pass").and_then(TreeNode::as_str);
            if let Some(pass) = pass.filter(|pass| seen.insert(pass)) {
                let mut visited = HashSet::new();
                self.pass(pass, (file, uri), &mut visited);
            }
        }
        self.hits.contains(&std::ptr::from_ref(shared.node))
    }

    fn pass(&mut self, pass: &str, request: (&Path, &str), visited: &mut HashSet<String>) {
        let routes = self.root.child("routes");
        let name = match pass.split_once('/') {
            None if pass == "routes" => None,
            Some(("routes", name)) => percent_decode(name)
                .ok()
                .and_then(|name| String::from_utf8(name).ok()),
            _ => return,
        };
        let steps = match &name {
            None => routes,
            Some(name) => self.routes.get(name.as_str()).copied(),
        };
        let is_new = visited.len() < MOST_HOPS && visited.insert(pass.to_owned());
        if let Some(steps) = steps.filter(|_| is_new) {
            self.steps(steps, request, visited);
        }
    }

    fn steps(
        &mut self,
        steps: &'d TreeNode,
        request: (&Path, &str),
        visited: &mut HashSet<String>,
    ) {
        for step in steps.elements() {
            let Some(left) = self.steps_left.checked_sub(1) else {
                return;
            };
            self.steps_left = left;
            let conditions = step
                .child("match")
                .map(TreeNode::members)
                .unwrap_or_default();
            let matches = |member: &Member| member.name.as_ref() != "uri";
            let is_certain = !conditions.iter().any(matches);
            let uri = conditions.iter().find(|member| &*member.name == "uri");
            if uri.is_some_and(|uri| !self.matches(&uri.node, request.1)) {
                continue;
            }
            if let Some(action) = step.child("action") {
                self.action(action, request, visited);
            }
            if is_certain {
                return;
            }
        }
    }

    fn action(
        &mut self,
        mut action: &'d TreeNode,
        request: (&Path, &str),
        visited: &mut HashSet<String>,
    ) {
        let (file, uri) = request;
        loop {
            // The destination of a rewritten path is not examined.
            if action.child("rewrite").is_some() {
                return;
            }
            if let Some(pass) = action.child("pass").and_then(TreeNode::as_str) {
                return self.pass(pass, request, visited);
            }
            let Some(share) = action.child("share") else {
                return;
            };
            if action
                .child("deny")
                .is_some_and(|deny| self.matches(deny, uri))
            {
                return;
            }
            let below = uri.strip_prefix(prefix_of(action));
            let below = below.and_then(|rest| rest.strip_prefix('/'));
            let is_here = below.is_some_and(|below| {
                let mut folders = templates(share).filter_map(folder_of);
                folders.any(|folder| file == folder.join(below))
            });
            // A list of types to serve shows that the others were considered.
            if is_here && let Some(found) = action.child("found") {
                // It tests whether the file exists, and does not serve anything itself.
                action = found;
                continue;
            }
            if is_here && action.child("types").is_none() {
                self.hits.push(std::ptr::from_ref(share));
                return;
            }
            match action.child("fallback") {
                Some(fallback) => action = fallback,
                None => return,
            }
        }
    }

    fn matches(&mut self, node: &TreeNode, uri: &str) -> bool {
        let key = std::ptr::from_ref(node);
        let compiled = self.patterns.entry(key);
        compiled
            .or_insert_with(|| patterns(node, DECODED))
            .matches(uri.as_bytes())
            // A request for it would get no file.
            .unwrap_or(true)
    }
}

/// A file that may be served.
struct Candidate<'d> {
    file: PathBuf,
    uri: String,
    sort: Sort<'d>,
    pattern: String,
}

/// Returns files in the folder of a share that should not be served.
fn candidates<'d>(
    shared: &Shared<'_>,
    sources: &[Sources<'d>],
    list: &mut dyn FnMut(&Path) -> Vec<String>,
) -> Vec<Candidate<'d>> {
    let mut found = Vec::new();
    let mut add = |file: PathBuf, sort, pattern: String| {
        if let Some(uri) = shared.uri_of(&file) {
            found.push(Candidate {
                file,
                uri,
                sort,
                pattern,
            });
        }
    };
    let hidden = list(&shared.folder)
        .into_iter()
        .filter(|name| name.starts_with('.') && !HARMLESS.contains(&name.trim_end_matches('/')));
    for name in hidden.take(MOST_FILES) {
        // A file in it represents a folder.
        let file = match name.strip_suffix('/') {
            Some(folder) => shared.folder.join(folder).join("config"),
            None => shared.folder.join(name),
        };
        add(file, Sort::Hidden, String::new());
    }
    for sources in sources {
        let sort = Sort::Source(sources.application);
        for file in &sources.named {
            let ending = sources
                .endings
                .iter()
                .find(|ending| has_ending(file, ending));
            let pattern = match (ending, shared.uri_of(file)) {
                (Some(ending), _) => format!("*{ending}"),
                (None, Some(uri)) => uri,
                (None, None) => continue,
            };
            add(file.clone(), sort, pattern);
        }
        for folder in &sources.folders {
            // The files of the application that the share can reach: in its own folder, or in the application's folder
            // inside it.
            let looked_at = if shared.folder.starts_with(folder) {
                &shared.folder
            } else if folder.starts_with(&shared.folder) {
                folder
            } else {
                continue;
            };
            for name in list(looked_at).into_iter().take(1000) {
                let file = looked_at.join(&name);
                let ending = sources
                    .endings
                    .iter()
                    .find(|ending| has_ending(&file, ending));
                if let Some(ending) = ending.filter(|_| !name.ends_with('/')) {
                    add(file, sort, format!("*{ending}"));
                }
            }
        }
    }
    found
}

/// Returns files in the folder of a share, and below it, whose names suggest that they should not be served.
fn suspicious<'d>(
    shared: &Shared<'_>,
    folders_left: &mut usize,
    list: &mut dyn FnMut(&Path) -> Vec<String>,
) -> Vec<Candidate<'d>> {
    let found = sorted(&shared.folder, folders_left, list).into_iter();
    let candidates = found.filter_map(|(file, sort, ending)| {
        Some(Candidate {
            uri: shared.uri_of(&file)?,
            file,
            sort,
            pattern: format!("*{ending}"),
        })
    });
    candidates.collect()
}

fn has_ending(file: &Path, ending: &str) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(ending))
}

/// The URL path of the folder that an action shares, without a slash at its end.
fn prefix_of(action: &TreeNode) -> &str {
    let prefix = action.child("prefix").and_then(TreeNode::as_str);
    prefix.unwrap_or_default().trim_end_matches('/')
}

fn templates(share: &TreeNode) -> impl Iterator<Item = &str> {
    let one = share.as_str();
    one.into_iter()
        .chain(share.elements().iter().filter_map(TreeNode::as_str))
}

/// Returns `/srv/www` for `/srv/www$uri`; `None` if it is not a whole folder.
fn folder_of(template: &str) -> Option<PathBuf> {
    let folder = template
        .strip_suffix("$uri")
        .or_else(|| template.strip_suffix("${uri}"))?;
    let is_plain = folder.starts_with('/') && !folder.contains(['$', '`']);
    is_plain.then(|| folder.trim_end_matches('/').into())
}

/// The source files of a configuration's applications.
fn sources(root: &TreeNode) -> Vec<Sources<'_>> {
    let applications = root.child("applications").map(TreeNode::members);
    let applications = applications.unwrap_or_default().iter();
    applications
        .take(MOST)
        .filter_map(|member| {
            let kind = member.node.child("type")?.as_str()?;
            let mut sources = Sources {
                application: &member.name,
                named: Vec::new(),
                folders: Vec::new(),
                endings: &[],
            };
            match ApplicationType::of(kind)?.0.name {
                "php" => php(&member.node, &mut sources),
                "python" => python(&member.node, &mut sources),
                "perl" => {
                    sources.endings = &[".psgi", ".pl", ".pm"];
                    sources.named.extend(path(&member.node, "script"));
                }
                "ruby" => {
                    sources.endings = &[".rb", ".ru", ".erb"];
                    sources.named.extend(path(&member.node, "script"));
                    sources.named.extend(path(&member.node, "hooks"));
                }
                "java" => {
                    sources.endings = &[".war", ".jar", ".class", ".jsp"];
                    let webapp = path(&member.node, "webapp");
                    // A packed one is a file, an unpacked one has its classes and settings in this folder.
                    sources
                        .named
                        .extend(webapp.as_deref().map(|path| path.join("WEB-INF/web.xml")));
                    sources.named.extend(webapp);
                }
                "external" => external(&member.node, &mut sources),
                "cgi" => {
                    sources.endings = &[".cgi", ".pl", ".sh", ".py", ".rb"];
                    scripts(&member.node, "index.cgi", &mut sources);
                }
                _ => return None,
            }
            Some(sources)
        })
        .collect()
}

/// Returns the application itself, and each of its targets.
fn entries(node: &TreeNode) -> impl Iterator<Item = &TreeNode> {
    let targets = node
        .child("targets")
        .map(TreeNode::members)
        .unwrap_or_default();
    std::iter::once(node).chain(targets.iter().map(|target| &target.node))
}

fn php(node: &TreeNode, sources: &mut Sources<'_>) {
    sources.endings = &[".php"];
    scripts(node, "index.php", sources);
}

/// Collects the entry scripts and the roots of an application whose scripts are files below a root.
fn scripts(node: &TreeNode, index: &str, sources: &mut Sources<'_>) {
    for entry in entries(node) {
        let Some(root) = path(entry, "root") else {
            continue;
        };
        let script = entry.child("script").or_else(|| entry.child("index"));
        let script = script.and_then(TreeNode::as_str).unwrap_or(index);
        sources
            .named
            .push(root.join(script.trim_start_matches('/')));
        sources.folders.push(root);
    }
}

fn python(node: &TreeNode, sources: &mut Sources<'_>) {
    sources.endings = &[".py"];
    let folders: Vec<PathBuf> = node
        .child("path")
        .map(|path| templates(path).map(PathBuf::from).collect())
        .unwrap_or_default();
    for module in entries(node).filter_map(|entry| entry.child("module")?.as_str()) {
        let file = format!("{}.py", module.replace('.', "/"));
        // If there are several folders, it is unknown which one contains it.
        if let [folder] = folders.as_slice() {
            sources.named.push(folder.join(&file));
        }
    }
    sources.folders.extend(folders);
}

fn external(node: &TreeNode, sources: &mut Sources<'_>) {
    let folder = path(node, "working_directory");
    let arguments = node.child("arguments").map(TreeNode::elements);
    let words = arguments
        .unwrap_or_default()
        .iter()
        .filter_map(TreeNode::as_str);
    // Returns the arguments of an interpreter that name a program file.
    let scripts = words.filter(|word| {
        let ending = word.rsplit_once('.').map(|(_, ending)| ending);
        !word.starts_with('-')
            && ending.is_some_and(|ending| {
                ["js", "mjs", "cjs", "ts", "rb", "ru", "py", "pl", "lua"].contains(&ending)
            })
    });
    for script in scripts {
        let script = Path::new(script);
        match &folder {
            Some(folder) => sources.named.push(folder.join(script)),
            None if script.is_absolute() => sources.named.push(script.to_owned()),
            None => {}
        }
    }
    sources
        .named
        .extend(path(node, "executable").filter(|path| path.is_absolute()));
}

fn path(node: &TreeNode, option: &str) -> Option<PathBuf> {
    let text = node.child(option)?.as_str()?;
    Some(PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings_of(text: &str, folders: &[(&str, &[&str])]) -> Vec<String> {
        let document = crate::parse(text.as_bytes()).unwrap();
        let names_in = |folder: &Path| {
            let known = folders.iter().find(|(name, _)| Path::new(name) == folder);
            known
                .map(|(_, names)| names.iter().map(|&name| name.to_owned()).collect())
                .unwrap_or_default()
        };
        let warnings = warnings(&document, &names_in).0.into_iter();
        warnings
            .map(|warning| format!("{} {}", warning.pointer, warning.message))
            .collect()
    }

    fn php(routes: &str) -> String {
        format!(
            r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": {routes},
                 "applications": {{"site": {{"type": "php", "root": "/srv/site/", "script": "index.php"}}}}}}"#
        )
    }

    const SITE: (&str, &[&str]) = (
        "/srv/site",
        &[
            "index.php",
            "config.php",
            "style.css",
            ".git/",
            ".well-known/",
        ],
    );

    /// Issue 10, 1.23: it redirected for ever.
    #[test]
    fn a_share_that_is_a_folder_is_reported() {
        let share = |paths: &str| {
            let routes = format!(r#"[{{"action": {{"share": {paths}}}}}]"#);
            let text =
                format!(r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": {routes}}}"#);
            warnings_of(&text, &[("/srv/www", &["index.html"])])
        };
        let expected =
            "/routes/0/action/share `/srv/www` is a folder: every request for it is answered 404";
        assert_eq!(share(r#""/srv/www""#), [expected]);
        assert_eq!(share(r#"["/srv/$host", "/srv/www"]"#), [expected]);
        for right in [
            r#""/srv/www$uri""#,
            r#""/srv/www/""#,
            r#""/srv/www/index.html""#,
            r#""/elsewhere""#,
        ] {
            assert!(share(right).is_empty(), "{right}");
        }
    }

    /// Issue 10, 1.10: README's first configuration handed out the passwords in `config.php`.
    #[test]
    fn a_share_of_sources_and_hidden_files_is_reported() {
        let readme = php(r#"[{"match": {"uri": "!/index.php"},
                 "action": {"share": "/srv/site$uri", "fallback": {"pass": "applications/site"}}}]"#);
        let found = warnings_of(&readme, &[SITE]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("/routes/0/action/share `GET /.git/config` serves a hidden file"),
            "{found:?}"
        );
        assert!(
            found[1].contains("`GET /config.php` serves a source file of the application `site`"),
            "{found:?}"
        );
        // Nothing is visible, so there is no warning: a site with only `index.php` is correct like this.
        assert!(warnings_of(&readme, &[]).is_empty());
        // But this one serves the script itself.
        let all = php(
            r#"[{"action": {"share": "/srv/site$uri", "fallback": {"pass": "applications/site"}}}]"#,
        );
        assert!(warnings_of(&all, &[])[0].contains("`GET /index.php`"));
    }

    #[test]
    fn routes_are_followed_as_a_request_goes() {
        let right = [
            // The first configuration of README.
            r#"[{"match": {"uri": ["*.php", "*.php/*"]}, "action": {"pass": "applications/site"}},
                {"action": {"share": "/srv/site$uri", "deny": ["*/.*", "!/.well-known/*"], "fallback": {"pass": "applications/site"}}}]"#,
            r#"[{"action": {"share": "/srv/site$uri", "deny": ["*/.*", "*.php"]}}]"#,
            r#"[{"match": {"uri": ["/.*", "~\\.php$"]}, "action": {"return": 404}}, {"action": {"share": "/srv/site$uri"}}]"#,
            r#"[{"match": {"uri": "/static/*"}, "action": {"share": "/srv/site$uri"}}]"#,
            r#"[{"action": {"share": "/srv/site/assets$uri"}}]"#,
            r#"[{"action": {"share": "/srv/site$uri", "types": ["image/*", "text/css"]}}]"#,
            // A file that is named explicitly is intended.
            r#"[{"action": {"share": "/srv/site/index.php"}}]"#,
        ];
        for routes in right {
            let text = php(routes);
            assert_eq!(warnings_of(&text, &[SITE]), [""; 0], "{routes}");
        }
        // Not every request has that host.
        let by_host = r#"[{"match": {"uri": "*.php", "host": "a.example"}, "action": {"return": 404}},
                          {"action": {"share": "/srv/site$uri", "deny": "*/.*"}}]"#;
        assert_eq!(warnings_of(&php(by_host), &[SITE]).len(), 1);
        // At a prefix, as with Apache's `Alias`.
        let prefix = r#"[{"match": {"uri": "/files/*"}, "action": {"share": "/srv/site$uri", "prefix": "/files/", DENY}},
                         {"action": {"return": 404}}]"#;
        let open = php(&prefix.replace("DENY", r#""deny": "*/.*""#));
        let found = warnings_of(&open, &[SITE]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("`GET /files/index.php` serves"),
            "{found:?}"
        );
        let closed = php(&prefix.replace("DENY", r#""deny": ["*/.*", "/files/*.php"]"#));
        assert_eq!(warnings_of(&closed, &[SITE]), [""; 0]);
        // Through another route, in a fallback.
        let named = r#"{"main": [{"action": {"share": "/other$uri", "fallback": {"pass": "routes/files"}}}],
                        "files": [{"action": {"share": "/srv/site$uri", "deny": "*/.*"}}]}"#;
        let text = php(named).replace(r#""pass": "routes"}"#, r#""pass": "routes/main"}"#);
        let found = warnings_of(&text, &[SITE]);
        assert!(
            found[0].starts_with("/routes/files/0/action/share"),
            "{found:?}"
        );
        // A route that no request reaches.
        let unused = text.replace("routes/files", "routes/main");
        assert!(warnings_of(&unused, &[SITE]).is_empty());
    }

    /// Issue 28, section 4.
    #[test]
    fn scripts_keys_and_dumps_are_reported_without_an_application() {
        let with = |share: &str, names: &[&str], inner: &[&str]| {
            let text = format!(
                r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": [{{"action": {share}}}]}}"#
            );
            warnings_of(&text, &[("/srv", names), ("/srv/data", inner)])
        };
        let share = r#"{"share": "/srv$uri"}"#;
        for (name, expected) in [
            ("index.php", "the source of a script"),
            ("report.PY", "the source of a script"),
            ("server.key", "what looks like a private key"),
            ("id_ed25519", "what looks like a private key"),
            (
                "backup.sql.gz",
                "what looks like a database or a dump of one",
            ),
            (
                "shop.sqlite3",
                "what looks like a database or a dump of one",
            ),
        ] {
            let expected = format!("/routes/0/action/share `GET /{name}` serves {expected}");
            assert_eq!(with(share, &[name, "index.html"], &[]), [expected]);
            let below = with(share, &["data/"], &[name]);
            assert!(
                below[0].contains(&format!("`GET /data/{name}`")),
                "{below:?}"
            );
        }
        let all = ["a.php", "b.php", "c.key", "d.sql"];
        assert_eq!(with(share, &all, &[]).len(), 3, "one of each sort is named");
        // The files that another share has found.
        let found =
            r#"{"share": "/srv$uri", "found": {"share": "/srv$uri"}, "fallback": {"return": 404}}"#;
        assert_eq!(
            with(found, &["a.php"], &[]),
            ["/routes/0/action/found/share `GET /a.php` serves the source of a script"]
        );
        let denied = r#"{"share": "/srv$uri", "deny": ["*.php", "*.key", "*.sql"]}"#;
        assert_eq!(with(denied, &all, &[]), [""; 0]);
        let none = [
            "index.html",
            "style.css",
            "key.html",
            "php.txt",
            "database.md",
        ];
        assert_eq!(with(share, &none, &[]), [""; 0]);
    }

    #[test]
    fn sources_of_all_languages_are_known() {
        let with = |application: &str, share: &str| {
            let text = format!(
                r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": [{{"action": {{"share": "{share}$uri"}}}}],
                     "applications": {{"app": {application}}}}}"#
            );
            warnings_of(&text, &[]).join("")
        };
        let python = r#"{"type": "python 3", "path": "/srv/app", "module": "shop.wsgi"}"#;
        assert!(with(python, "/srv/app").contains("`GET /shop/wsgi.py`"));
        assert_eq!(with(python, "/srv/app/static"), "");
        let perl = r#"{"type": "perl", "script": "/srv/app/app.psgi"}"#;
        assert!(with(perl, "/srv/app").contains("`GET /app.psgi`"));
        let ruby = r#"{"type": "ruby", "script": "/srv/app/config.ru"}"#;
        assert!(with(ruby, "/srv/app").contains("`GET /config.ru`"));
        assert_eq!(with(ruby, "/srv/app/public"), "");
        let java = r#"{"type": "java", "webapp": "/srv/app"}"#;
        assert!(with(java, "/srv/app").contains("`GET /WEB-INF/web.xml`"));
        assert_eq!(with(java, "/srv/app/static"), "");
        let node = r#"{"type": "external", "working_directory": "/srv/app", "executable": "/usr/bin/node", "arguments": ["server.js"]}"#;
        assert!(with(node, "/srv").contains("`GET /app/server.js`"));
        assert_eq!(with(node, "/srv/app/public"), "");
        let cgi = r#"{"type": "cgi", "root": "/srv/app", "script": "gitweb.cgi"}"#;
        assert!(with(cgi, "/srv/app").contains("`GET /gitweb.cgi`"));
        assert_eq!(with(cgi, "/srv/app/static"), "");
    }

    /// Issue 10, 2.14.
    #[test]
    fn an_option_without_effect_is_reported_with_its_place() {
        let text = r#"{"applications": {"a": {"type": "php", "root": "/a", "limits": {"shm": 1048576, "requests": 5}}}}"#;
        assert_eq!(
            warnings_of(text, &[]),
            ["/applications/a/limits/shm `shm` of `limits` has no effect"]
        );
    }

    #[test]
    fn weak_password_hashes_are_reported_once_without_the_hash() {
        let sha = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
        let text = format!(
            r#"{{"routes": {{"a": [{{"action": {{"return": 200, "authenticate": {{"basic": {{"users": {{"anna": "$2y$10${}", "bert": "{sha}", "carl": "{sha}"}}}}}}}}}}]}}}}"#,
            "a".repeat(53)
        );
        let warnings = warnings_of(&text, &[]);
        let said = "/routes/a/0/action/authenticate/basic/users/bert this hash and 1 more are weak";
        assert!(
            warnings.len() == 1 && warnings[0].starts_with(said),
            "{warnings:?}"
        );
        assert!(!warnings[0].contains("5en6"));
    }

    #[test]
    fn an_option_that_removes_a_protection_is_reported_with_the_consequence() {
        let http = |options: &str| format!(r#"{{"settings": {{"http": {{{options}}}}}}}"#);
        for (options, place) in [
            (r#""merge_slashes": false"#, "merge_slashes"),
            (r#""encoded_slashes": "any""#, "encoded_slashes"),
            (r#""backslashes": true"#, "backslashes"),
            (r#""decode_unreserved": false"#, "decode_unreserved"),
        ] {
            let warnings = warnings_of(&http(options), &[]);
            let begins = format!("/settings/http/{place} `{place}` is ");
            let is_one = warnings.len() == 1 && warnings[0].starts_with(&begins);
            assert!(is_one && warnings[0].contains("/admin/x"), "{warnings:?}");
        }
        for options in [
            r#""merge_slashes": true, "encoded_slashes": "plain", "backslashes": false, "decode_unreserved": true"#,
            r#""encoded_slashes": "none""#,
        ] {
            assert!(warnings_of(&http(options), &[]).is_empty(), "{options}");
        }
        let java =
            r#"{"applications": {"a": {"type": "java", "webapp": "/a", "path_parameters": true}}}"#;
        assert_eq!(warnings_of(java, &[]).len(), 1);
    }
}
