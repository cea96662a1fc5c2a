//! The configuration that is being made: listeners, routes, applications, upstreams, each with a name of its own.

use serde_json::{Map, Value, json};

/// A configuration of Tutti, in parts.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) listeners: Map<String, Value>,
    pub(crate) routes: Map<String, Value>,
    pub(crate) applications: Map<String, Value>,
    pub(crate) upstreams: Map<String, Value>,
    pub(crate) streams: Map<String, Value>,
    /// `settings.http`.
    pub(crate) http: Map<String, Value>,
    /// The other members of `settings`.
    pub(crate) settings: Map<String, Value>,
    pub(crate) limits: Map<String, Value>,
    pub(crate) maps: Map<String, Value>,
    pub(crate) spoolers: Map<String, Value>,
    pub(crate) schedules: Map<String, Value>,
    pub(crate) access_log: Option<Value>,
}

impl Output {
    /// The configuration, without parts that are empty.
    pub(crate) fn into_json(mut self) -> Value {
        let mut whole = Map::new();
        self.flatten_targets();
        self.remove_unused_maps();
        for (name, part) in [
            ("listeners", self.listeners),
            ("routes", self.routes),
            ("applications", self.applications),
            ("upstreams", self.upstreams),
            ("streams", self.streams),
            ("limits", self.limits),
            ("maps", self.maps),
            ("spoolers", self.spoolers),
            ("schedules", self.schedules),
        ] {
            if !part.is_empty() {
                whole.insert(name.to_owned(), Value::Object(part));
            }
        }
        if !self.http.is_empty() {
            self.settings.insert("http".to_owned(), self.http.into());
        }
        if !self.settings.is_empty() {
            whole.insert("settings".to_owned(), self.settings.into());
        }
        if let Some(access_log) = self.access_log {
            whole.insert("access_log".to_owned(), access_log);
        }
        Value::Object(whole)
    }

    /// Returns a name for a route that is not taken yet; made of letters, digits, `-`, `.` and `_`.
    pub(crate) fn route_name(&self, wanted: &str) -> String {
        unused(&self.routes, wanted)
    }

    /// Adds a route, and gives its destination.
    pub(crate) fn add_route(&mut self, wanted: &str, steps: Vec<Value>) -> String {
        let name = self.route_name(wanted);
        self.routes.insert(name.clone(), Value::Array(steps));
        format!("routes/{name}")
    }

    /// One action for steps: the only one's, if it is for every request, or a route.
    pub(crate) fn as_action(&mut self, wanted: &str, steps: Vec<Value>) -> Value {
        match steps.as_slice() {
            [only] if only.get("match").is_none() => {
                only.get("action").cloned().unwrap_or_default()
            }
            _ => json!({"pass": self.add_route(wanted, steps)}),
        }
    }

    /// Adds the steps of a stream, and gives its destination.
    pub(crate) fn add_stream(&mut self, wanted: &str, steps: Vec<Value>) -> String {
        let name = unused(&self.streams, wanted);
        self.streams.insert(name.clone(), Value::Array(steps));
        format!("streams/{name}")
    }

    /// Many sources declare maps whose variables nothing uses in the end.
    fn remove_unused_maps(&mut self) {
        let mut texts = String::new();
        for part in [
            &self.listeners,
            &self.routes,
            &self.applications,
            &self.upstreams,
            &self.limits,
            &self.http,
            &self.settings,
        ] {
            texts += &Value::Object(part.clone()).to_string();
        }
        texts += &self.access_log.clone().unwrap_or_default().to_string();
        let mut used = Map::new();
        loop {
            let is_new = |(name, _): &(&String, &Value)| {
                !used.contains_key(*name) && texts.contains(&format!("map_{name}"))
            };
            let Some((name, map)) = self.maps.iter().find(is_new) else {
                break;
            };
            texts += &map.to_string();
            used.insert(name.clone(), map.clone());
        }
        self.maps.retain(|name, _| used.contains_key(name));
    }

    /// An application with a single target has no need of targets.
    fn flatten_targets(&mut self) {
        let mut renamed = Vec::new();
        for (name, application) in &mut self.applications {
            let Some(options) = application.as_object_mut() else {
                continue;
            };
            let single = options.get("targets").and_then(Value::as_object);
            let single = single.filter(|targets| targets.len() == 1);
            let Some((target, inner)) = single.and_then(|targets| targets.iter().next()) else {
                continue;
            };
            renamed.push((
                format!("applications/{name}/{target}"),
                format!("applications/{name}"),
            ));
            let inner = inner.as_object().cloned().unwrap_or_default();
            options.remove("targets");
            options.extend(inner);
        }
        for route in self.routes.values_mut().chain(self.listeners.values_mut()) {
            rename(route, &renamed);
        }
    }
}

