use std::task::Waker;
use std::time::Duration;

use tutti_config::{ValidationContext as Machine, validate};

use super::*;

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
    assert!(order(&group, 4, 11_003).contains(&0));
    assert!(claim.failed(11_003));
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
    let woken = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&woken));
    let context = Context::from_waker(&waker);
    let poll = || bounded.poll_claim(&context, &place, b"", &Tried::new(), 0);
    assert!(poll().is_pending());
    drop(before);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(matches!(poll(), Poll::Ready(Ok(_))));
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
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let place = unlimited.wait().unwrap();
    let context = Context::from_waker(&waker);
    let poll = || unlimited.poll_claim(&context, &place, b"", &tried, 0);
    assert!(poll().is_pending());
    drop(claim);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert!(poll().is_ready());
}

/// Counts.
#[derive(Default)]
struct Wakes(AtomicU64);

impl std::task::Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_group_knows_the_key_of_its_cookies() {
    let sticky = model(r#"{"servers": {"10.0.0.1:1": {}}, "sticky": {}}"#);
    let key = |byte| StickyKey::of_file(&[byte; 32]).unwrap();
    let group = ServerGroup::with_key(&sticky, (None, Some(key(b'a'))), None);
    assert!(group.has_key(&key(b'a')));
    assert!(!group.has_key(&key(b'b')));
}
