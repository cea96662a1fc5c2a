//! WebAssembly: modules and components.

use std::path::PathBuf;

use crate::application::{Application, Common};
use crate::table::Support;
use crate::{Options, options};

options! {
    /// The parts of the system that a WebAssembly application may use
    pub struct Access: ACCESS = "wasm access" {
        /// Folders
        filesystem: Vec<PathBuf> [],
    }
}

options! {
    /// A WebAssembly module
    pub struct Wasm: WASM = "wasm", beside [Common::ROWS] {
        /// The .wasm file
        module: PathBuf [required()],
        /// Function that handles a request
        request_handler: String [required()],
        /// Function that allocates memory
        malloc_handler: String [required()],
        /// Function that frees it
        free_handler: String [required()],
        /// Function called at start
        module_init_handler: Option<String> [],
        /// Function called at the end
        module_end_handler: Option<String> [],
        /// Function called before a request
        request_init_handler: Option<String> [],
        /// Function called when a request has been received
        request_end_handler: Option<String> [],
        /// Function called when a response has been sent
        response_end_handler: Option<String> [],
        /// The parts of the system that it may use
        access: Access [],
    }
}

options! {
    /// A WebAssembly component (wasi:http)
    pub struct Wasi: WASI = "wasm-wasi-component", beside [Common::ROWS] {
        /// The .wasm file
        component: PathBuf [required()],
        /// The parts of the system that it may use
        access: Access [],
    }
}

impl Application for Wasm {
    const HAS_VERSIONS: bool = false;
    const SUPPORT: Support = Support::Later;

    fn watched(&self) -> Vec<PathBuf> {
        vec![self.module.clone()]
    }
}

impl Application for Wasi {
    const HAS_VERSIONS: bool = false;
    const SUPPORT: Support = Support::Later;

    fn watched(&self) -> Vec<PathBuf> {
        vec![self.component.clone()]
    }
}