/// Puts new destinations in the place of old ones. The depth is that of actions within actions, which the importer makes itself.
fn rename(value: &mut Value, renamed: &[(String, String)]) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "pass" => {
                        if let Some((_, new)) = renamed.iter().find(|(old, _)| old == text) {
                            new.clone_into(text);
                        }
                    }
                    member => rename(member, renamed),
                }
            }
        }
        Value::Array(elements) => {
            for element in elements {
                rename(element, renamed);
            }
        }
        _ => {}
    }
}

impl Output {
    /// The name of this upstream: that of an equal one that is there already, else one like `wanted`.
    pub(crate) fn upstream(&mut self, upstream: Map<String, Value>, wanted: &str) -> String {
        let upstream = Value::Object(upstream);
        let mut there = self.upstreams.iter();
        if let Some((name, _)) = there.find(|(_, known)| **known == upstream) {
            return name.clone();
        }
        let name = unused(&self.upstreams, wanted);
        self.upstreams.insert(name.clone(), upstream);
        name
    }
}

/// Ends the steps of an entrance with the destination of all other requests; steps before it that lead there, too, are
/// removed.
pub(crate) fn end_with(steps: &mut Vec<Value>, destination: &str) {
    while steps
        .last()
        .and_then(|step| step.pointer("/action/pass"))
        .and_then(Value::as_str)
        == Some(destination)
    {
        steps.pop();
    }
    steps.push(json!({"action": {"pass": destination}}));
}

/// True if nothing comes after these steps.
pub(crate) fn ends(steps: &[Value]) -> bool {
    steps.last().is_some_and(|step| step.get("match").is_none())
}

/// A name like `wanted` that `taken` does not have.
pub(crate) fn unused(taken: &Map<String, Value>, wanted: &str) -> String {
    let base = slug(wanted);
    if !taken.contains_key(&base) {
        return base;
    }
    let mut number = 2_usize;
    loop {
        let name = format!("{base}-{number}");
        if !taken.contains_key(&name) {
            return name;
        }
        number += 1;
    }
}

/// Letters, digits, `-`, `.` and `_` of a text, so that a name needs no encoding in a destination.
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars().take(80) {
        if character.is_ascii_alphanumeric() || matches!(character, '.' | '_') {
            slug.push(character);
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    let trimmed = slug.trim_matches(['-', '.']);
    match trimmed {
        "" => "site".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

/// A step with conditions; without, if there are none.
pub(crate) fn step(conditions: Map<String, Value>, action: Value) -> Value {
    if conditions.is_empty() {
        json!({"action": action})
    } else {
        json!({"match": conditions, "action": action})
    }
}

/// One condition.
pub(crate) fn when(name: &str, value: impl Into<Value>) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value.into())])
}

/// One pattern as it is, several as an array.
pub(crate) fn one_or_many(mut patterns: Vec<String>) -> Value {
    match (patterns.len(), patterns.pop()) {
        (1, Some(only)) => only.into(),
        (_, last) => {
            patterns.extend(last);
            patterns.into()
        }
    }
}

/// The texts of what [`one_or_many`] has made.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(only) => vec![only.clone()],
        Value::Array(many) => many
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

/// A path as a pattern of `match.uri`, its special characters encoded.
pub(crate) fn literal(path: &str) -> String {
    let mut pattern = String::new();
    for character in path.chars() {
        match character {
            '*' => pattern.push_str("%2A"),
            '%' => pattern.push_str("%25"),
            '!' if pattern.is_empty() => pattern.push_str("%21"),
            '~' if pattern.is_empty() => pattern.push_str("%7E"),
            other => pattern.push(other),
        }
    }
    pattern
}

/// A path and all below it, as one pattern; also what continues its last segment.
pub(crate) fn beginning(path: &str) -> String {
    literal(path) + "*"
}

/// The object at the end of this way through objects, which are made where they are not there; `None` if something else is on the way.
pub(crate) fn within<'o>(
    options: &'o mut Map<String, Value>,
    way: &[&str],
) -> Option<&'o mut Map<String, Value>> {
    way.iter().try_fold(options, |object, step| {
        let inner = object.entry(*step).or_insert_with(|| json!({}));
        inner.as_object_mut()
    })
}
