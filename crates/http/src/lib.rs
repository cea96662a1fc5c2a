//! HTTP/1 heads, body framing, limits: no I/O
