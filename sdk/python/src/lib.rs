//! Python language host: runs WSGI and ASGI applications in the processes that the router asks for.
//!
//! `lifecycle` starts the interpreter and imports the application; `wsgi` and `asgi` are the two interfaces, each with a
//! `request` and a `response` side; `host` puts them on the worker base. Nothing on a request's way is written in Python.
//! Must never happen: a request without exactly one answer, the interpreter touched without being attached to it, an
//! exception that is not reported.

mod asgi;
mod forked;
pub mod host;
mod interpreter;
mod lifecycle;
mod link;
mod log;
mod options;
mod position;
mod text;
mod wsgi;
