use std::task::Waker;
use std::time::Duration;

use tutti_config::model;
use tutti_config::{ValidationContext as Machine, validate};

use super::*;
use crate::sticky::StickyKey;
use crate::waiting::WhenFull;

fn model(upstream: &str) -> Arc<model::Upstream> {
    let json = format!(r#"{{"upstreams": {{"u": {upstream}}}}}"#);
    let document = tutti_config::parse(json.as_bytes()).unwrap();
    let config = validate(&document, &Machine::default()).unwrap();
    Arc::clone(&config.upstreams["u"])
}

fn group(upstream: &str) -> Arc<ServerGroup> {
    Arc::new(ServerGroup::new(&model(upstream), None, None))
}

/// The indexes of the servers that this many requests get.
fn order(group: &Arc<ServerGroup>, count: usize, now: Millis) -> Vec<usize> {
    let one = |_| group.claim(b"", &Tried::new(), now).unwrap().place();
    (0..count).map(one).collect()
}

const THREE: &str = r#"{"servers": {"10.0.0.1:1": {}, "10.0.0.2:1": {}, "10.0.0.3:1": {"backup": true}},
                        "max_fails": 2, "fail_timeout": 10}"#;

#[test]
fn a_server_that_fails_rests_and_comes_back() {
    let group = group(THREE);
    assert_eq!(order(&group, 4, 1000), [0, 1, 0, 1]);
    let claim = group.claim(b"", &Tried::new(), 1000).unwrap();
    assert_eq!(claim.place(), 0);
    assert!(!claim.failed(1000), "once is not enough");
    assert!(claim.failed(1001), "twice is");
    assert!(!claim.failed(1002), "that is known already");
    assert_eq!(order(&group, 2, 1003), [1, 1]);
    let status = group.status(1003);
    assert_eq!((status[0].is_up, status[0].failures), (false, 3));
    assert_eq!(status[0].active, 1, "of the claim that still lives");
    // After ten seconds it is tried again, and one failure is enough.
    let trial = trial(&group, 0, 11_003);
    assert!(trial.failed(11_003));
    assert!(!order(&group, 4, 11_004).contains(&0));
    assert!(order(&group, 4, 21_004).contains(&0));
    claim.succeeded(21_004);
    assert!(!claim.failed(21_005), "it starts anew");
}

#[test]
fn failures_long_ago_do_not_count() {
    let group = group(THREE);
    let claim = group.claim(b"", &Tried::new(), 0).unwrap();
    assert!(!claim.failed(1000));
    assert!(!claim.failed(12_000));
    assert!(claim.failed(13_000));
}

#[test]
fn backups_serve_when_the_others_cannot() {
    let group = group(THREE);
    let tried = tried_before(&group, &[0]);
    assert_eq!(group.claim(b"", &tried, 0).unwrap().place(), 1);
    let tried = tried_before(&group, &[0, 1]);
    assert_eq!(group.claim(b"", &tried, 0).unwrap().place(), 2);
    let tried = tried_before(&group, &[0, 1, 2]);
    assert_eq!(
        group.claim(b"", &tried, 0).err(),
        Some(Unavailable::Exhausted)
    );
}

