//! A runtime and its realms: templates compiled on demand, modules loaded for each request that uses them.

use std::collections::HashMap;
use std::sync::Arc;

use rquickjs::context::EvalOptions;
use rquickjs::function::Args;
use rquickjs::{CaughtError, Context, Ctx, Error, Function, Object, Persistent, Runtime, Value};

use crate::builtin;
use crate::failure::ScriptError;
use crate::limits::{MEMORY_LIMIT, SETUP_LIMIT, STACK_LIMIT, TIME_LIMIT, Timer};
use crate::maker::maker;
use crate::modules::{Modules, Others, ScriptModule};
use crate::values::{self, Uses, Values};

/// Precedes a template when it is compiled, with the names of modules inserted.
const HEAD: &str = "(function (uri, host, remoteAddr, args, cookies, headers, vars";
const HEAD_END: &str = ") { return (\n";
const TAIL: &str = "\n); })";

/// Lines of [`HEAD`] and [`HEAD_END`].
pub(crate) const HEAD_LINES: usize = 1;

/// Compiled templates kept. A configuration has a few; only a server whose configuration changes all day reaches this.
const KEPT_TEMPLATES: usize = 10_000;

/// The engine of one thread for one set of modules.
///
/// A request never sees anything left by another. Templates share a realm in which nothing can be changed, and the state of modules is made
/// anew for each value ([`maker`]). If that is impossible, because a module must be loaded as one or a script fails, perhaps because it
/// changes something, a value has its own realm, as in njs; that costs a thousand times as much (decision 0711).
pub(crate) struct Engine {
    modules: Modules,
    timer: Timer,
    // The realm before the runtime: they are dropped in this order.
    shared: Realm,
    runtime: Runtime,
}

/// Global objects, and what has been compiled with them.
pub(crate) struct Realm {
    // Values before the context: they are dropped in this order.
    templates: HashMap<Box<str>, Template>,
    wrap_headers: Persistent<Function<'static>>,
    wrap_variables: Persistent<Function<'static>>,
    /// For every module of the engine, or for none.
    makers: Vec<Maker>,
    context: Context,
    timer: Timer,
}

struct Template {
    function: Persistent<Function<'static>>,
    uses: Uses,
    /// Which of the realm's makers have modules named in it.
    modules: Box<[bool]>,
}

/// Makes the exports of a module anew for each request.
struct Maker {
    name: Arc<str>,
    function: Persistent<Function<'static>>,
}

/// Converts an error of the engine to text.
pub(crate) struct Thrown {
    pub(crate) failure: ScriptError,
    /// The call stack: `at name (file:line:column)`, innermost first.
    pub(crate) stack: String,
    /// The module that was being loaded.
    pub(crate) module: Option<Arc<str>>,
}

impl Engine {
    /// Makes an engine for templates that may use these modules.
    pub(crate) fn new(modules: &Modules) -> Result<Engine, Thrown> {
        let runtime = Runtime::new().map_err(|_| Thrown::memory())?;
        runtime.set_memory_limit(MEMORY_LIMIT);
        runtime.set_max_stack_size(STACK_LIMIT);
        let timer = Timer::install(&runtime);
        timer.begin(SETUP_LIMIT);
        let others = Others(modules.clone());
        runtime.set_loader(others.clone(), others);
        let mut shared = Realm::new(&runtime, &timer)?;
        shared.seal()?;
        shared.makers = shared.makers_of(modules).unwrap_or_default();
        Ok(Engine {
            modules: modules.clone(),
            timer,
            shared,
            runtime,
        })
    }

