//! `authenticate` of an action.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tutti_document::{Diagnostic, TreeNode};
use tutti_options::table::{Opt, Text};

use super::builder::Builder;
use super::reader::{Reader, strings};
use crate::check::of_text;
use crate::model::{
    AuthRequest, Authenticate, Basic, ForwardAuth, GuardFile, Jwt, KeySource, LEAST_LINK_SECRET,
    PasswordHash, SignedLink,
};
use crate::table::{
    ActionOptions, AuthenticateOptions, BasicOptions, ForwardOptions, JwksOptions, JwtAlgorithm,
    JwtOptions, LinkMethod, SignedLinkOptions,
};
use crate::template::{Template, TemplatePart};

impl<'d> Builder<'d> {
    pub(super) fn authenticate(&mut self, reader: &Reader<'d>) -> Option<Authenticate> {
        let reader = reader.inner(&ActionOptions::authenticate)?;
        if let Some(basic) = reader.inner(&AuthenticateOptions::basic) {
            return self.basic(&basic).map(Arc::new).map(Authenticate::Basic);
        }
        if let Some(jwt) = reader.inner(&AuthenticateOptions::jwt) {
            return self.jwt(&jwt).map(Arc::new).map(Authenticate::Jwt);
        }
        if let Some(link) = reader.inner(&AuthenticateOptions::signed_link) {
            let link = self.signed_link(&link);
            return link.map(Arc::new).map(Authenticate::SignedLink);
        }
        let forward = reader.inner(&AuthenticateOptions::forward)?;
        let options: ForwardOptions = forward.read();
        let question = self.question(
            &forward,
            &ForwardOptions::pass,
            (&options.uri, options.timeout),
        )?;
        let uri = forward.template(&ForwardOptions::uri);
        let uri = uri.filter(|uri| uri.as_literal().is_none());
        if uri.as_ref().is_some_and(Template::is_script)
            && let Some((node, pointer)) = forward.get(&ForwardOptions::uri)
        {
            self.wrong(node, pointer, "`uri` may have variables, but no script");
        }
        if uri.is_none()
            && let Some((node, pointer)) = forward.get(&ForwardOptions::uri)
            && let Err((message, hint)) = of_text(&Text::Target, &options.uri)
        {
            let diagnostic = Diagnostic::new(pointer, message);
            let diagnostic = match hint {
                Some(hint) => diagnostic.suggest(hint),
                None => diagnostic,
            };
            self.faults.value(diagnostic, node);
        }
        let forward = ForwardAuth {
            question,
            // Without the client's arguments, which are in `X-Forwarded-Uri`.
            uri: uri.and_then(|uri| match uri.source().ends_with('?') {
                true => Some(uri),
                false => Template::parse(&format!("{uri}?")).ok(),
            }),
            headers: headers(&forward),
            copy: copied(&forward),
            options,
        };
        Some(Authenticate::Forward(Arc::new(forward)))
    }

    fn basic(&mut self, reader: &Reader<'d>) -> Option<Basic> {
        let options: BasicOptions = reader.read();
        let mut users = BTreeMap::new();
        if let Some((node, pointer)) = reader.get(&BasicOptions::users) {
            for member in node.members() {
                let Some(text) = member.node.as_str() else {
                    continue;
                };
                let mut fault = |message: String, hint: String| {
                    let diagnostic = Diagnostic::new(pointer.child(&member.name), message);
                    // Its value may be a password.
                    self.faults.name(diagnostic.suggest(hint), member);
                };
                if member.name.contains(':') {
                    fault(
                        "a name cannot have a colon (RFC 7617 §2)".to_owned(),
                        "write the name without it".to_owned(),
                    );
                    continue;
                }
                match PasswordHash::parse(text) {
                    Ok(hash) => drop(users.insert(member.name.to_string(), hash)),
                    Err((message, hint)) => fault(message, hint),
                }
            }
        }
        if !reader.has(&BasicOptions::users) && options.file.is_none() {
            let diagnostic =
                Diagnostic::new(reader.pointer.clone(), "no client could ever be admitted");
            let hint = "write `users`, `file` or both";
            self.faults.value(diagnostic.suggest(hint), reader.node);
            return None;
        }
        self.check_realm(reader, &BasicOptions::realm, &options.realm);
        let file = options.file.as_deref();
        Some(Basic {
            file: file.and_then(|path| self.guard_file(reader, &BasicOptions::file, path)),
            users,
            options,
        })
    }

