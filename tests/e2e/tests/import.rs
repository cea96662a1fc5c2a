//! `tutti import`: the session of `docs/start/import.md` as it stands there, and how the command fails.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tutti_e2e::documents::examples;
use tutti_testkit::server::{binaries, built};
use tutti_testkit::{skip, wait_until};

const PAGE: &str = include_str!("../../../docs/start/import.md");

fn tutti(folder: &Path, arguments: &[&str]) -> Output {
    built("tutti-import");
    Command::new(built("tutti"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_session_of_the_guide_is_as_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let session = examples(PAGE, "console").remove(0);
    let mut commands = 0;
    for part in format!("\n{session}").split("\n$ ").skip(1) {
        let (line, said) = part.split_once('\n').unwrap();
        let said = said.trim_end();
        let mut words = line.split(' ');
        match words.next() {
            Some("cat") => std::fs::write(folder.path().join(words.next().unwrap()), said).unwrap(),
            Some("tutti") => {
                commands += 1;
                let output = tutti(folder.path(), &words.collect::<Vec<_>>());
                let told = text(&output.stderr) + &text(&output.stdout);
                assert_eq!(told.trim_end(), said, "{line}");
                let lost = said.contains("not carried over");
                assert_eq!(output.status.code(), Some(i32::from(lost)), "{line}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(commands, 2);
    let made = std::fs::read(folder.path().join("shop.json")).unwrap();
    let made: Value = serde_json::from_slice(&made).unwrap();
    assert_eq!(made["applications"]["shop"]["processes"]["max"], 20);
}

#[test]
fn exit_statuses_tell_what_has_happened() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("whole.conf", "server { listen 8080; return 204; }");
    write(
        "lost.conf",
        "server { listen 8080;\n random_index on; return 204; }",
    );
    write("broken.conf", "server {\n listen 8080");
    write("old.json", "precious");
    let run = |arguments: &[&str]| tutti(folder.path(), arguments);

    let whole = run(&["import", "nginx", "whole.conf"]);
    assert_eq!(
        (whole.status.code(), text(&whole.stderr).as_str()),
        (Some(0), "")
    );
    assert!(serde_json::from_slice::<Value>(&whole.stdout).is_ok());

    let lost = run(&[
        "import",
        "nginx",
        "lost.conf",
        "--check",
        "--format",
        "json",
    ]);
    assert_eq!((lost.status.code(), lost.stdout.len()), (Some(1), 0));
    let findings: Value = serde_json::from_slice(&lost.stderr).unwrap();
    assert_eq!(findings["findings"][0]["line"], 2);
    assert_eq!(findings["findings"][0]["importance"], "lost");

    for (file, place) in [
        ("broken.conf", "broken.conf:2:"),
        ("none.conf", "none.conf:"),
    ] {
        let failed = run(&["import", "nginx", file]);
        assert_eq!(
            (failed.status.code(), failed.stdout.len()),
            (Some(2), 0),
            "{file}"
        );
        assert!(
            text(&failed.stderr).contains(place),
            "{}",
            text(&failed.stderr)
        );
    }

    // A file that is there stays.
    let kept = run(&["import", "nginx", "whole.conf", "-o", "old.json"]);
    assert_eq!(kept.status.code(), Some(1));
    assert!(text(&kept.stderr).contains("hint:"));
    assert_eq!(
        std::fs::read_to_string(folder.path().join("old.json")).unwrap(),
        "precious"
    );
}

/// A folder for programs, on the file system of those that were built.
fn folder_for_programs() -> tempfile::TempDir {
    tempfile::tempdir_in(binaries()).unwrap()
}

#[test]
fn the_readers_are_a_program_that_is_found_behind_a_link() {
    let folder = folder_for_programs();
    let link = folder.path().join("tutti");
    std::os::unix::fs::symlink(built("tutti"), &link).unwrap();
    // It reads its input until that ends, and is the process that was started: a signal ends it.
    let mut child = Command::new(&link)
        .args(["import", "nginx", "--check", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let program = built("tutti-import").canonicalize().unwrap();
    let runs = format!("/proc/{}/exe", child.id());
    wait_until("it is the other program", || {
        std::fs::read_link(&runs).is_ok_and(|path| path == program)
    });
    let ended = Command::new("kill")
        .arg("-TERM")
        .arg(child.id().to_string())
        .status();
    assert!(ended.unwrap().success());
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn a_missing_program_is_named() {
    let packaged = Path::new("/usr/lib/tutti/tutti-import");
    if packaged.exists() {
        skip!("the package `tutti` is installed");
    }
    let folder = folder_for_programs();
    let alone = folder.path().join("tutti");
    std::fs::hard_link(built("tutti"), &alone).unwrap();
    let failed = Command::new(&alone)
        .args(["import", "nginx", "site.conf"])
        .output()
        .unwrap();
    assert_eq!((failed.status.code(), failed.stdout.len()), (Some(2), 0));
    let said = text(&failed.stderr);
    let beside = folder.path().join("tutti-import");
    for named in [beside.as_path(), packaged] {
        assert!(said.contains(&format!("`{}`", named.display())), "{said}");
    }
    assert!(
        said.contains("hint: it is part of the package `tutti`"),
        "{said}"
    );
    // Its arguments are known without it.
    let help = Command::new(&alone).args(["import", "--help"]).output();
    assert!(text(&help.unwrap().stdout).contains("--check"));
}
