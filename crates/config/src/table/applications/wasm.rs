//! WebAssembly: modules and components.

use super::super::{Kind, Object, Opt, Text, opt};
use super::common::COMMON;

const WASM_ACCESS: Opt = opt("access", Kind::Object(&ACCESS), "What it may use");

static ACCESS: Object = Object {
    name: "wasm access",
    summary: "What a WebAssembly application may use",
    options: &[&[opt(
        "filesystem",
        Kind::Array(&Kind::String(Text::Path)),
        "Folders",
    )]],
    exactly_one: &[],
};

pub(super) static WASM: Object = Object {
    name: "wasm",
    summary: "A WebAssembly module",
    options: &[
        COMMON,
        &[
            opt("module", Kind::String(Text::Path), "The .wasm file").required(),
            opt(
                "request_handler",
                Kind::String(Text::NotEmpty),
                "Function that handles a request",
            )
            .required(),
            opt(
                "malloc_handler",
                Kind::String(Text::NotEmpty),
                "Function that allocates memory",
            )
            .required(),
            opt(
                "free_handler",
                Kind::String(Text::NotEmpty),
                "Function that frees it",
            )
            .required(),
            opt(
                "module_init_handler",
                Kind::String(Text::NotEmpty),
                "Function called at start",
            ),
            opt(
                "module_end_handler",
                Kind::String(Text::NotEmpty),
                "Function called at the end",
            ),
            opt(
                "request_init_handler",
                Kind::String(Text::NotEmpty),
                "Function called before a request",
            ),
            opt(
                "request_end_handler",
                Kind::String(Text::NotEmpty),
                "Function called when a request has been received",
            ),
            opt(
                "response_end_handler",
                Kind::String(Text::NotEmpty),
                "Function called when a response has been sent",
            ),
            WASM_ACCESS,
        ],
    ],
    exactly_one: &[],
};

pub(super) static WASI: Object = Object {
    name: "wasm-wasi-component",
    summary: "A WebAssembly component (wasi:http)",
    options: &[
        COMMON,
        &[
            opt("component", Kind::String(Text::Path), "The .wasm file").required(),
            WASM_ACCESS,
        ],
    ],
    exactly_one: &[],
};