    /// Makes a realm with `wanted` loaded, and those of the engine's modules that they import.
    pub(crate) fn load<'m>(
        &self,
        wanted: impl Iterator<Item = &'m ScriptModule>,
    ) -> Result<Realm, Thrown> {
        self.timer.begin(SETUP_LIMIT);
        let realm = Realm::new(&self.runtime, &self.timer)?;
        realm.load(wanted)?;
        self.run_jobs();
        Ok(realm)
    }

    pub(crate) fn is_for(&self, modules: &Modules) -> bool {
        self.modules == *modules
    }

    /// Appends the value of a template.
    pub(crate) fn evaluate(
        &mut self,
        source: &str,
        values: &dyn Values,
        out: &mut Vec<u8>,
    ) -> Result<(), ScriptError> {
        let is_shared = self.shared.templates.contains_key(source) || !self.needs_modules(source);
        let mut value = None;
        if is_shared {
            self.timer.begin(TIME_LIMIT);
            value = Some(self.shared.evaluate(source, values));
            self.run_jobs();
        }
        let value = match value {
            None | Some(Err(ScriptError::Thrown(_))) => self.evaluate_alone(source, values),
            Some(value) => value,
        };
        out.extend_from_slice(value?.as_bytes());
        Ok(())
    }

    /// Evaluates a template in a realm of its own.
    fn evaluate_alone(&self, source: &str, values: &dyn Values) -> Result<String, ScriptError> {
        let loaded = self.load(self.modules.iter());
        let mut realm = loaded.map_err(|thrown| thrown.failure)?;
        self.timer.begin(TIME_LIMIT);
        let value = realm.evaluate(source, values);
        self.run_jobs();
        drop(realm);
        // A realm consists of reference cycles; its memory must be free before the next one needs it.
        self.runtime.run_gc();
        value
    }

    /// True if the template needs loaded modules: it names one that cannot be made in the shared realm, or may reach one without its name.
    fn needs_modules(&self, source: &str) -> bool {
        let has = |name: &str| source.contains(name);
        let mut modules = self.modules.iter().peekable();
        let is_loaded = self.shared.makers.is_empty();
        modules.peek().is_some()
            && (["\\u", "this", "import"].into_iter().any(has)
                || is_loaded && modules.any(|module| has(&module.name)))
    }

    /// Compiles a template without calling it.
    pub(crate) fn check(&self, source: &str) -> Result<(), Thrown> {
        self.timer.begin(SETUP_LIMIT);
        self.shared.compile(source).map(drop)
    }

    /// Runs pending jobs of a script (`Promise`), within its time: none is left for the next request.
    fn run_jobs(&self) {
        while !self.timer.is_over() {
            match self.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => break,
                // An unhandled rejection.
                Err(_) => {}
            }
        }
    }
}

impl Realm {
    fn new(runtime: &Runtime, timer: &Timer) -> Result<Realm, Thrown> {
        let context = Context::full(runtime).map_err(|_| Thrown::memory())?;
        let [wrap_headers, wrap_variables] =
            context.with(|ctx| prelude(&ctx).map_err(|error| thrown(&ctx, error, timer)))?;
        Ok(Realm {
            templates: HashMap::new(),
            wrap_headers,
            wrap_variables,
            makers: Vec::new(),
            context,
            timer: timer.clone(),
        })
    }

    /// Freezes everything that a template can reach and does not make itself.
    fn seal(&self) -> Result<(), Thrown> {
        self.context.with(|ctx| {
            let sealed = ctx.eval::<(), _>(include_str!("seal.js"));
            sealed.map_err(|error| thrown(&ctx, error, &self.timer))
        })
    }

    /// Makers of all these modules; `None` if one of them must be loaded as a module.
    fn makers_of(&self, modules: &Modules) -> Option<Vec<Maker>> {
        let compile = |module: &ScriptModule| {
            let text = maker(module, modules)?;
            self.context.with(|ctx| {
                let mut options = EvalOptions::default();
                options.filename = Some(module.name.to_string());
                let function = ctx.eval_with_options::<Function<'_>, _>(text, options);
                // It must fit the time limit of a value.
                self.timer.begin(TIME_LIMIT / 4);
                let made = function.and_then(|function| {
                    function.call::<_, Value<'_>>(())?;
                    Ok(function)
                });
                if made.is_err() {
                    // The module is loaded where it is needed, and its faults are reported there.
                    let _ = ctx.catch();
                }
                Some(Maker {
                    name: Arc::clone(&module.name),
                    function: Persistent::save(&ctx, made.ok()?),
                })
            })
        };
        modules.iter().map(compile).collect()
    }

