//! What stands before an action: one place for everything that may answer a request, change its fields or make it wait before anything
//! else is done with it.
//!
//! [`enter`] is called with the plan for each request whose actions have a guard, [`run`] where that has to wait. The decisions are
//! `tutti-guard`'s; here are the request they are about, the fields that come of them, and the state that outlives a configuration.
//!
//! Must never: let a request by that could not be decided, or do anything of an action before all that stands before it has been passed.

mod admission;
pub(crate) mod answer;
mod identity;
mod key_set;
mod limits;
mod password_desk;
mod question;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tutti_config::{Diagnostic, model};
use tutti_guard::cors;
use tutti_http::FieldLines;
use tutti_http::edits::{Edit, is_alias};
use tutti_routing::RequestInfo as _;

use crate::channel_io::unless_gone;
use crate::dispatch;
use crate::plan::Plan;
use crate::refusals;
use crate::request::Request;
use crate::snapshot::Surroundings;
use crate::step::Step;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};

pub(crate) use self::admission::Admission;
use self::identity::Identity;
use self::limits::{Limit, Pace};
use self::password_desk::PasswordDesk;

/// Everything that stands before actions, as the router numbers it.
#[derive(Default)]
pub(crate) struct Guards {
    list: Vec<Guard>,
    /// The fields that they tell applications.
    fields: Vec<String>,
    desk: Arc<PasswordDesk>,
}

/// What stands before one action.
struct Guard {
    model: Arc<model::Guard>,
    limits: Vec<Arc<Limit>>,
    identity: Option<Arc<Identity>>,
    /// The number of the way in for its question.
    question: Option<usize>,
}

/// An answer in place of the action's.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: FieldLines,
    /// Of somebody else; `None`: the server's own page.
    pub(crate) body: Option<Vec<u8>>,
}

impl Answer {
    fn of(status: u16) -> Self {
        Self {
            status,
            fields: FieldLines::new(),
            body: None,
        }
    }
}

/// Whether a request may go on.
pub(crate) enum Entrance {
    Open,
    /// It is answered here.
    Closed(Answer),
    /// Not yet.
    Waits(Waits),
}

/// What a request waits for.
pub(crate) struct Waits {
    /// Its time, where it came too soon.
    pause: Duration,
}

/// A request that waits, and what is to be done then.
pub(crate) struct Guarded {
    pub(crate) plan: Plan,
    pub(crate) waits: Waits,
}

impl Guards {
    /// Those of a configuration. What has been counted and read for the one before goes on where it did not change.
    ///
    /// # Errors
    /// Files that cannot be used, each at its place.
    pub(crate) fn new(
        wanted: &[Arc<model::Guard>],
        previous: &Guards,
        around: &mut dyn Surroundings,
    ) -> Result<Self, Vec<Diagnostic>> {
        let before = previous.list.iter().flat_map(|guard| &guard.limits);
        let mut known: Vec<Arc<Limit>> = before.cloned().collect();
        let mut faults = Vec::new();
        let mut list = Vec::new();
        let mut questions = 0;
        for model in wanted {
            let identity = previous.identity(model);
            if let (Some(identity), Some(file)) = (&identity, model.file())
                && let Some(read) = around.guard_file(&file.path)
                && let Err(why) = read.and_then(|content| identity.take(&content))
            {
                let message = format!("`{}`: {why}", file.path.display());
                faults.push(Diagnostic::apply(file.pointer.clone(), message));
            }
            list.push(Guard {
                limits: limits_of(model, &mut known),
                identity,
                question: model.question().map(|_| {
                    questions += 1;
                    questions - 1
                }),
                model: Arc::clone(model),
            });
        }
        let mut fields: Vec<String> = Vec::new();
        for name in wanted.iter().flat_map(|model| model.fields()) {
            if !fields.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                fields.push(name.to_owned());
            }
        }
        match faults.is_empty() {
            true => Ok(Self {
                list,
                fields,
                desk: Arc::clone(&previous.desk),
            }),
            false => Err(faults),
        }
    }

    /// What is known of who may pass a guard.
    fn identity(&self, model: &model::Guard) -> Option<Arc<Identity>> {
        let wanted = model.authenticate.as_ref()?;
        let mut known = self.list.iter().filter_map(|guard| guard.identity.as_ref());
        let same = known.find(|known| known.is(wanted));
        Some(same.map_or_else(|| Arc::new(Identity::new(wanted)), Arc::clone))
    }

    /// The fields that guards tell applications, and nobody else.
    pub(crate) fn fields(&self) -> &[String] {
        &self.fields
    }

    /// The files that guards need.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let identities = self
            .list
            .iter()
            .filter_map(|guard| guard.identity.as_deref());
        identities.filter_map(Identity::file)
    }

    /// Goes on with this content of a file. Returns why not.
    pub(crate) fn replace_file(&self, path: &Path, content: &[u8]) -> Vec<String> {
        let identities = self
            .list
            .iter()
            .filter_map(|guard| guard.identity.as_deref());
        let its = identities.filter(|identity| identity.file() == Some(path));
        its.filter_map(|identity| identity.take(content).err())
            .collect()
    }

    fn of<'g>(&'g self, plan: &'g Plan) -> impl DoubleEndedIterator<Item = &'g Guard> {
        let numbers = plan.guards.iter();
        numbers.filter_map(|number| self.list.get(*number))
    }
}

