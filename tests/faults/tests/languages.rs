//! Rolling changes that fail, under load, in languages other than PHP: nothing is lost, and the reason is told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tutti_faults::{scaled, tell};
use tutti_testkit::{Load, LoadOptions, PATIENCE, Server, ServerOptions, wait_until};

struct Language {
    /// Its name, for the list of costs.
    name: &'static str,
    /// The application's file.
    file: &'static str,
    /// Its content when it works.
    works: &'static str,
    /// How it does not start, each with a word of the reason.
    fails: &'static [(&'static str, &'static str)],
}

const PYTHON: Language = Language {
    name: "Python",
    file: "page.py",
    works: "def application(environ, start):\n    start('200 OK', [('Content-Length', '3')])\n    return [b'ok:']\n",
    fails: &[
        ("raise RuntimeError('no database')\n", "no database"),
        ("def application(:\n", "SyntaxError"),
        ("import os, time\nos.abort()\ntime.sleep(60)\n", "signal 6"),
        ("import os\nos._exit(7)\n", "7"),
        ("application = None\n", "callable"),
    ],
};

const PERL: Language = Language {
    name: "Perl",
    file: "page.psgi",
    works: "sub { [200, ['Content-Length' => 3], ['ok:']] };\n",
    fails: &[
        ("die 'no database';\n", "no database"),
        ("sub {\n", "syntax error"),
        ("kill 'ABRT', $$; sleep 60;\n", "signal 6"),
        ("require POSIX; POSIX::_exit(7);\n", "7"),
        ("42;\n", "page.psgi"),
    ],
};

const RUBY: Language = Language {
    name: "Ruby",
    file: "page.ru",
    works: "run ->(_) { [200, {'content-length' => '3'}, ['ok:']] }\n",
    fails: &[
        ("raise 'no database'\n", "no database"),
        ("run(\n", "syntax error"),
        ("Process.kill('ABRT', Process.pid)\nsleep\n", "signal 6"),
        ("exit! 7\n", "7"),
        ("run 42\n", "respond to `call`"),
    ],
};

impl Language {
    fn application(&self, server: &Server, generation: usize) -> Value {
        let folder = server.folder().join("site");
        let mut application = json!({
            "processes": 3, "environment": {"GENERATION": generation.to_string()}
        });
        if self.name == "Python" {
            application["type"] = json!("python");
            application["path"] = json!(folder);
            application["module"] = json!("page");
        } else {
            application["type"] = json!(self.name.to_lowercase());
            application["script"] = json!(folder.join(self.file));
        }
        application
    }

    /// Failing restarts and failing changes while requests run; then ones that succeed.
    fn fails_without_loss(&self) {
        let server = Server::start(&ServerOptions::default());
        let write = |text: &str| server.write(&format!("site/{}", self.file), text);
        write(self.works);
        server.put(
            "/config",
            &json!({
                "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "applications/site"}},
                "applications": {"site": self.application(&server, 0)},
            }),
        );
        let mut options = LoadOptions::get(server.address(), "/", 8);
        options.expect = |body| body == b"ok:";
        let load = Load::start(&options);
        let before = server.wait_for_workers("site", 3);
        let mut generation = 0;
        for _ in 0..scaled(1, 10) {
            for (text, reason) in self.fails {
                write(text);
                generation += 1;
                let changed = self.application(&server, generation);
                let path = "/control/applications/site/restart";
                for reply in [
                    server.call("GET", path, &Value::Null),
                    server.call("PUT", "/config/applications/site", &changed),
                ] {
                    let told = reply.text();
                    assert_eq!(reply.status, 500, "{text}: {told}");
                    assert!(
                        told.contains(reason) && told.contains("/applications/site"),
                        "{text}: {told}"
                    );
                    assert!(load.wait_for_answers(10, PATIENCE));
                }
                // One that did not start may still be leaving.
                wait_until(&format!("the workers of before alone: {text}"), || {
                    server.workers("site") == before
                });
            }
        }
        write(self.works);
        for _ in 0..scaled(2, 20) {
            let old = server.workers("site");
            generation += 1;
            server.put(
                "/config/applications/site",
                &self.application(&server, generation),
            );
            assert!(load.wait_for_answers(10, PATIENCE));
            wait_until("the old ones leave", || {
                let now = server.workers("site");
                now.len() == 3 && now.iter().all(|pid| !old.contains(pid))
            });
        }
        let outcome = load.stop();
        let changes = 2 * self.fails.len() * scaled(1, 10);
        tell(
            &format!("{changes} changes of {} that fail", self.name),
            &outcome,
        );
        assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    }
}

#[test]
fn changes_of_python_that_fail_lose_nothing() {
    PYTHON.fails_without_loss();
}

#[test]
fn changes_of_perl_that_fail_lose_nothing() {
    PERL.fails_without_loss();
}

#[test]
fn changes_of_ruby_that_fail_lose_nothing() {
    RUBY.fails_without_loss();
}
