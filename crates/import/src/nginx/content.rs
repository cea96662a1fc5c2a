//! The answers of a location: files, `try_files`, or a server behind.

use serde_json::{Map, Value, json};

use super::error_page::{ErrorPage, ResponseStatus};
use super::if_block::is_handler;
use super::scope::Folder;
use super::site::{Compiler, Site};
use super::tree::Statement;
use crate::finding::SourceLocation;
use crate::output::{step, when};
use crate::template::{Piece, Text, quoted};

/// The folder in which relative paths of files begin, as Debian has it.
const PREFIX: &str = "/usr/share/nginx";

impl Compiler<'_> {
    /// The steps of a location's content, its guards before them; the last one takes every request.
    pub(super) fn content(&mut self, site: &Site, statements: &[Statement]) -> Vec<Value> {
        let steps = self.answers(site, statements);
        self.guarded(site, steps)
    }

    /// The steps for the methods that `limit_except` limits. As in nginx, neither the rewriting directives of the location nor its
    /// `try_files` apply to their requests.
    pub(super) fn excepted(&mut self, site: &Site, statements: &[Statement]) -> Vec<Value> {
        let mut all = Vec::new();
        if site.is_question {
            return all;
        }
        for statement in statements.iter().filter(|one| one.name() == "limit_except") {
            let mut inner = site.clone();
            super::closing::report_all(statement.inner(), self.findings);
            inner.scope = inner.scope.enter(statement.inner(), self.findings);
            let mut methods: Vec<String> = statement
                .arguments()
                .iter()
                .map(|method| format!("!{method}"))
                .collect();
            if statement.arguments().iter().any(|method| method == "GET") {
                methods.push("!HEAD".to_owned());
            }
            let stays = |one: &&Statement| one.name() != "try_files";
            let own: Vec<Statement> = statements.iter().filter(stays).cloned().collect();
            // Requests that are let in may go on from several places.
            let name = self.out.route_name(&format!("{}-methods", site.name));
            self.out.routes.insert(name.clone(), Value::Null);
            let goes_on = vec![json!({"action": {"pass": format!("routes/{name}")}})];
            let guarded = self.guarded(&inner, goes_on);
            let action = self
                .out
                .as_action(&format!("{}-others", site.name), guarded);
            let step = step(when("method", methods), action);
            if self.leads_to(std::slice::from_ref(&step), &name, &site.name) {
                let answers = self.answers(&inner, &own);
                self.out.routes.insert(name, answers.into());
            } else {
                self.out.routes.remove(&name);
            }
            all.push(step);
        }
        all
    }

    /// The steps of a location's content, for any client.
    fn answers(&mut self, site: &Site, statements: &[Statement]) -> Vec<Value> {
        let mut steps = Vec::new();
        let named = |name: &str| statements.iter().find(|statement| statement.name() == name);
        let tries = named("try_files");
        let handler = statements.iter().find(|statement| is_handler(statement));
        let action = match handler {
            Some(handler) => self.handler(site, handler),
            None => {
                steps.extend(self.files(site, tries));
                return steps;
            }
        };
        let Some(tries) = tries else {
            steps.push(json!({"action": action}));
            return steps;
        };
        let (last, items) = match tries.arguments().split_last() {
            Some(split) => split,
            None => return steps,
        };
        let is_of_script = |item: &String| {
            matches!(
                item.as_str(),
                "$uri" | "$fastcgi_script_name" | "$document_root$fastcgi_script_name"
            )
        };
        let by_script = items.iter().all(is_of_script);
        let is_script = matches!(handler.map(Statement::name), Some("fastcgi_pass"));
        // A script that is not there is 404 anyway.
        if is_script && by_script && last == "=404" {
            steps.push(json!({"action": action}));
            return steps;
        }
        let mut next = self.internal(site, last, &tries.place);
        let mut handlers = vec![json!({"action": action})];
        // The server behind gets the path of the file that is there.
        for item in items.iter().rev() {
            if item.ends_with('/') {
                let problem =
                    format!("`{item}` is skipped: upstream servers get no requests for folders");
                let hint = "name the index file: `$uri/index.html`";
                self.findings
                    .note(&tries.place, "try_files", &problem, hint);
                continue;
            }
            let is_own = is_of_script(item);
            let path = match is_own {
                true => Some(Text(vec![Piece::Variable("uri".to_owned())])),
                false => self.text(site, item, &tries.place, "try_files"),
            };
            let share = path.and_then(|path| Some((path.template(), self.share(site, path)?)));
            let Some((path, mut share)) = share else {
                continue;
            };
            let mut found = self
                .out
                .as_action(&format!("{}-handler", site.name), handlers.clone());
            if !is_own
                && items.len() > 1
                && let Some(Value::String(_)) = found.get("pass")
            {
                handlers = vec![json!({"action": found.clone()})];
            }
            if !is_own && let Some(found) = found.as_object_mut() {
                found.insert("rewrite".to_owned(), path.into());
            }
            share.insert("index".to_owned(), "".into());
            share.insert("found".to_owned(), found);
            share.insert("fallback".to_owned(), next);
            next = Value::Object(share);
        }
        steps.push(json!({"action": next}));
        steps
    }

    /// Steps for a server that a variable with a few known values chooses.
    fn by_value(&mut self, site: &Site, handler: &Statement) -> Option<Vec<Value>> {
        let (name, values) = site.meaning.choice(handler.argument(0))?;
        let text = site.meaning.text(&format!("${{{name}}}")).ok()?;
        let mut steps = Vec::new();
        for value in values {
            let mut own = site.clone();
            let literal = Text::literal(value.clone());
            own.meaning.named.insert(name.clone(), literal);
            let test = format!("{} === {} ? 1 : ''", text.expression(), quoted(&value));
            let action = self.handler(&own, handler);
            steps.push(step(when("if", format!("`${{{test}}}`")), action));
        }
        // An empty address, or one that is none.
        let action = self.status(site, 500);
        steps.push(json!({"action": action}));
        Some(steps)
    }

    fn handler(&mut self, site: &Site, handler: &Statement) -> Value {
        if handler.name() == "stub_status" {
            return self.finish(site, when("pass", "metrics/stub_status"));
        }
        if let Some(steps) = self.by_value(site, handler) {
            return self.out.as_action(&format!("{}-server", site.name), steps);
        }
        let kind = handler.name().trim_end_matches("_pass");
        let action = match handler.name() {
            "proxy_pass" | "grpc_pass" => self.proxy(site, handler),
            _ => match self.at_gateway(site, handler) {
                Some(handler) if kind == "fastcgi" => self.fastcgi(site, &handler),
                Some(handler) => self.proxy(site, &handler),
                None => None,
            },
        };
        match action {
            Some(mut action) => {
                if let Some(cache) = self.cache(site, kind) {
                    action.insert("cache".to_owned(), cache);
                }
                let action = self.behind(site, action);
                if sees_new_path(&action) {
                    let problem = "fields with the path or its captures get the rewritten path";
                    let hint = "set them in a step before, or use `$request_uri`";
                    self.findings
                        .lost(&handler.place, handler.name(), problem, hint);
                }
                action
            }
            // It has been reported.
            None => self.status(site, 503),
        }
    }

    /// Returns a test for the file of the requested path.
    pub(super) fn file_test(&mut self, site: &Site) -> Option<Map<String, Value>> {
        let uri = Text(vec![Piece::Variable("uri".to_owned())]);
        let mut share = self.share(site, uri)?;
        share.insert("index".to_owned(), "".into());
        Some(share)
    }

    /// A share of what `item` names below the folder.
    fn share(&mut self, site: &Site, item: Text) -> Option<Map<String, Value>> {
        self.share_of_index(site, item, Text::default())
    }

    /// A share of an index file in the folder that `item` names.
    fn share_of_index(
        &mut self,
        site: &Site,
        item: Text,
        index: Text,
    ) -> Option<Map<String, Value>> {
        let mut share = Map::new();
        let mut path = match site.scope.folder.clone() {
            Some(folder) => self.below(site, &folder, item, &mut share)?,
            // nginx's own default, below where it was built for.
            None => {
                let mut path = Text::literal(format!("{PREFIX}/html"));
                path.extend(item);
                path
            }
        };
        path.extend(index);
        share.insert("share".to_owned(), path.template().into());
        if !site.scope.precompressed.is_empty() {
            share.insert("precompressed".to_owned(), json!(site.scope.precompressed));
            // nginx does not compare the ages of the two.
            share.insert("precompressed_older".to_owned(), true.into());
        }
        if !site.scope.follow_symlinks {
            share.insert("follow_symlinks".to_owned(), false.into());
        }
        Some(share)
    }

    /// The path of `item` below a folder; an `alias` may add `prefix` to the share.
    fn below(
        &mut self,
        site: &Site,
        folder: &Folder,
        item: Text,
        share: &mut Map<String, Value>,
    ) -> Option<Text> {
        // A variable begins with a whole path.
        let source = match folder.path.starts_with(['/', '$']) {
            true => folder.path.clone(),
            false => format!("{PREFIX}/{}", folder.path),
        };
        let trimmed = source.trim_end_matches('/');
        // A location within that of an alias has it from there.
        let is_own = site.is_exact && folder.at == site.prefix;
        let is_whole = folder.is_alias && (is_own || folder.at.is_none());
        let continues = !source.ends_with('/');
        let source = if is_whole { source.as_str() } else { trimmed };
        let mut path = self.text(site, source, &folder.place, "root")?;
        if is_whole {
            return Some(path);
        }
        match folder.at.as_ref().filter(|_| folder.is_alias) {
            // The rest of the path continues the last name of the folder's.
            Some(at) if at.ends_with('/') && continues => {
                let rest = format!("({}).slice({}.length)", item.expression(), quoted(at));
                path.0.push(Piece::Script(rest));
                return Some(path);
            }
            Some(at) if at != "/" => {
                if !at.ends_with('/') && !continues {
                    let problem = format!(
                        "paths that continue the name of `{at}`, such as `{at}../`, get 404: nginx looks for them in the folder, and clients can leave it"
                    );
                    let hint =
                        "write a slash at the end of the location, too, for the same in nginx";
                    self.findings.note(&folder.place, "alias", &problem, hint);
                }
                let at = at.trim_end_matches('/');
                share.insert("prefix".to_owned(), at.into());
            }
            _ => {}
        }
        path.extend(item);
        Some(path)
    }

    /// The steps of files: folders by their index, then the file itself.
    fn files(&mut self, site: &Site, tries: Option<&Statement>) -> Vec<Value> {
        let last = match (
            tries.and_then(|tries| tries.arguments().split_last()),
            site.scope.not_found(),
        ) {
            (Some((last, _)), _) => {
                let place = tries.map_or_else(
                    || SourceLocation {
                        file: "".into(),
                        line: 0,
                    },
                    |tries| tries.place.clone(),
                );
                Some(self.internal(site, last, &place))
            }
            (None, Some(target)) => {
                let place = SourceLocation {
                    file: "".into(),
                    line: 0,
                };
                Some(self.internal(site, &target.clone(), &place))
            }
            (None, None) => None,
        };
        let items: Vec<String> = match tries.and_then(|tries| tries.arguments().split_last()) {
            Some((_, items)) => items.to_vec(),
            None => vec!["$uri".to_owned(), "$uri/".to_owned()],
        };
        if let Some(refusal) = self.file_for_folder(site) {
            return vec![refusal];
        }
        let mut steps = Vec::new();
        let tries_folder = items
            .iter()
            .any(|item| item.trim_end_matches('/') == "$uri" && item.ends_with('/'));
        let index: Vec<String> = match site.scope.index.as_slice() {
            [] => vec!["index.html".to_owned()],
            index => index.to_vec(),
        };
        let is_plain = |name: &String| !name.starts_with('/') && !name.contains('$');
        let single = index
            .first()
            .filter(|name| index.len() == 1 && is_plain(name) && !self.is_elsewhere(site, name));
        let plain_index = single.filter(|_| tries_folder).cloned();
        let is_whole_file = site.is_exact
            && site
                .scope
                .folder
                .as_ref()
                .is_some_and(|folder| folder.is_alias);
        let answers_any_method = Self::answers_any_method(site, tries);
        let is_tried = tries.is_some();
        if tries_folder && plain_index.is_none() && !is_whole_file {
            let action = self.folder(site, &index, last.clone());
            steps.push(step(when("uri", "*/"), action));
        }
        let action = self.chain(site, &items, plain_index.as_deref(), last);
        steps.push(json!({"action": action}));
        if !answers_any_method {
            return steps;
        }
        let mut others = Vec::new();
        if !is_tried {
            let action = self.status(site, 405);
            others.push(step(
                when("method", ["!GET", "!HEAD", "!POST"].to_vec()),
                action,
            ));
        }
        for one in &steps {
            let mut conditions = match one.get("match") {
                Some(Value::Object(conditions)) => conditions.clone(),
                _ => Map::new(),
            };
            conditions.insert("method".to_owned(), json!(["!GET", "!HEAD"]));
            let action = one.get("action").cloned().unwrap_or_default();
            let action = self.without_content(site, action);
            others.push(step(conditions, action));
        }
        [others, steps].concat()
    }

    /// True if something that answers requests of any method, and is no server or application, stands in for a missing file: nginx refuses
    /// such methods where there is a file.
    fn answers_any_method(site: &Site, tries: Option<&Statement>) -> bool {
        let target = match tries {
            Some(tries) => tries.arguments().last(),
            None => site.scope.not_found(),
        };
        let is_page = |page: &ErrorPage| {
            let is_missing = |status: &u16| matches!(status, 403 | 404);
            page.answer != ResponseStatus::Kept && page.statuses.iter().any(is_missing)
        };
        let has_page = site.scope.error_pages.iter().any(is_page);
        target.map_or(has_page, |target| match target.as_bytes().first() {
            Some(b'=') => has_page,
            Some(b'@') => !site.named_handlers.contains(target),
            _ => tries.is_none() || !site.is_handled(target),
        })
    }

    /// The same shares for other methods than GET and HEAD: no file is served for them.
    fn without_content(&mut self, site: &Site, mut action: Value) -> Value {
        let refusal = self.status(site, 405);
        let Some(share) = action
            .as_object_mut()
            .filter(|one| one.contains_key("share"))
        else {
            return action;
        };
        // The depth is that of the list of files, which is a directive's.
        if let Some(next) = share.remove("fallback") {
            let next = self.without_content(site, next);
            share.insert("fallback".to_owned(), next);
        }
        if share.remove("listing").is_some() {
            let folder = self.status(site, 403);
            share.insert("folder".to_owned(), folder);
        }
        if !share.contains_key("found") {
            share.insert("found".to_owned(), refusal);
        }
        action
    }

    /// The refusal of a location for a folder whose `alias` is not one: nginx appends the name of an index to it.
    fn file_for_folder(&mut self, site: &Site) -> Option<Value> {
        let folder = site.scope.folder.clone()?;
        let is_of_folder = site.prefix.as_ref().is_some_and(|path| path.ends_with('/'));
        let is_own = site.is_exact && folder.at == site.prefix;
        if !folder.is_alias || !is_own || !is_of_folder || folder.path.ends_with('/') {
            return None;
        }
        let problem = "the location is a folder, and its `alias` a file: requests here get 403, where nginx fails";
        let hint = "write `rewrite ^ /FILE break;` in its place, then import again";
        self.findings.lost(&folder.place, "alias", problem, hint);
        Some(json!({"action": Self::shut()}))
    }

    /// The action for a path that ends with a slash.
    fn folder(&mut self, site: &Site, index: &[String], last: Option<Value>) -> Value {
        let nothing = match last {
            Some(last) => last,
            None => self.status(site, 404),
        };
        let uri = Text(vec![Piece::Variable("uri".to_owned())]);
        let mut action = nothing.clone();
        if let Some(mut share) = self.share(site, uri.clone()) {
            share.insert("index".to_owned(), "".into());
            self.without_index(site, &mut share);
            share.insert("fallback".to_owned(), action);
            action = self.finish(site, share);
        }
        let is_relative = |name: &String| !name.starts_with('/');
        let first = index.iter().position(is_relative);
        for (at, name) in index.iter().enumerate().rev() {
            if name.starts_with('/') {
                let place = place_of(site);
                action = self.internal(site, name, &place);
                // nginx looks for the folder after a name that is not in it.
                let is_sought = first.is_some_and(|first| first < at);
                let share = self.share(site, uri.clone()).filter(|_| is_sought);
                if let Some(mut share) = share {
                    share.insert("index".to_owned(), "".into());
                    share.insert("folder".to_owned(), action);
                    share.insert("fallback".to_owned(), nothing.clone());
                    action = share.into();
                }
                continue;
            }
            let place = place_of(site);
            let folder = Text(vec![Piece::Variable("uri".to_owned())]);
            let Some(file) = self.text(site, name, &place, "index") else {
                continue;
            };
            let Some(mut share) = self.share_of_index(site, folder.clone(), file.clone()) else {
                continue;
            };
            let mut item = folder;
            item.extend(file);
            share.insert("index".to_owned(), "".into());
            if self.is_elsewhere(site, name) {
                let found = match Self::may_be_replaced(site) {
                    false => json!({"rewrite": item.template(), "pass": site.again}),
                    true => {
                        let problem = "clients that may not see a folder would get the page that the location of its index has for that: folders get 403";
                        let hint = "write the same `error_page` into both locations, or `try_files $uri/index.html =404`";
                        self.findings.lost(&place, "index", problem, hint);
                        Self::shut()
                    }
                };
                share.insert("found".to_owned(), found);
                share.insert("fallback".to_owned(), action);
                action = Value::Object(share);
            } else {
                share.insert("fallback".to_owned(), action);
                action = self.finish(site, share);
            }
        }
        action
    }

    /// True if a location may have a page with another status for requests that this one refuses: a request is refused where it ends.
    fn may_be_replaced(site: &Site) -> bool {
        let guards = &site.scope.guards;
        let is_guarded = guards.realm.is_some() || guards.question.is_some();
        let pages = &site.scope.error_pages;
        let is_own = |status: &u16| pages.iter().any(|page| page.statuses.contains(status));
        let mut refusals = [401, 403]
            .into_iter()
            .filter(|one| site.paged.contains(one));
        is_guarded && refusals.any(|status| !is_own(&status))
    }

    /// Gives a folder without an index its answer: a list, or 403.
    fn without_index(&mut self, site: &Site, share: &mut Map<String, Value>) {
        match site.scope.listing() {
            Some(listing) => share.insert("listing".to_owned(), listing.into()),
            None => share.insert("folder".to_owned(), self.status(site, 403)),
        };
    }

    /// The shares of `try_files`, one in another's fallback.
    fn chain(
        &mut self,
        site: &Site,
        items: &[String],
        index: Option<&str>,
        last: Option<Value>,
    ) -> Value {
        let mut action = last;
        let mut position = items.len();
        while let Some(item) = position.checked_sub(1).and_then(|at| items.get(at)) {
            position -= 1;
            let is_folder = item.ends_with('/');
            // A file and a folder of one path are one share.
            let with_file = is_folder
                && position > 0
                && items.get(position - 1).map(String::as_str) == Some(item.trim_end_matches('/'));
            if with_file {
                position -= 1;
            }
            let place = place_of(site);
            let Some(item_text) = self.text(site, item.trim_end_matches('/'), &place, "try_files")
            else {
                continue;
            };
            let Some(mut share) = self.share(site, item_text) else {
                continue;
            };
            match index {
                Some("index.html") if is_folder => {}
                Some(index) if is_folder => drop(share.insert("index".to_owned(), index.into())),
                _ => drop(share.insert("index".to_owned(), "".into())),
            }
            if index.is_some() && is_folder {
                self.without_index(site, &mut share);
            }
            if !with_file {
                // One of the two is looked for: a folder must not be redirected, and a file not be served. A file that is there answers
                // requests of any method.
                let looked_for = if is_folder { "folder" } else { "found" };
                let mut test = share.clone();
                test.insert("index".to_owned(), "".into());
                test.remove("listing");
                let next = match action.take() {
                    Some(next) => next,
                    None => self.status(site, 404),
                };
                if is_folder {
                    test.insert("found".to_owned(), next.clone());
                }
                test.insert(looked_for.to_owned(), self.finish(site, share));
                test.insert("fallback".to_owned(), next);
                action = Some(Value::Object(test));
                continue;
            }
            if let Some(action) = action.take() {
                share.insert("fallback".to_owned(), action);
            }
            action = Some(self.finish(site, share));
        }
        match action {
            Some(action) => action,
            None => self.status(site, 404),
        }
    }

    /// Where nginx would redirect internally: `=404`, `@name`, or another path.
    /// It is bounded: the target of `error_page` is none that begins with `=`.
    pub(super) fn internal(&mut self, site: &Site, target: &str, place: &SourceLocation) -> Value {
        if let Some(code) = target.strip_prefix('=') {
            if let (true, Some(target)) = (code == "404", site.scope.not_found().cloned()) {
                return self.internal(site, &target, place);
            }
            return match code.parse() {
                // The request goes on with its method and its body.
                Ok(code) => match site.named_page(code).filter(|_| !site.is_question) {
                    Some(destination) => json!({"pass": destination}),
                    None => self.status(site, code),
                },
                Err(_) => self.status(site, 404),
            };
        }
        if target.starts_with('@') {
            return match site.named.get(target) {
                Some(destination) => json!({"pass": destination}),
                None => {
                    let hint = "write the location, or another fallback";
                    self.findings.lost(
                        place,
                        "try_files",
                        &format!("there is no location `{target}`"),
                        hint,
                    );
                    self.status(site, 404)
                }
            };
        }
        match self.new_path(site, target, place, "try_files") {
            Some(rewritten) => json!({"rewrite": rewritten, "pass": site.again}),
            None => self.status(site, 404),
        }
    }
}

/// The place of the folder's directive.
fn place_of(site: &Site) -> SourceLocation {
    let folder = site.scope.folder.as_ref();
    folder.map_or_else(
        || SourceLocation {
            file: "".into(),
            line: 0,
        },
        |folder| folder.place.clone(),
    )
}

/// True for an action that replaces the path, and has fields with the path in them.
fn sees_new_path(action: &Value) -> bool {
    let fields = [
        "request_headers",
        "response_headers",
        "response_headers_always",
    ];
    let has_path = |field: &str| {
        let text = action.get(field).map_or(String::new(), Value::to_string);
        ["vars.uri", "$uri", "${uri}", "uri.slice"]
            .iter()
            .any(|path| text.contains(path))
    };
    action.get("rewrite").is_some() && fields.into_iter().any(has_path)
}
