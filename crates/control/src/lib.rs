//! Control API: config, status, control; edit, store, apply
