//! Wasmtime's configuration: how code is compiled, and the pool that instances come from.

use std::num::NonZeroUsize;

use wasmtime::{Config, Engine, PoolingAllocationConfig, ResourcesRequired, WasmBacktraceDetails};

use crate::settings::Settings;

/// The most functions of a backtrace that are logged.
const MOST_FRAMES: usize = 20;

/// Core instances that a component may consist of: those of Python and JavaScript have some twenty.
const MOST_CORE_INSTANCES: u32 = 1000;

/// Bytes of the runtime's own data for an instance: of a component with the tables of a large interpreter, some 2 MiB.
const MOST_METADATA: usize = 32 << 20;

/// Entries of a table that an instance may have, at least; wasmtime's own default.
const TABLE: usize = 20_000;

/// Bytes at the start of an instance's memory, and of its stack, that are written over for the next instance: what lies beyond is given back to
/// the kernel, at the price of a system call and of a fault for each page that is used again.
const KEPT: usize = 64 << 10;

/// The engine that compiles: the code fits the engine that [`pooling`] makes.
pub(crate) fn compiling() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

/// The engine that serves, with room for the instances of a worker.
pub(crate) fn pooling(settings: &Settings, needed: &ResourcesRequired) -> wasmtime::Result<Engine> {
    // One more, for the trial at the start.
    let instances = settings.concurrency.saturating_add(1);
    let memories = needed.num_memories.max(1);
    let tables = needed.num_tables.max(1);
    let table = needed.max_initial_table_size.unwrap_or(0);
    let table = usize::try_from(table)
        .unwrap_or(TABLE)
        .saturating_mul(2)
        .max(TABLE);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(MOST_CORE_INSTANCES))
        .total_memories(instances.saturating_mul(memories))
        .total_tables(instances.saturating_mul(tables))
        .total_stacks(instances)
        .max_core_instances_per_component(MOST_CORE_INSTANCES)
        .max_memories_per_component(memories)
        .max_tables_per_component(tables)
        .max_memories_per_module(memories)
        .max_tables_per_module(tables)
        .max_component_instance_size(MOST_METADATA)
        .max_core_instance_size(MOST_METADATA)
        .max_memory_size(settings.memory)
        .table_elements(table)
        .linear_memory_keep_resident(KEPT)
        .async_stack_keep_resident(KEPT)
        .table_keep_resident(KEPT);
    let mut config = config();
    config.allocation_strategy(pool);
    Engine::new(&config)
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .epoch_interruption(true)
        .parallel_compilation(true)
        // For the compiler's own developers; it would be on where this program is built without optimisation.
        .cranelift_debug_verifier(false)
        .wasm_backtrace_details(WasmBacktraceDetails::Enable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(MOST_FRAMES));
    config
}
