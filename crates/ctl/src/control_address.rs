//! Access to the server: the arguments, and the default address.

use std::path::PathBuf;

use clap::Args;
use tutti_sys::listen::SocketName;

/// The arguments for access to the server.
#[derive(Args, Clone)]
pub(super) struct ControlArguments {
    /// Control socket of the server: `unix:PATH` or `ADDRESS:PORT`
    #[arg(long, value_name = "ADDRESS", env = "TUTTI_CONTROL")]
    pub(super) control: Option<String>,

    /// File with the secret of the server's `--control-token`
    #[arg(long, value_name = "FILE", env = "TUTTI_CONTROL_TOKEN")]
    pub(super) control_token: Option<PathBuf>,
}

/// The default control sockets, tried in order: that of a server started by root, then that of this user.
pub(super) fn default_sockets() -> Vec<PathBuf> {
    let mut sockets = vec![
        PathBuf::from("/run/tutti/control.sock"),
        PathBuf::from("/var/run/control.unit.sock"),
    ];
    if let SocketName::Path(own) = tutti_main::flags::default_control() {
        sockets.insert(0, own);
    }
    sockets
}