    fn load<'m>(&self, wanted: impl Iterator<Item = &'m ScriptModule>) -> Result<(), Thrown> {
        self.context.with(|ctx| {
            for module in wanted {
                let loaded = load(&ctx, module, &self.timer).and_then(|exported| {
                    let set = ctx.globals().set(&*module.name, exported);
                    set.map_err(|error| thrown(&ctx, error, &self.timer))
                });
                loaded.map_err(|thrown| thrown.of(module))?;
            }
            Ok(())
        })
    }

    fn evaluate(&mut self, source: &str, values: &dyn Values) -> Result<String, ScriptError> {
        if !self.templates.contains_key(source) {
            let template = self.compile(source).map_err(|thrown| thrown.failure)?;
            if self.templates.len() >= KEPT_TEMPLATES {
                self.templates.clear();
            }
            self.templates.insert(source.into(), template);
        }
        let Some(template) = self.templates.get(source) else {
            return Err(ScriptError::Memory);
        };
        self.context.with(|ctx| {
            let called = self.call(&ctx, template, values);
            called.map_err(|error| thrown(&ctx, error, &self.timer).failure)
        })
    }

    fn compile(&self, source: &str) -> Result<Template, Thrown> {
        self.context.with(|ctx| {
            let names = self.makers.iter().map(|maker| format!(", {}", maker.name));
            let names: String = names.collect();
            let whole = format!("{HEAD}{names}{HEAD_END}{source}{TAIL}");
            let mut options = EvalOptions::default();
            options.filename = Some("template".to_owned());
            let function: Function<'_> = ctx
                .eval_with_options(whole, options)
                .map_err(|error| thrown(&ctx, error, &self.timer))?;
            Ok(Template {
                function: Persistent::save(&ctx, function),
                uses: Uses::of(source),
                modules: self
                    .makers
                    .iter()
                    .map(|maker| source.contains(&*maker.name))
                    .collect(),
            })
        })
    }

    fn call(
        &self,
        ctx: &Ctx<'_>,
        template: &Template,
        request: &dyn Values,
    ) -> Result<String, Error> {
        let uses = template.uses;
        let function = template.function.clone().restore(ctx)?;
        let mut arguments = Args::new(ctx.clone(), 7 + self.makers.len());
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        arguments.push_arg(uses.uri.then(|| text(request.uri())))?;
        arguments.push_arg(uses.host.then(|| text(request.host())))?;
        arguments.push_arg(uses.remote_address.then(|| text(request.remote_address())))?;
        let args = uses
            .arguments
            .then(|| values::object(ctx, None, |each| request.each_argument(each)))
            .transpose()?;
        let cookies = uses
            .cookies
            .then(|| values::object(ctx, None, |each| request.each_cookie(each)))
            .transpose()?;
        let headers = uses
            .headers
            .then(|| {
                let fields = values::object(ctx, Some(", "), |each| request.each_header(each))?;
                self.wrap_headers
                    .clone()
                    .restore(ctx)?
                    .call::<_, Object<'_>>((fields,))
            })
            .transpose()?;
        let variables = uses
            .variables
            .then(|| {
                let plain = values::object(ctx, None, |each| {
                    request.each_variable(&mut |name, value| each(name.as_bytes(), value));
                })?;
                let response =
                    values::object(ctx, Some(", "), |each| request.each_response_header(each))?;
                let response: Object<'_> =
                    self.wrap_headers.clone().restore(ctx)?.call((response,))?;
                let wrap = self.wrap_variables.clone().restore(ctx)?;
                wrap.call::<_, Object<'_>>((
                    plain,
                    args.clone(),
                    cookies.clone(),
                    headers.clone(),
                    response,
                ))
            })
            .transpose()?;
        arguments.push_arg(args)?;
        arguments.push_arg(cookies)?;
        arguments.push_arg(headers)?;
        arguments.push_arg(variables)?;
        for (maker, is_named) in self.makers.iter().zip(&template.modules) {
            let make = || {
                maker
                    .function
                    .clone()
                    .restore(ctx)?
                    .call::<_, Value<'_>>(())
            };
            arguments.push_arg(is_named.then(make).transpose()?)?;
        }
        let value: rquickjs::String<'_> = arguments.apply(&function)?;
        value.to_string()
    }
}

