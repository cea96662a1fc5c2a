//! Authentication: `authenticate` of an action.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use data_encoding::BASE64;
use tutti_config::model::{self, Authenticate, KeySource};
use tutti_config::template::Template;
use tutti_conn::connection_limits::ClientKey;
use tutti_guard::auth_request::{self, AuthClient, AuthError, AuthResponse};
use tutti_guard::passwords::Accounts;
use tutti_guard::signed_link::{self, LinkClaim, LinkFault};
use tutti_guard::token::{Claims, TokenError, VerificationKeys, Verifier, claim, unfit};
use tutti_guard::{ActionGuard, Busy, Identity, IdentityState, KeySet, PasswordDesk};
use tutti_http::FieldLines;
use tutti_http::edits::Edit;
use tutti_pool::Level;
use tutti_routing::{RequestInfo as _, Seen, render, rewrite};

use super::response::GuardResponse;
use super::subrequest as way;
use crate::exchange::refusals;
use crate::exchange::request::Request;

/// The result of authentication: the fields with the user for the application, or the answer.
pub(super) type Found = Result<Vec<Edit>, GuardResponse>;

/// Authenticates a request.
pub(super) async fn find(
    request: &Request<'_>,
    guard: &ActionGuard,
    identity: &Arc<Identity>,
) -> Found {
    let desk = request.snapshot.guards.desk();
    match (&identity.model, &identity.state) {
        (Authenticate::Basic(model), IdentityState::Basic(accounts)) => {
            let Some(accounts) = accounts.load_full() else {
                return Err(not_read(request, guard));
            };
            basic(request, model, &accounts, desk).await
        }
        (Authenticate::Jwt(model), IdentityState::Jwt(verifier, keys)) => {
            jwt(request, guard, (model, verifier, keys)).await
        }
        (Authenticate::Forward(model), IdentityState::Forward) => {
            forward(request, guard, identity, model).await
        }
        (Authenticate::SignedLink(model), IdentityState::SignedLink(secret)) => {
            let Some(secret) = secret.load_full() else {
                return Err(not_read(request, guard));
            };
            signed_link(request, model, &secret)
        }
        // State and model always match.
        _ => Err(GuardResponse::of(500)),
    }
}

/// The file has not been read yet, or cannot be.
fn not_read(request: &Request<'_>, guard: &ActionGuard) -> GuardResponse {
    let place = &guard.model.pointer;
    let reason = format!("the file for `authenticate` of `{place}` could not be read yet");
    refusals::failed(&request.client.local, request, 503, &reason);
    GuardResponse::of(503)
}

async fn basic(
    request: &Request<'_>,
    model: &model::Basic,
    accounts: &Accounts,
    desk: &PasswordDesk,
) -> Found {
    let refuse = |reason: &str| {
        refusals::refused(&request.client.local, request, 401, reason);
        let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", model.options.realm);
        Err(GuardResponse {
            fields: FieldLines::of("WWW-Authenticate", challenge.as_bytes()),
            ..GuardResponse::of(401)
        })
    };
    let Some(decoded) = credentials(request, b"basic").and_then(|text| BASE64.decode(text).ok())
    else {
        return refuse("no name and password were given");
    };
    let mut parts = decoded.splitn(2, |byte| *byte == b':');
    let name = parts.next().and_then(|name| std::str::from_utf8(name).ok());
    let question = name
        .zip(parts.next())
        .and_then(|(name, password)| Some((name, accounts.question(name, password)?)));
    let Some((name, question)) = question else {
        return refuse("name or password is wrong");
    };
    let mut source = Vec::new();
    ClientKey::write(request.remote().map(|address| address.ip()), &mut source);
    match desk.ask(name, question, &source).await {
        Ok(true) => {
            request.exchange.admission.name_user(name.as_bytes());
            let field = model.options.field.clone();
            let edit = |field| Edit::own(field, Some(name.as_bytes().to_vec()));
            Ok(field.map(edit).into_iter().collect())
        }
        Ok(false) => refuse("name or password is wrong"),
        Err(Busy) => {
            let reason = "too many passwords are being checked";
            refusals::refused(&request.client.local, request, 503, reason);
            Err(GuardResponse {
                fields: FieldLines::of("Retry-After", b"1"),
                ..GuardResponse::of(503)
            })
        }
    }
}

