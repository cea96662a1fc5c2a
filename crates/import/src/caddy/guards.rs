//! `basic_auth`, `forward_auth`, and `handle_errors`: directives before answers, and in place of them.

use serde_json::{Map, Value, json};
use tutti_config::model::PasswordHash;

use super::tree::Directive;
use super::{Caddy, Scope, trim};

impl Caddy<'_> {
    /// Returns the action of a guard: requests that it lets in go on to the directives behind it.
    pub(super) fn guard(
        &mut self,
        directive: &Directive,
        arguments: &[String],
        rest: &[Directive],
        scope: &Scope,
    ) -> Value {
        let authenticate = match directive.name() {
            "forward_auth" => self.forward(directive, arguments, scope),
            _ => basic(directive, arguments).map(|basic| json!({"basic": basic})),
        };
        let authenticate = match authenticate {
            Ok(authenticate) => authenticate,
            Err(problem) => {
                let problem = format!("{problem}: requests here get 403");
                let hint = "write an `authenticate` (`docs/http/access.md`)";
                self.findings
                    .lost(&directive.place, directive.name(), &problem, hint);
                return json!({"return": 403});
            }
        };
        let mut after = self.steps(rest, scope);
        after.push(json!({"action": {"return": 404}}));
        trim(&mut after);
        let next = self.out.add_route(&format!("{}-let-in", self.site), after);
        json!({"authenticate": authenticate, "pass": next})
    }

    fn forward(
        &mut self,
        directive: &Directive,
        arguments: &[String],
        scope: &Scope,
    ) -> Result<Value, String> {
        let mut asked = Directive {
            words: vec!["reverse_proxy".to_owned()],
            block: Some(Vec::new()),
            ..directive.clone()
        };
        asked.words.extend_from_slice(arguments);
        let mut forward = Map::new();
        let mut copied: Vec<Value> = Vec::new();
        for option in directive.inner() {
            let inner = option.inner().iter().flat_map(|inner| &inner.words);
            let words: Vec<&String> = option.arguments().iter().chain(inner).collect();
            match option.name() {
                "uri" if option.argument(0).contains('{') => {
                    return Err("the URL of the subrequest depends on the request".to_owned());
                }
                "uri" => drop(forward.insert("uri".to_owned(), option.argument(0).into())),
                "copy_headers" => {
                    // A client could set a name that is left out.
                    if words.iter().any(|word| word.contains(['>', '{'])) {
                        return Err("a field is renamed".to_owned());
                    }
                    copied.extend(words.into_iter().map(|word| Value::from(word.as_str())));
                }
                _ => asked.block.get_or_insert_default().push(option.clone()),
            }
        }
        let arguments = asked.arguments().to_vec();
        let action = self.proxy(&asked, &arguments, scope);
        let pass = action
            .as_ref()
            .and_then(|action| action.get("pass")?.as_str());
        let pass = pass.ok_or_else(|| "the service to ask cannot be expressed".to_owned())?;
        let name = pass.trim_start_matches("upstreams/");
        if let Some(upstream) = self
            .out
            .upstreams
            .get_mut(name)
            .and_then(Value::as_object_mut)
        {
            // `auth_request` of Tutti sends the client's address by itself.
            upstream.remove("forwarded_headers");
        }
        forward.insert("pass".to_owned(), pass.into());
        if !copied.is_empty() {
            forward.insert("copy".to_owned(), copied.into());
        }
        Ok(json!({"forward": forward}))
    }

    /// `error_pages` of a site, from `handle_errors`.
    pub(super) fn error_pages(&mut self, block: &[Directive], scope: &Scope) -> Map<String, Value> {
        let mut scope = scope.clone();
        let named = block.iter().filter(|one| one.name().starts_with('@'));
        scope.named.extend(named.cloned());
        for directive in block {
            self.settle(directive, &mut scope);
        }
        let mut pages = Map::new();
        for directive in block.iter().filter(|one| one.name() == "handle_errors") {
            // The status of the error is kept, where only one can be meant.
            scope.status = match directive.arguments() {
                [only] => only.parse().ok(),
                _ => None,
            };
            if scope.status.is_none() && says_no_status(directive) {
                let problem = "a `respond` without a status is carried over with status 500 only";
                let hint = "write the status into `respond`, or into `handle_errors`";
                self.findings
                    .lost(&directive.place, directive.name(), problem, hint);
                scope.status = Some(500);
            }
            let mut steps = self.steps(directive.inner(), &scope);
            steps.push(json!({"action": {"return": 404}}));
            trim(&mut steps);
            let pass = self.out.add_route(&format!("{}-error", self.site), steps);
            let all = ["4xx", "5xx"].map(str::to_owned);
            let statuses = match directive.arguments() {
                [] => all.as_slice(),
                statuses => statuses,
            };
            for status in statuses {
                let entry = pages.entry(status.clone());
                entry.or_insert_with(|| json!({"pass": pass}));
            }
        }
        pages
    }
}

/// True if something in a block answers without saying with which status. The depth is that of blocks, which the parser bounds.
fn says_no_status(directive: &Directive) -> bool {
    let is_status = |word: &String| word.parse::<u16>().is_ok();
    directive.inner().iter().any(|inner| {
        inner.name() == "respond" && !inner.arguments().iter().any(is_status)
            || says_no_status(inner)
    })
}

fn basic(directive: &Directive, arguments: &[String]) -> Result<Value, String> {
    if let Some(algorithm) = arguments.first()
        && !matches!(algorithm.as_str(), "bcrypt" | "argon2id")
    {
        return Err(format!("`{algorithm}` hashes are not supported"));
    }
    let mut users = Map::new();
    for user in directive.inner() {
        let hash = user.argument(0);
        // Before 2.7 hashes were written in Base64.
        let hash = match PasswordHash::parse(hash) {
            Ok(_) => Some(hash.to_owned()),
            Err(_) => from_base64(hash).filter(|hash| PasswordHash::parse(hash).is_ok()),
        };
        let Some(hash) = hash else {
            return Err(format!("the hash of `{}` is not supported", user.name()));
        };
        users.insert(user.name().to_owned(), hash.into());
    }
    if users.is_empty() {
        return Err("there are no users".to_owned());
    }
    let mut basic = Map::from_iter([("users".to_owned(), users.into())]);
    let is_plain = |character: char| {
        (character.is_ascii_graphic() || character == ' ') && !r#""\$"#.contains(character)
    };
    if let Some(realm) = arguments.get(1)
        && realm.chars().all(is_plain)
    {
        basic.insert("realm".to_owned(), realm.as_str().into());
    }
    Ok(basic.into())
}

/// A text in Base64 (RFC 4648 §4).
fn from_base64(text: &str) -> Option<String> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|known| *known == byte)?;
        held = held << 6 | u32::try_from(value).ok()?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).ok()?);
            held &= (1 << bits) - 1;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64() {
        assert_eq!(from_base64("JDJhJDE0").as_deref(), Some("$2a$14"));
        assert_eq!(from_base64("YWI=").as_deref(), Some("ab"));
        assert_eq!(from_base64("$"), None);
    }
}
