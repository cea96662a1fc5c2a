//! Compiled patterns, variables, targets: a request to an action