/// The limits of a guard: those that are counted already, and new ones.
fn limits_of(model: &model::Guard, known: &mut Vec<Arc<Limit>>) -> Vec<Arc<Limit>> {
    let mut limit = |wanted: &Arc<model::Limit>| {
        if let Some(same) = known.iter().find(|known| known.is(wanted)) {
            return Arc::clone(same);
        }
        let new = Arc::new(Limit::new(wanted));
        known.push(Arc::clone(&new));
        new
    };
    model.limits.iter().map(&mut limit).collect()
}

/// Decides about a request as far as that needs no waiting.
pub(crate) fn enter(request: &Request<'_>, plan: &Plan) -> Entrance {
    let guards = &request.snapshot.guards;
    // The last action says who may read its answers; browsers ask about that without a password, so it comes first.
    let said = guards
        .of(plan)
        .rev()
        .find_map(|one| one.model.cors.as_ref());
    if let Some(cors) = said
        && let Some(answer) = other_origins(request, cors)
    {
        return Entrance::Closed(answer);
    }
    let mut pause = Duration::ZERO;
    for limit in guards.of(plan).flat_map(|guard| &guard.limits) {
        match limits::pass(request, plan, limit) {
            Ok(Pace::Now) => {}
            Ok(Pace::In(time)) => pause = pause.max(time),
            Err(answer) => return Entrance::Closed(answer),
        }
    }
    let asks = guards.of(plan).any(|guard| guard.identity.is_some());
    match pause.is_zero() && !asks {
        true => Entrance::Open,
        false => Entrance::Waits(Waits { pause }),
    }
}

/// Waits, and goes on.
pub(crate) async fn run(
    request: &Request<'_>,
    guarded: Guarded,
    output: &mut Output,
) -> Result<Step, Gone> {
    let connection = request.connection;
    // Earlier answers must not wait for this one.
    connection
        .flush(output, request.snapshot.timeouts.send)
        .await?;
    connection.set_deadline(NEVER);
    let Guarded { mut plan, waits } = guarded;
    if !waits.pause.is_zero() {
        unless_gone(connection, tokio::time::sleep(waits.pause)).await?;
    }
    match unless_gone(connection, identify(request, &plan)).await? {
        Ok(told) => {
            // Nobody says it beside the guard: not `request_headers` either.
            let is_told = |edit: &Edit| {
                told.iter()
                    .any(|one| is_alias(one.name().as_bytes(), edit.name().as_bytes()))
            };
            plan.changes.edits.retain(|edit| !is_told(edit));
            plan.changes.edits.extend(told);
            Ok(dispatch::go_on(request, plan, output))
        }
        Err(answer) => answer::give(request, answer, &plan.changes, output),
    }
}

/// Finds who a request is from, for each guard that wants to know.
async fn identify(request: &Request<'_>, plan: &Plan) -> identity::Found {
    let guards = &request.snapshot.guards;
    let mut told: Vec<Edit> = Vec::new();
    for guard in guards.of(plan) {
        if let Some(identity) = &guard.identity {
            let found = identity::find(request, guard, identity, &guards.desk).await?;
            // The last one, who is nearest to the action, is right where two say the same.
            told.retain(|edit| !found.iter().any(|one| one.is_of(edit.name())));
            told.extend(found);
        }
    }
    Ok(told)
}

/// Notes what the answer says to pages of other origins; an answer where they only ask.
fn other_origins(request: &Request<'_>, cors: &model::Cors) -> Option<Answer> {
    let admission = &request.connection.admission;
    admission.say_of_origins();
    let origin = request.view.get_all(b"Origin").next();
    let asked = request
        .view
        .get_all(b"Access-Control-Request-Method")
        .next();
    let Some((origin, _)) = origin.zip(asked).filter(|_| request.method() == b"OPTIONS") else {
        cors::answer(cors, origin, &mut |name, value| admission.add(name, value));
        return None;
    };
    let headers = request
        .view
        .get_all(b"Access-Control-Request-Headers")
        .next();
    cors::preflight(cors, origin, headers, &mut |name, value| {
        admission.add(name, value);
    });
    Some(Answer::of(204))
}

/// Tells why a request is answered here.
fn tell(request: &Request<'_>, status: u16, reason: &str) {
    refusals::refused(&request.connection.local, request, status, reason);
}
