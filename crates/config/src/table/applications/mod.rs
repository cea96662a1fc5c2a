//! Options of applications: those of all types, and those of each in a file of its own.

mod common;
mod external;
mod isolation;
mod java;
mod perl;
mod php;
mod processes;
mod python;
mod ruby;
mod wasm;

pub(crate) use self::common::COMMON;
use self::java::JAVA;
use self::perl::PERL;
use self::python::PYTHON;
use self::ruby::RUBY;
use self::wasm::{WASI, WASM};
use super::{Object, Support};

pub use self::external::EXTERNAL;
pub use self::isolation::{AUTOMOUNT, CGROUP, ID_MAP, ISOLATION, NAMESPACES};
pub use self::php::{PHP, PHP_OPTIONS, PHP_TARGET};
pub use self::processes::{LIMITS, PROCESSES, QUEUE};
pub use self::python::PYTHON_TARGET;

/// A `type` of applications.
#[derive(Debug)]
pub struct ApplicationType {
    /// First word of `type`.
    pub name: &'static str,
    /// Its options.
    pub object: &'static Object,
    /// Whether a version may follow.
    pub versions: bool,
    /// Whether this version of the server runs it.
    pub support: Support,
}

/// Every type.
pub static TYPES: &[ApplicationType] = &[
    ApplicationType {
        name: "php",
        object: &PHP,
        versions: true,
        support: Support::Now,
    },
    ApplicationType {
        name: "external",
        object: &EXTERNAL,
        versions: false,
        support: Support::Now,
    },
    ApplicationType {
        name: "python",
        object: &PYTHON,
        versions: true,
        support: Support::Now,
    },
    ApplicationType {
        name: "perl",
        object: &PERL,
        versions: true,
        support: Support::Now,
    },
    ApplicationType {
        name: "ruby",
        object: &RUBY,
        versions: true,
        support: Support::Later,
    },
    ApplicationType {
        name: "java",
        object: &JAVA,
        versions: true,
        support: Support::Later,
    },
    ApplicationType {
        name: "wasm",
        object: &WASM,
        versions: false,
        support: Support::Later,
    },
    ApplicationType {
        name: "wasm-wasi-component",
        object: &WASI,
        versions: false,
        support: Support::Later,
    },
];
