//! The njs modules that a user's module may import: those that compute. Those with access to the outside are refused by name.
//!
//! Written in JavaScript on a few native functions; loaded on demand. A user's module with the same name takes precedence.

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use rquickjs::module::{Declarations, Declared, Exports, ModuleDef};
use rquickjs::{Ctx, Exception, Function, Module, Object, Result, TypedArray};
use sha1::Sha1;
use sha2::Sha256;

/// Name and text of each. They are loaded under names that begin with [`PREFIX`], which no user's module has.
const PROVIDED: [(&str, &str); 3] = [
    ("buffer", include_str!("builtin/buffer.js")),
    ("crypto", include_str!("builtin/crypto.js")),
    ("querystring", include_str!("builtin/querystring.js")),
];

/// Other njs modules, and why they are not provided.
const REFUSED: [(&str, &str); 3] = [
    ("fs", "scripts of the configuration reach no files"),
    ("xml", "parsing XML is the work of an application"),
    ("zlib", "compression is the server's own (`compression`)"),
];

const PREFIX: &str = "njs:";
const NATIVE: &str = "tutti:native";

/// Most bytes for a digest: it cannot be interrupted, and this many are well within [`TIME_LIMIT`](crate::TIME_LIMIT).
const LONGEST_DIGESTED: usize = 256 << 10;

/// Returns the name under which an import of `name` by `base` is loaded, if it is one of these modules.
///
/// # Errors
/// It is an njs module that is not provided.
pub(crate) fn resolve(base: &str, name: &str) -> std::result::Result<Option<String>, String> {
    // Requested by the getter of `Buffer`, on behalf of the module that reads it.
    let is_buffer = name.strip_prefix(PREFIX) == Some("buffer");
    if is_buffer || (name == NATIVE && base.starts_with(PREFIX)) {
        return Ok(Some(name.to_owned()));
    }
    if PROVIDED.iter().any(|(known, _)| *known == name) {
        return Ok(Some(format!("{PREFIX}{name}")));
    }
    match REFUSED.iter().find(|(known, _)| *known == name) {
        Some((_, reason)) => Err(format!(
            "`{base}` imports `{name}`, a module of njs that is not provided: {reason}"
        )),
        None => Ok(None),
    }
}

/// Declares the module with a name from [`resolve`]; `None` for any other.
pub(crate) fn load<'js>(ctx: &Ctx<'js>, name: &str) -> Option<Result<Module<'js, Declared>>> {
    if name == NATIVE {
        return Some(Module::declare_def::<Native, _>(ctx.clone(), name));
    }
    let plain = name.strip_prefix(PREFIX)?;
    let (_, source) = PROVIDED.iter().find(|(known, _)| *known == plain)?;
    Some(Module::declare(ctx.clone(), name, *source))
}

/// Defines `Buffer`, which njs has without an import. `define` assigns it.
pub(crate) fn install<'js>(ctx: &Ctx<'js>, define: &Function<'js>) -> Result<()> {
    define.call((Function::new(ctx.clone(), buffer)?,))
}

/// The exports of the module `buffer`.
fn buffer<'js>(ctx: Ctx<'js>) -> Result<Object<'js>> {
    let name = format!("{PREFIX}buffer");
    let namespace: Object<'js> = Module::import(&ctx, name)?.finish()?;
    namespace.get("default")
}

/// The native functions for the modules.
struct Native;

impl ModuleDef for Native {
    fn declare(declarations: &Declarations<'_>) -> Result<()> {
        for name in ["encodeText", "decodeText", "digest", "keyedDigest"] {
            declarations.declare(name)?;
        }
        Ok(())
    }

    fn evaluate<'js>(ctx: &Ctx<'js>, exports: &Exports<'js>) -> Result<()> {
        exports.export("encodeText", Function::new(ctx.clone(), encode_text)?)?;
        exports.export("decodeText", Function::new(ctx.clone(), decode_text)?)?;
        exports.export("digest", Function::new(ctx.clone(), digest)?)?;
        exports.export("keyedDigest", Function::new(ctx.clone(), keyed_digest)?)?;
        Ok(())
    }
}

fn encode_text<'js>(ctx: Ctx<'js>, text: String) -> Result<TypedArray<'js, u8>> {
    TypedArray::new(ctx, text)
}

fn decode_text(bytes: String) -> String {
    String::from_utf8_lossy(&of_latin1(&bytes)).into_owned()
}

/// Bytes are passed as strings of the characters 0 to 255: reading an array of the engine in place is unsafe, because scripts may change
/// it.
fn of_latin1(text: &str) -> Vec<u8> {
    text.chars()
        .map(|letter| u8::try_from(u32::from(letter)).unwrap_or_default())
        .collect()
}

/// Returns the bytes, unless they are too many.
fn bounded(ctx: &Ctx<'_>, text: &str) -> Result<Vec<u8>> {
    let bytes = of_latin1(text);
    match bytes.len() {
        0..=LONGEST_DIGESTED => Ok(bytes),
        _ => Err(Exception::throw_range(
            ctx,
            "digest() has too much to do: more than 256 KiB",
        )),
    }
}

fn digest<'js>(ctx: Ctx<'js>, algorithm: String, data: String) -> Result<TypedArray<'js, u8>> {
    let data = bounded(&ctx, &data)?;
    let made = match algorithm.as_str() {
        "md5" => Md5::digest(data).to_vec(),
        "sha1" => Sha1::digest(data).to_vec(),
        _ => Sha256::digest(data).to_vec(),
    };
    TypedArray::new(ctx, made)
}

fn keyed_digest<'js>(
    ctx: Ctx<'js>,
    algorithm: String,
    key: String,
    data: String,
) -> Result<TypedArray<'js, u8>> {
    let (key, data) = (bounded(&ctx, &key)?, bounded(&ctx, &data)?);
    let made = match algorithm.as_str() {
        "md5" => keyed::<Hmac<Md5>>(&key, &data),
        "sha1" => keyed::<Hmac<Sha1>>(&key, &data),
        _ => keyed::<Hmac<Sha256>>(&key, &data),
    };
    TypedArray::new(ctx, made)
}

/// RFC 2104; a key may have any length.
fn keyed<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    match <M as KeyInit>::new_from_slice(key) {
        Ok(mut mac) => {
            mac.update(data);
            mac.finalize().into_bytes().to_vec()
        }
        Err(_) => Vec::new(),
    }
}
