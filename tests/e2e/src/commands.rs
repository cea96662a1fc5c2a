//! A server with an application whose commands are looked at: mules, and those of schedules. It gets no requests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use tutti_testkit::{Server, ServerOptions, processes, wait_until};

/// The server, and a folder that its application's user may write in.
pub struct Site {
    /// The server.
    pub server: Server,
}

impl Site {
    /// Starts it with these mules; the application's workers are never started.
    pub fn start(mules: &Value, options: &ServerOptions) -> Site {
        let site = Site::empty(options);
        site.server.put("/config", &site.configuration(mules));
        site
    }

    /// The same without a configuration.
    pub fn empty(options: &ServerOptions) -> Site {
        let site = Site {
            server: Server::start(options),
        };
        site.server.write("work/.there", "");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(site.work(), open).unwrap();
        site
    }

    /// The configuration with these mules.
    pub fn configuration(&self, mules: &Value) -> Value {
        json!({"applications": {"app": self.application(mules)}})
    }

    /// The application with these mules.
    pub fn application(&self, mules: &Value) -> Value {
        json!({
            "type": "external", "executable": "/bin/true", "processes": {"max": 1, "spare": 0},
            "working_directory": self.work(), "environment": {"A": "application", "B": "application"},
            "mules": mules
        })
    }

    /// The folder that its commands run in.
    pub fn work(&self) -> PathBuf {
        self.server.folder().join("work")
    }

    /// The lines of a file there.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.work().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until a file there has so many lines.
    pub fn wait_for_lines(&self, name: &str, count: usize) -> Vec<String> {
        wait_until(&format!("{count} lines of {name}"), || {
            self.lines(name).len() >= count
        });
        self.lines(name)
    }

    /// The state of a mule.
    pub fn mule(&self, name: &str) -> Value {
        self.server
            .status(&format!("/applications/app/mules/{name}"))
    }

    /// Waits until so many processes of a mule run; their numbers.
    pub fn pids(&self, name: &str, count: usize) -> Vec<i32> {
        let mut pids = Vec::new();
        wait_until(&format!("{count} processes of {name}"), || {
            let mule = self.mule(name);
            let all = mule["pids"].as_array().cloned().unwrap_or_default();
            pids = all
                .iter()
                .filter_map(Value::as_i64)
                .map(|pid| pid as i32)
                .collect();
            pids.len() == count && mule["processes"]["running"] == json!(count)
        });
        pids
    }

    /// Waits for the only process of a mule.
    pub fn pid(&self, name: &str) -> i32 {
        self.pids(name, 1)[0]
    }

    /// Waits for a process of a mule that is not this one.
    pub fn other_pid(&self, name: &str, before: i32) -> i32 {
        wait_until("another process", || {
            self.mule(name)["pids"].as_array().is_some_and(|pids| {
                pids.first()
                    .and_then(Value::as_i64)
                    .is_some_and(|pid| pid as i32 != before)
            })
        });
        self.pid(name)
    }
}

/// A mule that runs this script with the system's shell.
pub fn shell(script: &str) -> Value {
    json!({"command": ["sh", "-c", script]})
}

/// A mule that does nothing until it is stopped.
pub fn sleeper() -> Value {
    json!({"command": ["sleep", "100000"]})
}

/// Waits until a process has ended.
pub fn wait_for_end(pid: i32) {
    wait_until(&format!("the end of process {pid}"), || {
        !processes::is_running(pid)
    });
}