    fn signed_link(&mut self, reader: &Reader<'d>) -> Option<SignedLink> {
        let options: SignedLinkOptions = reader.read();
        self.check_secret(reader, &options);
        let template = |option, default| match reader.has(option) {
            true => reader.some_template(option),
            false => Template::parse(default).ok(),
        };
        let expires = template(&SignedLinkOptions::expires, "$arg_expires");
        let text = reader.template(&SignedLinkOptions::text);
        if let (Some(text), Some(expires)) = (&text, &expires)
            && !has_all_of(text, expires)
            && let Some((node, place)) = reader.get(&SignedLinkOptions::text)
        {
            let message = "the expiry time is not signed: clients could change it";
            let hint = format!("write `{}` into it too", expires.source());
            self.faults
                .value(Diagnostic::new(place, message).suggest(hint), node);
        }
        let file = options.secret_file.as_deref();
        Some(SignedLink {
            file: file
                .and_then(|path| self.guard_file(reader, &SignedLinkOptions::secret_file, path)),
            signature: template(&SignedLinkOptions::signature, "$arg_signature")?,
            expires,
            text,
            options,
        })
    }

    /// Checks that there is one secret, which cannot be guessed.
    fn check_secret(&mut self, reader: &Reader<'d>, options: &SignedLinkOptions) {
        let mut fault = |option: Option<&Opt>, message: &str, hint: &str| {
            let place =
                option.map_or_else(|| reader.pointer.clone(), |option| reader.place(option));
            let diagnostic = Diagnostic::new(place, message).suggest(hint);
            match option.and_then(|option| reader.member(option)) {
                // Its value is a secret.
                Some(member) => self.faults.name(diagnostic, member),
                None => self.faults.value(diagnostic, reader.node),
            }
        };
        let text = reader.text(&SignedLinkOptions::text).unwrap_or_default();
        let is_hmac = options.method == LinkMethod::HmacSha256;
        match (&options.secret, &options.secret_file) {
            (Some(_), Some(_)) => fault(
                Some(&SignedLinkOptions::secret),
                "there is a `secret_file` too",
                "leave one of them out",
            ),
            (Some(secret), None) if is_hmac && secret.len() < LEAST_LINK_SECRET => fault(
                Some(&SignedLinkOptions::secret),
                "a secret of less than 32 bytes can be guessed",
                "create one with `openssl rand -hex 32`",
            ),
            // nginx's form has the secret in the text.
            (None, None) if is_hmac || !has_own_words(text) => fault(
                None,
                "without a secret, any client could sign links",
                "write `secret` or `secret_file`",
            ),
            _ => {}
        }
    }

    /// A file that main opens: it is the same wherever main was started.
    pub(super) fn guard_file(
        &mut self,
        reader: &Reader<'d>,
        option: &Opt,
        path: &Path,
    ) -> Option<GuardFile> {
        let (node, pointer) = reader.get(option)?;
        if !path.is_absolute() {
            let diagnostic = Diagnostic::new(pointer, "this is not an absolute path");
            let hint = "begin it with `/`";
            self.faults.value(diagnostic.suggest(hint), node);
            return None;
        }
        Some(GuardFile {
            pointer: pointer.into(),
            path: path.to_owned(),
        })
    }

    /// Checks the characters of a realm, which is a quoted string in a field.
    fn check_realm(&mut self, reader: &Reader<'d>, option: &Opt, realm: &str) {
        let is_plain = |letter: char| !letter.is_control() && !matches!(letter, '"' | '\\');
        if let Some((node, pointer)) = reader.get(option)
            && !realm.chars().all(is_plain)
        {
            let message = "it can have neither quotation marks, backslashes nor control characters";
            self.wrong(node, pointer, message);
        }
    }

