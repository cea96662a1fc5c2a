//! Router-worker protocol: shared-memory layout, queues, codec