#[test]
fn one_is_asked_where_all_are_down() {
    let group = group(r#"{"servers": {"10.0.0.1:1": {}, "10.0.0.2:1": {}}}"#);
    for _ in 0..2 {
        assert!(group.claim(b"", &Tried::new(), 0).unwrap().failed(0));
    }
    let mut asked = order(&group, 2, 1);
    asked.sort_unstable();
    assert_eq!(asked, [0, 1]);
    let tried = tried_before(&group, &[0]);
    assert_eq!(
        group.claim(b"", &tried, 1).err(),
        Some(Unavailable::Exhausted)
    );
}

#[test]
fn the_only_server_is_always_asked() {
    let group = group(r#"{"servers": {"10.0.0.1:1": {}}}"#);
    let claim = group.claim(b"", &Tried::new(), 0).unwrap();
    assert!(!claim.failed(0));
    assert_eq!(order(&group, 1, 1), [0]);
}

#[test]
fn servers_of_weight_zero_get_no_requests() {
    for empty in [
        r#"{"servers": {}}"#,
        r#"{"servers": {"10.0.0.1:1": {"weight": 0}, "10.0.0.2:1": {"weight": 0}}}"#,
    ] {
        let claimed = group(empty).claim(b"", &Tried::new(), 0);
        assert_eq!(claimed.err(), Some(Unavailable::Empty));
    }
}

#[test]
fn a_server_that_works_again_starts_slowly() {
    let group = group(
        r#"{"servers": {"10.0.0.1:1": {}, "10.0.0.2:1": {}}, "slow_start": 100, "fail_timeout": 1}"#,
    );
    let claim = group.claim(b"", &Tried::new(), 0).unwrap();
    assert!(claim.failed(0));
    claim.succeeded(2000);
    let share = |now| {
        let order = order(&group, 100, now);
        order
            .iter()
            .filter(|index| **index == claim.place())
            .count()
    };
    assert!(share(2001) <= 6);
    assert!((30..37).contains(&share(52_000)));
    assert!((49..=51).contains(&share(200_000)));
}

#[test]
fn requests_wait_for_room_in_their_order() {
    let group = group(r#"{"servers": {"10.0.0.1:1": {"max_connections": 1}}, "queue": 2}"#);
    let context = Context::from_waker(Waker::noop());
    let none = Tried::new();
    let claim = group.claim(b"", &none, 0).unwrap();
    assert_eq!(group.claim(b"", &none, 0).err(), Some(Unavailable::Full));
    let (first, second) = (group.wait().unwrap(), group.wait().unwrap());
    assert!(group.wait().is_none(), "the queue is full");
    assert!(
        group
            .poll_claim(&context, &first, b"", &none, 0)
            .is_pending()
    );
    drop(claim);
    assert_eq!(
        group.claim(b"", &none, 0).err(),
        Some(Unavailable::Full),
        "the order is kept"
    );
    assert!(
        group
            .poll_claim(&context, &second, b"", &none, 0)
            .is_pending()
    );
    let Poll::Ready(Ok(claim)) = group.poll_claim(&context, &first, b"", &none, 0) else {
        panic!("it is the first one's turn");
    };
    drop(first);
    assert!(
        group
            .poll_claim(&context, &second, b"", &none, 0)
            .is_pending()
    );
    drop(claim);
    assert!(
        group
            .poll_claim(&context, &second, b"", &none, 0)
            .is_ready()
    );
}

#[test]
fn servers_outlive_a_change() {
    let before = group(r#"{"servers": {"10.0.0.1:1": {}, "10.0.0.2:1": {}}}"#);
    let claim = before.claim(b"", &Tried::new(), 0).unwrap();
    assert!(claim.failed(0));
    let wanted =
        model(r#"{"servers": {"10.0.0.3:1": {}, "10.0.0.1:1": {"weight": 2}}, "retries": 5}"#);
    let after = ServerGroup::new(&wanted, None, Some(&before));
    let ids: Vec<u64> = after.servers().iter().map(|server| server.id()).collect();
    assert_eq!(ids[1], claim.server().id());
    assert!(!before.servers().iter().any(|server| server.id() == ids[0]));
    let status = after.status(1);
    assert_eq!(
        (status[1].failures, status[1].is_up, status[1].active),
        (1, false, 1)
    );
}

#[test]
fn timeouts_are_the_configured_ones() {
    let upstream = model(r#"{"servers": {}, "connect_timeout": 0.25, "keepalive_timeout": 0}"#);
    assert_eq!(upstream.options.connect_timeout, Duration::from_millis(250));
    assert_eq!(upstream.options.keepalive_timeout, Duration::ZERO);
}

#[test]
fn capacity_freed_by_a_former_configuration_wakes_a_waiting_request() {
    let unbounded = group(r#"{"servers": {"10.0.0.1:1": {}}}"#);
    let before = unbounded.claim(b"", &Tried::new(), 0).unwrap();
    let bounded = model(r#"{"servers": {"10.0.0.1:1": {"max_connections": 1}}}"#);
    let bounded = Arc::new(ServerGroup::new(&bounded, None, Some(&unbounded)));
    bounded.take_effect();
    assert_eq!(
        bounded.claim(b"", &Tried::new(), 0).err(),
        Some(Unavailable::Full)
    );
    let place = bounded.wait().unwrap();
    let woken = Arc::<CountingWaker>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let context = Context::from_waker(&waker);
    let poll = || bounded.poll_claim(&context, &place, b"", &Tried::new(), 0);
    assert!(poll().is_pending());
    drop(before);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(matches!(poll(), Poll::Ready(Ok(_))));
}

/// Counts how often it is woken.
#[derive(Default)]
struct CountingWaker(std::sync::atomic::AtomicUsize);

impl std::task::Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Two servers, the first with room for one request.
const BOUNDED: &str =
    r#"{"servers": {"10.0.0.1:1": {"max_connections": 1}, "10.0.0.2:1": {}}, "fail_timeout": 10}"#;

#[test]
fn a_retry_does_not_keep_others_from_a_server_that_has_capacity() {
    let group = group(BOUNDED);
    let none = Tried::new();
    let first = group.claim(b"", &none, 0).unwrap();
    assert_eq!(first.place(), 0);
    let retried = tried_before(&group, &[1]);
    let claimed = group.claim(b"", &retried, 0);
    assert_eq!(claimed.err(), Some(Unavailable::Exhausted));
    assert!(
        !group.has_other(&none, &group.servers()[1], 0),
        "it has no room"
    );
    assert_eq!(order(&group, 3, 0), [1, 1, 1]);
    drop(first);
    assert!(group.has_other(&none, &group.servers()[1], 0));
    assert_eq!(group.claim(b"", &retried, 0).unwrap().place(), 0);
}

#[test]
fn a_retry_waits_until_a_tried_server_has_capacity_for_others() {
    let group = group(
        r#"{"servers": {"10.0.0.1:1": {"max_connections": 1}, "10.0.0.2:1": {"max_connections": 1}}}"#,
    );
    let context = Context::from_waker(Waker::noop());
    let none = Tried::new();
    let first = group.claim(b"", &none, 0).unwrap();
    let second = group.claim(b"", &none, 0).unwrap();
    let tried = tried_before(&group, &[1]);
    assert_eq!(group.claim(b"", &tried, 0).err(), Some(Unavailable::Full));
    let (retry, other) = (group.wait().unwrap(), group.wait().unwrap());
    assert!(
        group
            .poll_claim(&context, &retry, b"", &tried, 0)
            .is_pending()
    );
    drop(second);
    let Poll::Ready(outcome) = group.poll_claim(&context, &retry, b"", &tried, 0) else {
        panic!("it keeps the other from the second server");
    };
    assert_eq!(outcome.err(), Some(Unavailable::Exhausted));
    drop(retry);
    let Poll::Ready(Ok(second)) = group.poll_claim(&context, &other, b"", &none, 0) else {
        panic!("the second server has capacity");
    };
    drop(other);
    // Where the one that was not tried gets capacity, it is used.
    let retry = group.wait().unwrap();
    assert!(
        group
            .poll_claim(&context, &retry, b"", &tried, 0)
            .is_pending()
    );
    drop(first);
    let Poll::Ready(Ok(first)) = group.poll_claim(&context, &retry, b"", &tried, 0) else {
        panic!("the first server has capacity");
    };
    assert_eq!((first.place(), second.place()), (0, 1));
}

/// Two servers and a backup, with checks and cookies.
const CHECKED: &str = r#"{"servers": {"10.0.0.1:1": {}, "10.0.0.2:1": {}, "10.0.0.3:1": {"backup": true}},
                          "health_check": {"passes": 1, "fails": 1}, "sticky": {}, "fail_timeout": 10}"#;

/// Lets the check of this server end in this way.
fn check(group: &ServerGroup, index: usize, outcome: Result<(), String>) {
    let rules = group.model.group.health_check.as_ref().unwrap();
    group.servers()[index].checked(outcome, rules, 0);
}

/// The server of a client with the cookie of the one with this index.
fn kept(group: &Arc<ServerGroup>, index: usize, now: Millis) -> usize {
    let code = group.members.load().list[index].code.clone();
    let choice = ServerChoice {
        key: b"",
        cookie: Some(code.as_bytes()),
    };
    group.claim(choice, &Tried::new(), now).unwrap().place()
}

#[test]
fn checks_are_ignored_where_no_server_passes() {
    let group = group(CHECKED);
    for index in 0..3 {
        check(&group, index, Err("no".to_owned()));
    }
    let none = Tried::new();
    assert_eq!(order(&group, 4, 0), [0, 1, 0, 1], "no backup");
    assert_eq!((kept(&group, 0, 0), kept(&group, 1, 0)), (0, 1));
    let claim = group.claim(b"", &none, 0).unwrap();
    assert_eq!(claim.place(), 0);
    assert!(group.has_other(&none, claim.server(), 0));
    assert!(claim.failed(0));
    let tried = tried_before(&group, &[0]);
    assert_eq!(group.claim(b"", &tried, 0).unwrap().place(), 1);
    assert_eq!(order(&group, 3, 1), [1, 1, 1], "the other rests");
    // As soon as one passes, the others get no requests.
    check(&group, 2, Ok(()));
    assert_eq!(order(&group, 3, 1), [2, 2, 2]);
    assert_eq!(kept(&group, 1, 1), 2);
}

#[test]
fn servers_that_rest_come_before_those_that_fail_their_check_and_before_backups() {
    let group = group(CHECKED);
    check(&group, 1, Err("no".to_owned()));
    for (tried, place) in [(&[][..], 0), (&[0][..], 2)] {
        let tried = tried_before(&group, tried);
        let claim = group.claim(b"", &tried, 0).unwrap();
        assert_eq!(claim.place(), place);
        assert!(claim.failed(0));
    }
    assert_eq!(order(&group, 3, 1), [0, 0, 0]);
}

#[test]
fn where_all_rest_one_with_capacity_is_used() {
    let group = group(BOUNDED);
    let none = Tried::new();
    let full = group.claim(b"", &none, 0).unwrap();
    let other = group.claim(b"", &none, 0).unwrap();
    assert!(full.failed(0) && other.failed(0));
    assert_eq!(order(&group, 4, 1), [1, 1, 1, 1]);
}

#[test]
fn a_client_stays_at_a_backup_only_while_no_other_server_has_capacity() {
    let group = group(
        r#"{"servers": {"10.0.0.1:1": {"max_connections": 1}, "10.0.0.2:1": {"backup": true},
                        "10.0.0.3:1": {"backup": true}}, "sticky": {}, "fail_timeout": 10}"#,
    );
    let none = Tried::new();
    let claim = group.claim(b"", &none, 0).unwrap();
    assert_eq!(
        (kept(&group, 2, 0), kept(&group, 2, 0)),
        (2, 2),
        "it is full"
    );
    assert!(claim.failed(0));
    drop(claim);
    assert_eq!((kept(&group, 2, 1), kept(&group, 2, 1)), (2, 2), "it rests");
    trial(&group, 0, 10_000).succeeded(10_000);
    assert_eq!(kept(&group, 2, 10_000), 0);
}

#[test]
fn after_its_rest_a_server_gets_one_request_until_that_has_ended() {
    let group = group(r#"{"servers": {"10.0.0.1:1": {}, "10.0.0.2:1": {}}, "fail_timeout": 10}"#);
    let none = Tried::new();
    assert!(group.claim(b"", &none, 0).unwrap().failed(0));
    let tries = |now| {
        let places = order(&group, 100, now);
        places.iter().filter(|place| **place == 0).count()
    };
    assert_eq!(tries(9_999), 0);
    assert_eq!(tries(10_000), 1);
    assert_eq!(tries(19_999), 0, "the trial has no result");
    assert_eq!(tries(20_000), 1);
    let trial = trial(&group, 0, 30_000);
    assert!(trial.failed(30_001));
    assert_eq!(tries(40_000), 0, "it failed a millisecond later");
    assert_eq!(tries(40_001), 1);
    // The head of an answer is enough.
    group.servers()[0].answered(40_002);
    assert_eq!(tries(40_003), 50);
}

#[test]
fn a_trial_refuses_no_request() {
    for servers in [
        r#"{"10.0.0.1:1": {}}"#,
        r#"{"10.0.0.1:1": {}, "10.0.0.2:1": {}}"#,
        r#"{"10.0.0.1:1": {}, "10.0.0.2:1": {"weight": 0}}"#,
    ] {
        let group = group(&format!(r#"{{"servers": {servers}, "fail_timeout": 10}}"#));
        for _ in 0..2 {
            group.claim(b"", &Tried::new(), 0).unwrap().failed(0);
        }
        for now in [1, 10_000, 10_001] {
            assert_eq!(order(&group, 9, now).len(), 9, "{servers}");
        }
    }
}

#[test]
fn a_server_that_gets_requests_again_wakes_those_that_wait() {
    let group = group(
        r#"{"servers": {"10.0.0.1:1": {"max_connections": 1}, "10.0.0.2:1": {}},
            "health_check": {"passes": 1, "fails": 1}, "fail_timeout": 10}"#,
    );
    let none = Tried::new();
    let woken = Arc::<CountingWaker>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let context = Context::from_waker(&waker);
    let _full = group.claim(b"", &none, 0).unwrap();
    let wait_for = |makes_usable: &dyn Fn()| {
        let place = group.wait().unwrap();
        let poll = || group.poll_claim(&context, &place, b"", &none, 1);
        assert!(poll().is_pending());
        let before = woken.0.load(Ordering::SeqCst);
        makes_usable();
        assert!(woken.0.load(Ordering::SeqCst) > before, "it is woken");
        assert!(matches!(poll(), Poll::Ready(Ok(_))));
    };
    check(&group, 1, Err("no".to_owned()));
    wait_for(&|| check(&group, 1, Ok(())));
    let other = group.claim(b"", &none, 0).unwrap();
    assert!(other.failed(0));
    wait_for(&|| other.succeeded(1));
    check(&group, 1, Err("no".to_owned()));
    wait_for(&|| check(&group, 0, Err("no".to_owned())));
}

#[test]
fn the_end_of_a_rest_wakes_a_request_that_waits() {
    let group = group(
        r#"{"servers": {"10.0.0.1:1": {"max_connections": 1}, "10.0.0.2:1": {}}, "fail_timeout": 0.2,
            "queue_timeout": 30}"#,
    );
    let clock = || crate::micros() / 1000;
    let none = Tried::new();
    let _full = group.claim(b"", &none, clock()).unwrap();
    assert!(group.claim(b"", &none, clock()).unwrap().failed(clock()));
    let begun = clock();
    let waiting = group.claim_in_time(b"", &none, WhenFull::Wait, clock);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    assert_eq!(runtime.block_on(waiting).unwrap().place(), 1);
    assert!(clock() < begun + 30_000, "not by the end of its time");
}

/// Claims the server with this index, whose rest is over.
fn trial(group: &Arc<ServerGroup>, index: usize, now: Millis) -> ServerClaim {
    let mut claims = (0..4).map(|_| group.claim(b"", &Tried::new(), now).unwrap());
    claims.find(|claim| claim.place() == index).unwrap()
}

impl ServerClaim {
    /// The index of its server in the group.
    fn place(&self) -> usize {
        let members = self.upstream.members.load();
        let mut servers = members.list.iter().map(|member| member.server.id());
        servers.position(|id| id == self.server.id()).unwrap()
    }
}

/// The servers with these indexes.
fn tried_before(group: &ServerGroup, numbers: &[usize]) -> Tried {
    let servers = group.servers();
    numbers.iter().map(|number| servers[*number].id()).collect()
}

/// A server that failed checks of long ago got no requests until the new ones had passed.
#[test]
fn checks_that_are_configured_again_begin_anew() {
    let with = r#"{"servers": {"10.0.0.1:1": {}}, "health_check": {"fails": 1}}"#;
    let first = group(with);
    let rules = first.model.group.health_check.clone().unwrap();
    let health = |group: &ServerGroup| group.servers()[0].health();
    first.servers()[0].checked(Err("down".to_owned()), &rules, 0);
    let changed =
        model(r#"{"servers": {"10.0.0.1:1": {}, "10.0.0.2:1": {}}, "health_check": {"fails": 1}}"#);
    let same = ServerGroup::new(&changed, None, Some(&first));
    assert_eq!(health(&same), ServerHealth::Failing, "they continue");
    let without = model(r#"{"servers": {"10.0.0.1:1": {}}}"#);
    let without = ServerGroup::new(&without, None, Some(&first));
    let again = ServerGroup::new(&model(with), None, Some(&without));
    assert_eq!(again.servers()[0].id(), first.servers()[0].id());
    assert_eq!(health(&again), ServerHealth::Unknown);
}

/// A request in a queue kept the limits of a former configuration, while others took the capacity.
#[test]
fn a_change_of_limits_is_for_waiting_requests_too() {
    let with = |options: &str| model(&format!(r#"{{"servers": {{"10.0.0.1:1": {options}}}}}"#));
    let one = with(r#"{"max_connections": 1}"#);
    let first = Arc::new(ServerGroup::new(&one, None, None));
    let tried = Tried::new();
    let context = Context::from_waker(Waker::noop());
    let claims = [first.claim(b"", &tried, 0).unwrap()];
    let place = first.wait().unwrap();
    let poll = |place| first.poll_claim(&context, place, b"", &tried, 0);
    assert!(poll(&place).is_pending());
    let two = with(r#"{"max_connections": 2}"#);
    let second = ServerGroup::new(&two, None, Some(&first));
    assert!(poll(&place).is_pending(), "it is not in force");
    second.take_effect();
    let Poll::Ready(Ok(claim)) = poll(&place) else {
        panic!("there is room for two");
    };
    drop((place, claim, claims));

    // Where there was no limit, its requests must be woken, too.
    let unlimited = Arc::new(ServerGroup::new(&with("{}"), None, Some(&second)));
    unlimited.take_effect();
    let claim = unlimited.claim(b"", &tried, 0).unwrap();
    let last = ServerGroup::new(&one, None, Some(&unlimited));
    last.take_effect();
    let outcome = unlimited.claim(b"", &tried, 0);
    assert_eq!(outcome.err(), Some(Unavailable::Full));
    let wakes = Arc::<CountingWaker>::default();
    let waker = Waker::from(Arc::clone(&wakes));
    let place = unlimited.wait().unwrap();
    let context = Context::from_waker(&waker);
    let poll = || unlimited.poll_claim(&context, &place, b"", &tried, 0);
    assert!(poll().is_pending());
    drop(claim);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert!(poll().is_ready());
}

#[test]
fn a_group_knows_the_key_of_its_cookies() {
    let sticky = model(r#"{"servers": {"10.0.0.1:1": {}}, "sticky": {}}"#);
    let key = |byte| StickyKey::of_file(&[byte; 32]).unwrap();
    let group = ServerGroup::with_key(&sticky, (None, Some(key(b'a'))), None);
    assert!(group.has_key(&key(b'a')));
    assert!(!group.has_key(&key(b'b')));
}
