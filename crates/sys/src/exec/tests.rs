use std::io::Read as _;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::process::{Ended, id, pidfd, reap_one};
use crate::seqpacket;

fn shell(script: &str) -> Executable {
    Executable::new(Path::new("/bin/sh"), &["-c", script]).unwrap()
}

fn wait(pid: i32) -> Ended {
    let fd = pidfd(pid).unwrap();
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
    reap_one(pid).unwrap()
}

/// Starts it, and returns what was announced too, with the number of descriptors that came along.
fn started(
    executable: &Executable,
    placed: &[(BorrowedFd<'_>, RawFd)],
    brings_pidfd: bool,
) -> (Started, String, usize) {
    let (ours, theirs) = seqpacket::pair().unwrap();
    let message = |pid| format!("the process is {pid}.").into_bytes();
    let announcement = Announcement::new(theirs.as_fd(), message, brings_pidfd).unwrap();
    let started = start(executable, placed, announcement).unwrap();
    drop(theirs);
    let mut buffer = [0; 100];
    let received = seqpacket::receive(ours.as_fd(), &mut buffer).unwrap();
    let received = received.expect("the process has not reported itself");
    let text = String::from_utf8(buffer[..received.len].to_vec()).unwrap();
    (started, text, received.descriptors.len())
}

fn number_in(text: &str) -> i32 {
    let number = text.strip_prefix("the process is ").unwrap();
    number.trim_start().trim_end_matches('.').parse().unwrap()
}

#[test]
fn descriptors_arrive_at_their_numbers_where_each_was_in_the_way_of_another() {
    let (mut first, first_write) = std::io::pipe().unwrap();
    let (mut second, second_write) = std::io::pipe().unwrap();
    let (first_write, second_write) = (OwnedFd::from(first_write), OwnedFd::from(second_write));
    let (a, b) = (first_write.as_raw_fd(), second_write.as_raw_fd());
    // Crosswise; and one that is in its place already.
    let (mut third, third_write) = std::io::pipe().unwrap();
    let c = third_write.as_raw_fd();
    let placed = [
        (first_write.as_fd(), b),
        (second_write.as_fd(), a),
        (third_write.as_fd(), c),
    ];
    let script = format!("echo first >&{b}; echo second >&{a}; echo third >&{c}; exit 3");
    let script = format!("eval '{script}'");
    // dash knows only numbers of one digit.
    let bash = Executable::new(Path::new("/bin/bash"), &["-c", &script]).unwrap();
    let (started, _, _) = started(&bash, &placed, false);
    assert!(started.failure.is_none(), "{:?}", started.failure);
    drop((first_write, second_write, third_write));
    let mut texts = [String::new(), String::new(), String::new()];
    first.read_to_string(&mut texts[0]).unwrap();
    second.read_to_string(&mut texts[1]).unwrap();
    third.read_to_string(&mut texts[2]).unwrap();
    assert_eq!(texts, ["first\n", "second\n", "third\n"]);
    assert_eq!(wait(started.pid), Ended::Code(3));
}

#[test]
fn the_process_announces_its_number_and_brings_a_pidfd_if_asked_to() {
    for brings_pidfd in [false, true] {
        let (started, text, descriptors) = started(&shell("exit 0"), &[], brings_pidfd);
        assert_eq!(number_in(&text), started.pid);
        assert_ne!(started.pid, id());
        assert_eq!(descriptors, usize::from(brings_pidfd));
        assert_eq!(wait(started.pid), Ended::Code(0));
    }
}

#[test]
fn a_program_that_is_missing_leaves_a_process_that_has_ended() {
    let absent = Executable::new(Path::new("/no/such/program"), &[""; 0]).unwrap();
    let (started, text, _) = started(&absent, &[], false);
    assert_eq!(number_in(&text), started.pid);
    let failure = started.failure.expect("it was executed");
    assert_eq!(failure.raw_os_error(), Some(libc::ENOENT));
    assert_eq!(wait(started.pid), Ended::Code(NOT_EXECUTED));
}

#[test]
fn without_a_receiver_of_its_number_there_is_no_process() {
    let (ours, theirs) = seqpacket::pair().unwrap();
    drop(ours);
    let message = |pid: i32| pid.to_string().into_bytes();
    let announcement = Announcement::new(theirs.as_fd(), message, false).unwrap();
    let started = start(&shell("exit 0"), &[], announcement).unwrap();
    let failure = started.failure.expect("it was executed");
    assert!(failure.to_string().contains("announcing"), "{failure}");
    assert_eq!(wait(started.pid), Ended::Code(NOT_EXECUTED));
}

#[test]
fn variables_take_the_place_of_those_of_the_same_name() {
    let (mut read, write) = std::io::pipe().unwrap();
    let write = OwnedFd::from(write);
    let variables = [("PATH", "/usr/bin:/bin:/tested".to_owned())];
    let shell = shell("env | grep -c ^PATH= >&9; echo $PATH >&9");
    let shell = shell.inherit_environment(&variables).unwrap();
    let (started, _, _) = started(&shell, &[(write.as_fd(), 9)], false);
    drop(write);
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    assert_eq!(text, "1\n/usr/bin:/bin:/tested\n");
    assert_eq!(wait(started.pid), Ended::Code(0));
}

/// The signals of one line of a `status` in `/proc`, without those from 32 on, which are the C library's and real-time.
fn signals(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let set = u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
    set & 0x7fff_ffff
}

#[test]
fn signals_are_as_before_in_the_caller_and_have_their_defaults_in_the_program() {
    let (mut read, write) = std::io::pipe().unwrap();
    let write = OwnedFd::from(write);
    let own = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let before = own();
    // Rust's runtime ignores SIGPIPE.
    assert_ne!(signals(&before, "SigIgn:"), 0);
    let shell = shell("grep ^Sig /proc/self/status >&9");
    let (started, _, _) = started(&shell, &[(write.as_fd(), 9)], false);
    drop(write);
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    assert_eq!(signals(&text, "SigBlk:"), 0);
    assert_eq!(signals(&text, "SigIgn:"), 0);
    wait(started.pid);
    // This thread's own; other tests change those of the process.
    assert_eq!(signals(&own(), "SigBlk:"), signals(&before, "SigBlk:"));
}

#[test]
fn an_argument_that_no_program_can_get_is_refused() {
    let error = Executable::new(Path::new("/bin/true"), &["a\0b"]).unwrap_err();
    assert!(error.to_string().contains("nul byte"), "{error}");
}