    fn jwt(&mut self, reader: &Reader<'d>) -> Option<Jwt> {
        let options: JwtOptions = reader.read();
        let (node, place) = reader.get(&JwtOptions::algorithms)?;
        let words = strings(node).into_iter();
        let algorithms: Vec<JwtAlgorithm> = words.filter_map(JwtAlgorithm::from_word).collect();
        let mut families = algorithms.iter().map(|algorithm| family(*algorithm));
        let first = families.next();
        if first.is_none() {
            self.wrong(node, place.clone(), "no token could ever be accepted");
        }
        if families.any(|family| Some(family) != first) {
            let message = "algorithms of different families have different keys";
            let diagnostic = Diagnostic::new(place, message);
            let hint = "write those of one family, as `[\"RS256\", \"RS512\"]`";
            self.faults.value(diagnostic.suggest(hint), node);
        }
        self.check_realm(reader, &JwtOptions::realm, &options.realm);
        let keys = match reader.inner(&JwtOptions::jwks) {
            Some(jwks) => {
                if first == Some("HS") {
                    let message = "a secret (`HS…`) must not be published in a set of keys";
                    self.refuse(reader, &JwtOptions::jwks, message);
                }
                let options: JwksOptions = jwks.read();
                let asked = (options.uri.as_str(), options.timeout);
                KeySource::Fetched(self.question(&jwks, &JwksOptions::pass, asked)?, options)
            }
            None => {
                let path = options.key_file.as_deref()?;
                KeySource::File(self.guard_file(reader, &JwtOptions::key_file, path)?)
            }
        };
        let audience = reader.get(&JwtOptions::audience);
        let audience = audience.map(|(node, _)| strings(node)).unwrap_or_default();
        let fields = reader.get(&JwtOptions::fields);
        let fields = fields.map(|(node, _)| node.members()).unwrap_or_default();
        Some(Jwt {
            algorithms,
            keys,
            audience: audience.into_iter().map(str::to_owned).collect(),
            fields: fields
                .iter()
                .filter_map(|member| {
                    Some((member.name.to_string(), member.node.as_str()?.to_owned()))
                })
                .collect(),
            options,
        })
    }

    fn question(
        &mut self,
        reader: &Reader<'d>,
        pass: &Opt,
        (uri, timeout): (&str, Duration),
    ) -> Option<AuthRequest> {
        Some(AuthRequest {
            pass: self.receiver(reader, pass)?,
            uri: uri.to_owned(),
            timeout,
            pointer: reader.pointer.clone().into(),
        })
    }
}

/// True if a text has all variables of another one. A script may compute them.
fn has_all_of(text: &Template, other: &Template) -> bool {
    let is_there = |part: &TemplatePart| match part {
        TemplatePart::Literal(_) => true,
        TemplatePart::Variable(_)
        | TemplatePart::Script(_)
        | TemplatePart::Map(_)
        | TemplatePart::Group(_) => text.parts().contains(part),
    };
    text.is_script() || other.parts().iter().all(is_there)
}

/// True if a text has a part that no client knows: words, apart from variables.
fn has_own_words(text: &str) -> bool {
    let template = Template::parse(text).unwrap_or_default();
    template.parts().iter().any(|part| match part {
        TemplatePart::Literal(words) => !words.trim().is_empty(),
        TemplatePart::Variable(_) | TemplatePart::Map(_) | TemplatePart::Group(_) => false,
        TemplatePart::Script(_) => true,
    })
}

/// Fields to set in a subrequest.
fn headers(forward: &Reader<'_>) -> Vec<(String, Option<Template>)> {
    let members = forward.get(&ForwardOptions::headers);
    let members = members.map(|(node, _)| node.members()).unwrap_or_default();
    let template = |node: &TreeNode| Template::parse(node.as_str()?).ok();
    members
        .iter()
        .map(|member| (member.name.to_string(), template(&member.node)))
        .collect()
}

/// Fields for the application, and those of the response that give their values.
fn copied(forward: &Reader<'_>) -> Vec<(String, String)> {
    let Some((node, _)) = forward.get(&ForwardOptions::copy) else {
        return Vec::new();
    };
    let renamed = node.members().iter();
    let renamed =
        renamed.filter_map(|one| Some((one.name.to_string(), one.node.as_str()?.to_owned())));
    let names = node.elements().iter().filter_map(TreeNode::as_str);
    let same = names.map(|name| (name.to_owned(), name.to_owned()));
    same.chain(renamed).collect()
}

/// Algorithms of one family use the same keys.
fn family(algorithm: JwtAlgorithm) -> &'static str {
    match algorithm.word() {
        word if word.starts_with("HS") => "HS",
        word if word.starts_with("RS") || word.starts_with("PS") => "RSA",
        word if word.starts_with("ES") => "EC",
        _ => "Ed",
    }
}
