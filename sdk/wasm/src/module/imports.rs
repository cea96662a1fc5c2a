//! The functions that the server gives to modules, by the names that the header of Unit's SDK has (`unit/unit-wasm.h`), and WASI preview 1.
//!
//! A fault ends the instance. What must never happen: a module that ends its process with what it says.

use bytes::Bytes;
use wasmtime::{Caller, Linker};
use wasmtime_wasi::p1;

use super::shared::{self, ROOM, SIZE};
use super::state::{Misuse, State};

/// The module's name of the server.
const SERVER: &str = "env";

/// The memory that the module shares, and its state.
fn shared<'c>(caller: &'c mut Caller<'_, State>) -> Result<(&'c [u8], &'c mut State), Misuse> {
    let memory = caller.data().memory.ok_or(Misuse::NoRequest)?;
    let (bytes, state) = memory.data_and_store_mut(caller);
    let start = state.shared as usize;
    let bytes = bytes.get(start..start + SIZE as usize);
    Ok((bytes.ok_or(Misuse::NoRequest)?, state))
}

/// Gives them to modules.
pub(super) fn add(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    p1::add_to_linker_async(linker, |state: &mut State| &mut state.wasi)?;
    linker.func_wrap(SERVER, "nxt_wasm_get_init_mem_size", || ROOM)?;
    linker.func_wrap(
        SERVER,
        "nxt_wasm_set_resp_status",
        |mut caller: Caller<'_, State>, status: u32| -> wasmtime::Result<()> {
            Ok(caller.data_mut().turn()?.set_status(status)?)
        },
    )?;
    linker.func_wrap(
        SERVER,
        "nxt_wasm_send_headers",
        |mut caller: Caller<'_, State>, offset: u32| -> wasmtime::Result<()> {
            let (shared, state) = shared(&mut caller)?;
            let turn = state.turn()?;
            let fields = shared::fields(shared, offset).map_err(Misuse::from)?;
            Ok(turn.begin(&fields)?)
        },
    )?;
    linker.func_wrap_async(
        SERVER,
        "nxt_wasm_send_response",
        |mut caller: Caller<'_, State>, (offset,): (u32,)| {
            Box::new(async move {
                let (shared, state) = shared(&mut caller)?;
                let pieces = state.turn()?.pieces()?;
                let content = shared::content(shared, offset).map_err(Misuse::from)?;
                if !content.is_empty() {
                    // The client has gone, and the module goes on.
                    let _ = pieces.send(Ok(Bytes::copy_from_slice(content))).await;
                }
                wasmtime::Result::Ok(())
            })
        },
    )?;
    linker.func_wrap(
        SERVER,
        "nxt_wasm_response_end",
        |mut caller: Caller<'_, State>| -> wasmtime::Result<()> {
            Ok(caller.data_mut().turn()?.end()?)
        },
    )?;
    Ok(())
}
