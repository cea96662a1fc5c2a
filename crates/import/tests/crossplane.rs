//! nginx's grammar compared with another reader of it: PyPI's crossplane. Skipped, with a message, where it is not
//! installed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::process::Command;

use serde_json::{Value, json};
use tutti_import::{Statement, parse_nginx};

/// Texts that are easy to read in two ways.
const TEXTS: &[&str] = &[
    "a;",
    "a b c;",
    "a 'b c' \"d e\";",
    "a {}",
    "a b { c d; }",
    "a { b { c; } d; }",
    "# only a comment\n",
    "a; # behind\nb;",
    "a # in between\n b;",
    "a b#c;",
    "a '#' ;",
    "location ~ \\.php$ { root /a; }",
    "location ~* ^/(?:a|b)/.*\\.(?:css|js)$ { expires 1d; }",
    "location = / { return 200; }",
    "rewrite ^/([a-z]+)/$ /$1?x=y last;",
    "rewrite \"^/x{2}$\" /y break;",
    "set $a \"b ${c} d\";",
    "proxy_set_header X \"\";",
    "log_format m '$remote_addr - \"$request\" '\n  '$status';",
    "if ($host = 'a b') { return 301 https://$host$request_uri; }",
    "if ($http_user_agent ~* \"(bot|spider)\") { return 403; }",
    "if (!-e $request_filename) { rewrite ^ /index.php last; }",
    "map $http_upgrade $c { default upgrade; '' close; }",
    "map $uri $x {\n  ~^/a(?<n>.*)$ $n;\n  /b 'c d';\n}",
    "a \t b\r\n\tc;\r\n",
    "a\nb\nc;",
    "a \"line\nbreak\";\nb;",
    "server_name ~^(?<sub>.+)\\.example\\.com$;",
    "try_files $uri $uri/ /index.php?$args;",
    "add_header A \"b; c=d\" always;",
    "a;b;c{d;e{f;}}g;",
    "types { text/html html htm; image/svg+xml svg svgz; }",
    "return 200 '{\"a\": 1}';",
    "a ${b}c;",
    "a \u{e4}\u{f6} '\u{20ac}';",
    "upstream u { server unix:/a b=1 c; server 127.0.0.1:80; }",
];

const SCRIPT: &str = r"
import json, sys, tempfile, os
import crossplane

def tree(statements):
    made = []
    for statement in statements:
        if statement['directive'] == '#':
            continue
        words = [statement['directive'], *statement['args']]
        if statement['directive'] == 'if':
            words = ['if']
        made.append([statement['line'], words, tree(statement['block']) if 'block' in statement else None])
    return made

answers = []
for text in json.load(sys.stdin):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'a.conf')
        with open(path, 'w', newline='') as file:
            file.write(text)
        payload = crossplane.parse(path, single=True, strict=False, check_ctx=False, check_args=False)
        config = payload['config'][0]
        answers.append(None if config['errors'] else tree(config['parsed']))
print(json.dumps(answers))
";

fn tree(statements: &[Statement]) -> Value {
    let each = statements.iter().map(|statement| {
        // crossplane takes the parentheses of a condition away.
        let is_if = statement.words.first().is_some_and(|name| name == "if");
        let words = if is_if {
            vec!["if".to_owned()]
        } else {
            statement.words.clone()
        };
        json!([
            statement.line(),
            words,
            statement.block.as_deref().map(tree)
        ])
    });
    each.collect()
}

/// A Python that has crossplane: one that is named, or an environment that is made once below the target folder.
fn python() -> Option<String> {
    let works = |python: &str| {
        let asked = Command::new(python)
            .args(["-c", "import crossplane"])
            .output();
        asked.is_ok_and(|answer| answer.status.success())
    };
    if works("python3") {
        return Some("python3".to_owned());
    }
    let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/crossplane");
    let python = format!("{folder}/bin/python");
    if !works(&python) {
        let _ = Command::new("python3")
            .args(["-m", "venv", folder])
            .output();
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "crossplane==0.5.8",
        ];
        let _ = Command::new(&python).args(pip).output();
    }
    works(&python).then_some(python)
}

#[test]
fn crossplane_reads_the_same() {
    use std::io::Write;
    use std::process::Stdio;
    let Some(python) = python() else {
        tutti_testkit::skip!("crossplane cannot be installed from PyPI");
    };
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let texts = serde_json::to_vec(TEXTS).unwrap();
    child.stdin.take().unwrap().write_all(&texts).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let answers: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    for (text, theirs) in TEXTS.iter().zip(answers) {
        let ours = parse_nginx("a.conf", text).map_or(Value::Null, |statements| tree(&statements));
        assert_eq!(ours, theirs, "{text}");
    }
}