/// The text after the scheme in `Authorization`; `None`: there is no such field, or more than one, which an application may interpret
/// differently.
fn credentials<'r>(request: &Request<'r>, scheme: &[u8]) -> Option<&'r [u8]> {
    let mut fields = request.view.get_all(b"Authorization");
    let field = fields.next()?;
    if fields.next().is_some() {
        return None;
    }
    let end = field.iter().position(|byte| *byte == b' ')?;
    let (found, rest) = field.split_at(end);
    found
        .eq_ignore_ascii_case(scheme)
        .then(|| rest.trim_ascii())
}

async fn jwt(
    request: &Request<'_>,
    guard: &ActionGuard,
    (model, verifier, keys): (&Arc<model::Jwt>, &Verifier, &Arc<KeySet>),
) -> Found {
    let refuse = |error: &str, reason: &str| {
        refusals::refused(&request.client.local, request, 401, reason);
        let mut challenge = format!("Bearer realm=\"{}\"", model.options.realm);
        if !error.is_empty() {
            challenge = format!("{challenge}, error=\"{error}\"");
        }
        Err(GuardResponse {
            fields: FieldLines::of("WWW-Authenticate", challenge.as_bytes()),
            ..GuardResponse::of(401)
        })
    };
    let token = match &model.options.cookie {
        Some(name) => request.cookie(name),
        None => credentials(request, b"bearer"),
    };
    // RFC 6750 §3.1: a request without a token gets no error code.
    let Some(token) = token else {
        return refuse("", "there is no token");
    };
    let claims = match &model.keys {
        KeySource::File(_) => match keys.now() {
            Some(keys) => verifier.verify(token, &keys),
            None => return Err(not_read(request, guard)),
        },
        KeySource::Fetched(..) => fetched(request, guard, (model, verifier, keys), token).await?,
    };
    match claims {
        Ok(claims) => {
            if let Some(user) = claim(&claims, &model.options.user_claim) {
                request.exchange.admission.name_user(&user);
            }
            let edit = |(field, name): &(String, String)| {
                let value = claim(&claims, name);
                if let Some(why) = unfit(&claims, name).filter(|_| value.is_none()) {
                    let message = format!("the field `{field}` is omitted: {why}");
                    request.client.local.log_client_error(Level::Warn, &message);
                }
                Edit::own(field.clone(), value)
            };
            Ok(model.fields.iter().map(edit).collect())
        }
        Err(TokenError::UnknownKey) => refuse("invalid_token", "the key of the token is unknown"),
        Err(TokenError::Invalid(why)) => refuse("invalid_token", &why),
    }
}

/// Verifies with fetched keys: the known ones, or, for an unknown key, those that a fetch brings.
async fn fetched(
    request: &Request<'_>,
    guard: &ActionGuard,
    (model, verifier, keys): (&Arc<model::Jwt>, &Verifier, &Arc<KeySet>),
    token: &[u8],
) -> Result<Result<Claims, TokenError>, GuardResponse> {
    let KeySource::Fetched(question, options) = &model.keys else {
        return Err(GuardResponse::of(500));
    };
    let now = Instant::now();
    let known = keys.usable(now, options.refresh);
    let verified = known.map(|known| verifier.verify(token, &known));
    let is_known = !matches!(verified, None | Some(Err(TokenError::UnknownKey)));
    if (!is_known || keys.is_due(now, options.refresh))
        && let Some(fetch) = keys.begin(now)
    {
        let asked = auth_request::for_keys(question, &options.host)
            .map(|outgoing| way::ask(request, guard, question, outgoing));
        let local = Rc::clone(&request.client.local);
        let model = Arc::clone(model);
        let place = guard.model.pointer.clone();
        // A task of its own: the keys are for all, however soon this client leaves.
        tokio::task::spawn_local(async move {
            let received = receive_keys(&model, asked).await;
            if let Err(why) = &received {
                let message =
                    format!("keys for `authenticate` of `{place}` cannot be fetched: {why}");
                local.log_failure(Level::Error, &message);
            }
            fetch.end(received.ok());
        });
    }
    if let Some(verified) = verified.filter(|_| is_known) {
        return Ok(verified);
    }
    keys.settle().await;
    // Old keys are better than none: their signatures are still valid.
    let Some(known) = keys.now() else {
        let place = &guard.model.pointer;
        let reason = format!("there are no keys for `authenticate` of `{place}` yet");
        refusals::failed(&request.client.local, request, 502, &reason);
        return Err(GuardResponse::of(502));
    };
    Ok(verifier.verify(token, &known))
}

/// Receives the keys that were asked for.
async fn receive_keys(
    model: &model::Jwt,
    asked: Result<impl Future<Output = Result<AuthResponse, AuthError>>, AuthError>,
) -> Result<VerificationKeys, String> {
    let response = match asked {
        Ok(asked) => asked.await,
        Err(failure) => Err(failure),
    };
    let response = response.map_err(|failure| failure.reason)?;
    match response.status {
        200 => VerificationKeys::read_set(&response.body, model)
            .map_err(|why| format!("the answer {why}")),
        other => Err(format!("the service answered {other}")),
    }
}

