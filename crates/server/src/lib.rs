//! Accept, HTTP, routing, actions, live snapshot