/// Prepares the global objects; returns the functions that make `headers` and `vars`.
fn prelude(ctx: &Ctx<'_>) -> Result<[Persistent<Function<'static>>; 2], Error> {
    let made: Object<'_> = ctx.eval(include_str!("prelude.js"))?;
    builtin::install(ctx, &made.get("install")?)?;
    let headers: Function<'_> = made.get("headers")?;
    let variables: Function<'_> = made.get("vars")?;
    Ok([headers, variables].map(|function| Persistent::save(ctx, function)))
}

/// Returns the default export of a module.
fn load<'js>(ctx: &Ctx<'js>, module: &ScriptModule, timer: &Timer) -> Result<Value<'js>, Thrown> {
    let caught = |error| thrown(ctx, error, timer);
    let imported = rquickjs::Module::import(ctx, &*module.name).map_err(caught)?;
    let namespace: Object<'_> = imported.finish().map_err(|error| match error {
        // Without memory for it there is no exception either.
        Error::WouldBlock => Thrown::message(&format!(
            "it waits for something that never happens, or needs more than {} MiB of memory",
            MEMORY_LIMIT >> 20
        )),
        error => caught(error),
    })?;
    if !namespace.contains_key("default").map_err(caught)? {
        return Err(Thrown::message(
            "it has no default export, as in `export default {name: function}`",
        ));
    }
    namespace.get("default").map_err(caught)
}

impl Thrown {
    fn memory() -> Thrown {
        Thrown {
            failure: ScriptError::Memory,
            stack: String::new(),
            module: None,
        }
    }

    fn of(self, module: &ScriptModule) -> Thrown {
        let module = Some(Arc::clone(&module.name));
        Thrown { module, ..self }
    }

    fn message(message: &str) -> Thrown {
        Thrown {
            failure: ScriptError::Thrown(message.to_owned()),
            stack: String::new(),
            module: None,
        }
    }
}

/// Takes the exception from the context.
fn thrown(ctx: &Ctx<'_>, error: Error, timer: &Timer) -> Thrown {
    /// The longest reported message; a script may throw anything.
    const LONGEST_MESSAGE: usize = 300;
    let caught = CaughtError::from_error(ctx, error);
    if timer.is_over() {
        return Thrown {
            failure: ScriptError::Time,
            stack: String::new(),
            module: None,
        };
    }
    let (message, stack) = match caught {
        CaughtError::Error(Error::Allocation) => return Thrown::memory(),
        CaughtError::Error(Error::Utf8(_)) => (
            "its value is not text: half of a surrogate pair".to_owned(),
            String::new(),
        ),
        CaughtError::Error(Error::FromJs { .. }) => {
            ("its value is not a string".to_owned(), String::new())
        }
        CaughtError::Error(error) => (error.to_string(), String::new()),
        CaughtError::Exception(exception) => {
            let message = exception.message().unwrap_or_default();
            if message == "out of memory" {
                return Thrown::memory();
            }
            let name: String = exception.as_object().get("name").unwrap_or_default();
            let stack = exception.stack().unwrap_or_default();
            let whole = match (name.is_empty(), message.is_empty()) {
                (false, false) => format!("{name}: {message}"),
                _ => format!("{name}{message}"),
            };
            (whole, stack)
        }
        CaughtError::Value(value) => match value.as_string().map(rquickjs::String::to_string) {
            Some(Ok(text)) => (format!("`{text}` was thrown"), String::new()),
            // JavaScript's `throw null` and the engine's own "no memory for an exception" look the same.
            _ if value.is_null() => return Thrown::memory(),
            _ => (
                format!("a value of type {} was thrown", value.type_name()),
                String::new(),
            ),
        },
    };
    let shown: String = message
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(LONGEST_MESSAGE)
        .collect();
    Thrown {
        failure: ScriptError::Thrown(shown),
        stack,
        module: None,
    }
}