fn signed_link(request: &Request<'_>, model: &model::SignedLink, secret: &[u8]) -> Found {
    let seen = Seen {
        request,
        // The link is what the client has asked for; a `rewrite` may lead all links to one path.
        rewritten: None,
        response: None,
    };
    let written = |template: &Template| {
        let mut text = Vec::new();
        let outcome = tutti_routing::render(template, &seen, &mut text);
        outcome.map(|()| text).map_err(|_| GuardResponse::of(500))
    };
    let signature = written(&model.signature)?;
    let expires = model.expires.as_ref().map(written).transpose()?;
    let text = match &model.text {
        Some(template) => written(template)?,
        None => {
            let mut text = seen.path().to_vec();
            if let Some(expires) = &expires {
                text.push(b' ');
                text.extend_from_slice(expires);
            }
            text
        }
    };
    let claim = LinkClaim {
        signature: &signature,
        expires: expires.as_deref(),
        text: &text,
    };
    let options = &model.options;
    let (status, reason) = match signed_link::check(options.method, secret, claim, now()) {
        Ok(()) => return Ok(Vec::new()),
        Err(LinkFault::Unsigned) => (options.status, "the link has no valid signature"),
        Err(LinkFault::Expired) => (options.expired_status, "the link has expired"),
    };
    refusals::refused(&request.client.local, request, status, reason);
    Err(GuardResponse::of(status))
}

/// Seconds since 1970. A clock before that makes no link valid.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(u64::MAX, |since| since.as_secs())
}

async fn forward(
    request: &Request<'_>,
    guard: &ActionGuard,
    identity: &Arc<Identity>,
    model: &model::ForwardAuth,
) -> Found {
    let client = refusals::client(request.remote());
    // A script that failed has been logged.
    let undecided = |_| GuardResponse::of(500);
    let target = model.uri.as_ref().map(|uri| rewrite(uri, request, true));
    let target = target.transpose().map_err(undecided)?;
    let mut headers = Vec::new();
    for (name, template) in &model.headers {
        let value = template.as_ref().map(|template| {
            let mut value = Vec::new();
            render(template, request, &mut value).map(|()| value)
        });
        headers.push((name.as_str(), value.transpose().map_err(undecided)?));
    }
    let source = AuthClient {
        client: &client,
        is_https: request.is_https(),
        own: request.snapshot.guards.fields(),
        target: target.as_ref().map(|target| target.as_path().target()),
        headers: &headers,
    };
    let asked = match auth_request::about(model, &request.view, &source) {
        Ok(outgoing) => way::ask(request, guard, &model.question, outgoing).await,
        Err(failure) => Err(failure),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(failure) => {
            let place = &guard.model.pointer;
            let reason = format!("`authenticate` of `{place}`: {}", failure.reason);
            refusals::failed(&request.client.local, request, failure.status, &reason);
            return Err(GuardResponse::of(failure.status));
        }
    };
    match asked.status {
        200..=299 => {
            let said = |name: &str| {
                let values: Vec<&[u8]> = asked.fields.get_all(name.as_bytes()).collect();
                (!values.is_empty()).then(|| values.join(&b", "[..]))
            };
            if let Some(user) = said(&model.options.user_field) {
                request.exchange.admission.name_user(&user);
            }
            let mut given = FieldLines::new();
            for name in &model.options.copy_to_client {
                for value in asked.fields.get_all(name.as_bytes()) {
                    // It has no line break: it was a field.
                    let _ = given.try_push(name.as_bytes(), value);
                }
            }
            if !given.is_empty() {
                request.exchange.admission.give(identity, given);
            }
            let edit = |(name, from): &(String, String)| Edit::own(name.clone(), said(from));
            Ok(model.copy.iter().map(edit).collect())
        }
        status @ (301 | 302 | 303 | 307 | 308 | 401 | 403) => {
            let reason = "the service denied access";
            refusals::refused(&request.client.local, request, status, reason);
            Err(GuardResponse {
                status,
                fields: asked.for_the_client(),
                body: Some(asked.body),
            })
        }
        other => {
            let place = &guard.model.pointer;
            let reason = format!("`authenticate` of `{place}`: the service answered {other}");
            refusals::failed(&request.client.local, request, 502, &reason);
            Err(GuardResponse::of(502))
        }
    }
}
