//! Application processes: spawn, scale, lease, restart, recycle
