//! How many processes an application has, and when they end.

use super::super::{Kind, Object, opt};

/// The most workers a transport segment holds (`spec/wire.md`).
const MAX_PROCESSES: i64 = 4096;

/// `processes`.
pub(super) const PROCESSES_KIND: Kind =
    Kind::OneOf(&[Kind::Integer(1, MAX_PROCESSES), Kind::Object(&PROCESSES)]);

/// `processes` in its long form.
pub static PROCESSES: Object = Object {
    name: "processes",
    summary: "As many processes as are needed, within limits",
    options: &[&[
        opt(
            "max",
            Kind::Integer(1, MAX_PROCESSES),
            "Most processes, busy and idle",
        )
        .default("1")
        .unit("processes"),
        opt(
            "spare",
            Kind::Integer(0, MAX_PROCESSES),
            "Idle processes to keep ready",
        )
        .default("0")
        .unit("processes"),
        opt(
            "idle_timeout",
            Kind::Integer(0, 0x7fff_ffff),
            "Time after which an idle process that is not needed is ended",
        )
        .default("15")
        .unit("seconds"),
    ]],
    exactly_one: &[],
};

/// `limits`.
pub static LIMITS: Object = Object {
    name: "limits",
    summary: "When a process or a request is ended",
    options: &[&[
        opt(
            "requests",
            Kind::Integer(0, i64::MAX),
            "Requests after which a process is replaced; 0: never",
        )
        .default("0")
        .unit("requests"),
        opt(
            "timeout",
            Kind::Integer(0, 0x7fff_ffff),
            "Time a request may take, waiting included; 0: any",
        )
        .default("0")
        .unit("seconds"),
        opt(
            "drain_timeout",
            Kind::Integer(0, 0x7fff_ffff),
            "Time a process that is being replaced or removed may take for the requests it has; 0: any",
        ).beyond()
        .default("60")
        .unit("seconds"),
        opt(
            "start_timeout",
            Kind::Integer(1, 0x7fff_ffff),
            "Time a process may take until it is ready for requests",
        )
        .default("60")
        .unit("seconds"),
        opt(
            "memory",
            Kind::Size(0, i64::MAX),
            "Resident memory beyond which a process is replaced when its request is done; 0: any",
        ).beyond()
        .default("0")
        .unit("bytes"),
        opt(
            "memory_max",
            Kind::Size(0, i64::MAX),
            "Resident memory beyond which a process is killed; twice `memory` unless given, 0: none",
        ).beyond()
        .unit("bytes"),
        opt(
            "shm",
            Kind::Size(0, i64::MAX),
            "shared memory is as large as it has to be, and older versions of NGINX Unit alone limit it",
        )
        .ignored()
        .unit("bytes"),
        opt(
            "queue",
            Kind::Object(&QUEUE),
            "How many requests may wait for a process, and how long",
        ).beyond(),
        opt(
            "concurrency",
            Kind::Integer(1, 65_535),
            "Requests that one event loop has at once; the runtime's own choice unless given",
        ).beyond()
        .unit("requests"),
    ]],
    exactly_one: &[],
};

/// `limits.queue`.
pub static QUEUE: Object = Object {
    name: "queue",
    summary: "How many requests may wait for a process, and how long; others are answered 503 with `Retry-After`",
    options: &[&[
        opt(
            "length",
            Kind::Integer(0, 1_000_000),
            "Requests that may wait",
        )
        .beyond()
        .default("20000")
        .unit("requests"),
        opt(
            "wait",
            Kind::Integer(0, 0x7fff_ffff),
            "Time a request may wait; 0: any",
        )
        .beyond()
        .default("0")
        .unit("seconds"),
    ]],
    exactly_one: &[],
};
