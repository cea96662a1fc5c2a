//! A runtime with one context: modules loaded, templates compiled when first needed.

use std::collections::HashMap;
use std::sync::Arc;

use rquickjs::context::EvalOptions;
use rquickjs::function::Args;
use rquickjs::{CaughtError, Context, Ctx, Error, Function, Object, Persistent, Runtime, Value};

use crate::builtin;
use crate::failure::Failure;
use crate::limits::{MEMORY_LIMIT, SETUP_LIMIT, STACK_LIMIT, TIME_LIMIT, Timer};
use crate::modules::{Module, Modules, Others};
use crate::values::{self, Uses, Values};

/// The lines that stand before a template's own when it is compiled.
const HEAD: &str = "(function (uri, host, remoteAddr, args, cookies, headers, vars) { return (\n";
const TAIL: &str = "\n); })";

/// Lines of [`HEAD`].
pub(crate) const HEAD_LINES: usize = 1;

/// Templates kept compiled. A configuration has a few; only a server whose configuration changes all day gets so far.
const KEPT_TEMPLATES: usize = 10_000;

/// The engine of one thread for one set of modules.
pub(crate) struct Engine {
    modules: Modules,
    timer: Timer,
    // Values before the context, the context before the runtime: dropped in this order.
    templates: HashMap<Box<str>, Template>,
    wrap_headers: Persistent<Function<'static>>,
    wrap_variables: Persistent<Function<'static>>,
    context: Context,
    runtime: Runtime,
}

struct Template {
    function: Persistent<Function<'static>>,
    uses: Uses,
}

/// Puts an error of the engine into words.
pub(crate) struct Thrown {
    pub(crate) failure: Failure,
    /// The calls that led there: `at name (file:line:column)`, innermost first.
    pub(crate) stack: String,
    /// The module that was being loaded.
    pub(crate) module: Option<Arc<str>>,
}

impl Engine {
    /// A new context with these modules loaded.
    pub(crate) fn new(modules: &Modules) -> Result<Engine, Failure> {
        let all = modules.iter();
        Engine::with(modules, all).map_err(|thrown| thrown.failure)
    }

