//! Requests of the server inside Node.js: the library that `preload.js` has Node.js load.
//!
//! The process has the place of its worker in the server (`tutti_relay::line`). Before its event loop sleeps, requests are taken from the queue, and
//! each is given to JavaScript (channel.js) as a text; what JavaScript writes in answer goes into the response ring. So there is neither a
//! socket nor another process between the two, and several requests cost one wake-up.
//!
//! Everything is called in the main thread of Node.js, by its event loop or by JavaScript. Must never happen: a panic that unwinds into
//! Node.js; a request that is taken and forgotten: it is its process's until it is ended, and the router finds it when that dies.

#![cfg_attr(
    test,
    allow(
        dead_code,
        reason = "the tests have no Node.js, whose symbols the bridge needs"
    )
)]

#[cfg(not(test))]
mod bridge;
#[cfg(not(test))]
mod napi;
mod requests;
mod response;