    /// A new context with `wanted` loaded, and those of `modules` that they import.
    pub(crate) fn with<'m>(
        modules: &Modules,
        wanted: impl Iterator<Item = &'m Module>,
    ) -> Result<Engine, Thrown> {
        let runtime = Runtime::new().map_err(|_| Thrown::memory())?;
        runtime.set_memory_limit(MEMORY_LIMIT);
        runtime.set_max_stack_size(STACK_LIMIT);
        let timer = Timer::install(&runtime);
        timer.begin(SETUP_LIMIT);
        let others = Others(modules.clone());
        runtime.set_loader(others.clone(), others);
        let context = Context::full(&runtime).map_err(|_| Thrown::memory())?;
        let (wrap_headers, wrap_variables) = context.with(|ctx| {
            let wrappers = prelude(&ctx).map_err(|error| thrown(&ctx, error, &timer))?;
            for module in wanted {
                let loaded = load(&ctx, module, &timer).and_then(|exported| {
                    let set = ctx.globals().set(&*module.name, exported);
                    set.map_err(|error| thrown(&ctx, error, &timer))
                });
                loaded.map_err(|thrown| thrown.of(module))?;
            }
            Ok(wrappers)
        })?;
        let engine = Engine {
            modules: modules.clone(),
            timer,
            templates: HashMap::new(),
            wrap_headers,
            wrap_variables,
            context,
            runtime,
        };
        engine.run_jobs();
        Ok(engine)
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
    ) -> Result<(), Failure> {
        self.timer.begin(TIME_LIMIT);
        if !self.templates.contains_key(source) {
            let template = self.compile(source).map_err(|thrown| thrown.failure)?;
            if self.templates.len() >= KEPT_TEMPLATES {
                self.templates.clear();
            }
            self.templates.insert(source.into(), template);
        }
        let Some(template) = self.templates.get(source) else {
            return Err(Failure::Memory);
        };
        let evaluated = self.context.with(|ctx| {
            let called = self.call(&ctx, template, values);
            called.map_err(|error| thrown(&ctx, error, &self.timer).failure)
        });
        self.run_jobs();
        out.extend_from_slice(evaluated?.as_bytes());
        Ok(())
    }

    /// Compiles a template; whether it can be called is another question.
    pub(crate) fn check(&self, source: &str) -> Result<(), Thrown> {
        self.timer.begin(SETUP_LIMIT);
        self.compile(source).map(drop)
    }

    fn compile(&self, source: &str) -> Result<Template, Thrown> {
        self.context.with(|ctx| {
            let whole = format!("{HEAD}{source}{TAIL}");
            let mut options = EvalOptions::default();
            options.filename = Some("template".to_owned());
            let function: Function<'_> = ctx
                .eval_with_options(whole, options)
                .map_err(|error| thrown(&ctx, error, &self.timer))?;
            Ok(Template {
                function: Persistent::save(&ctx, function),
                uses: Uses::of(source),
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
        let mut arguments = Args::new(ctx.clone(), 7);
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
        let value: rquickjs::String<'_> = arguments.apply(&function)?;
        value.to_string()
    }

    /// Runs the jobs that a script has left for later (`Promise`), within its time: nothing is carried to the next request.
    fn run_jobs(&self) {
        while !self.timer.is_over() {
            match self.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => break,
                // An exception nobody waits for.
                Err(_) => {}
            }
        }
    }
}

/// Prepares the global objects; returns what makes `headers` and `vars`.
fn prelude(
    ctx: &Ctx<'_>,
) -> Result<(Persistent<Function<'static>>, Persistent<Function<'static>>), Error> {
    let made: Object<'_> = ctx.eval(include_str!("prelude.js"))?;
    builtin::install(ctx, &made.get("install")?)?;
    let headers: Function<'_> = made.get("headers")?;
    let variables: Function<'_> = made.get("vars")?;
    Ok((
        Persistent::save(ctx, headers),
        Persistent::save(ctx, variables),
    ))
}

/// Returns the default export of a module.
fn load<'js>(ctx: &Ctx<'js>, module: &Module, timer: &Timer) -> Result<Value<'js>, Thrown> {
    let caught = |error| thrown(ctx, error, timer);
    let imported = rquickjs::Module::import(ctx, &*module.name).map_err(caught)?;
    let namespace: Object<'_> = imported.finish().map_err(|error| match error {
        // Without memory for it there is no exception either.
        Error::WouldBlock => Thrown::message(&format!(
            "it waits for something that never happens, or needed more than {} MiB of memory",
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
            failure: Failure::Memory,
            stack: String::new(),
            module: None,
        }
    }

    fn of(self, module: &Module) -> Thrown {
        let module = Some(Arc::clone(&module.name));
        Thrown { module, ..self }
    }

    fn message(message: &str) -> Thrown {
        Thrown {
            failure: Failure::Thrown(message.to_owned()),
            stack: String::new(),
            module: None,
        }
    }
}

/// Takes the exception out of the context.
fn thrown(ctx: &Ctx<'_>, error: Error, timer: &Timer) -> Thrown {
    /// Longest message told; a script may throw anything.
    const TOLD: usize = 300;
    let caught = CaughtError::from_error(ctx, error);
    if timer.is_over() {
        return Thrown {
            failure: Failure::Time,
            stack: String::new(),
            module: None,
        };
    }
    let (message, stack) = match caught {
        CaughtError::Error(Error::Allocation) => return Thrown::memory(),
        CaughtError::Error(Error::Utf8(_)) => (
            "its value is no text: half of a surrogate pair".to_owned(),
            String::new(),
        ),
        CaughtError::Error(Error::FromJs { .. }) => {
            ("its value is no string".to_owned(), String::new())
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
        .take(TOLD)
        .collect();
    Thrown {
        failure: Failure::Thrown(shown),
        stack,
        module: None,
    }
}
