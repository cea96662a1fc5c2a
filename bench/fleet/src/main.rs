//! Nodes of a fleet by the hundred, without servers: `tutti-fleet-nodes FIRST COUNT HOST:PORT PREFIX`.
//!
//! Each is the code of `tutti: fleet` as it is, over a line to a main process that is played here: it puts every document in force at
//! once, and says that the server answers fifty requests a second. Run by `bench/fleet.py`, which measures the store. Prints a line of JSON
//! for each document that a node has put in force, and ends with its standard input.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;
use tutti_log::Log;
use tutti_options::logging::LogStyle;
use tutti_options::source::EtcdMember;
use tutti_protocol::{
    EtcdPlan, FleetAnswer, FleetHello, FleetRequest, FromFleet, SourcePlan, SourceSecrets, ToFleet,
};
use tutti_unprivileged::link::{FromMain, Link, Sorted};

const USAGE: &str = "usage: tutti-fleet-nodes FIRST COUNT HOST:PORT PREFIX";

/// Requests of each server in a second: its answer in the store changes all the time, as that of a server under load.
const REQUESTS: f64 = 50.0;

/// A message of a node to main. The line is the same in both directions.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Said(FromFleet);

impl FromMain for Said {
    fn sort(self) -> Sorted<Said> {
        Sorted::News(self)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("tutti-fleet-nodes: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [first, count, endpoint, prefix] = arguments else {
        return Err(USAGE.to_owned());
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| USAGE.to_owned());
    let (first, count) = (number(first)?, number(count)?);
    let (host, port) = endpoint.rsplit_once(':').ok_or(USAGE)?;
    let member = EtcdMember {
        is_secure: false,
        host: host.to_owned(),
        port: port.parse().map_err(|_| USAGE.to_owned())?,
    };
    let told = |error: io::Error| error.to_string();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(told)?;
    runtime.block_on(async {
        for number in first..first + count {
            start(number, &member, prefix).map_err(told)?;
        }
        end_of_input().await;
        Ok(())
    })
}

/// Waits until the other end has closed.
async fn end_of_input() {
    let (sender, ended) = oneshot::channel();
    std::thread::spawn(move || {
        // An error is an end as well.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = sender.send(());
    });
    let _ = ended.await;
}

/// Starts a node, and its main process.
fn start(number: u32, member: &EtcdMember, prefix: &str) -> io::Result<()> {
    let hello = FleetHello {
        log: LogStyle::default(),
        plan: SourcePlan {
            name: Some(format!("node-{number:04}")),
            labels: BTreeMap::new(),
            address: None,
            secret_file: None,
            etcd: EtcdPlan {
                members: vec![member.clone()],
                prefix: prefix.to_owned(),
                user: None,
                password_file: None,
                ca: None,
                identity: None,
                server_name: None,
            },
        },
        secrets: Ok(SourceSecrets::default()),
        kept: None,
        kept_certificates: None,
        purged: None,
        nodes: None,
    };
    let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
    let (main, node) = tutti_sys::seqpacket::pair()?;
    let link = Arc::new(Link::new(main)?);
    tokio::spawn(tutti_fleet::node(node, hello, Log::to(nowhere.into())));
    tokio::spawn({
        let link = Arc::clone(&link);
        async move { link.write_waiting().await }
    });
    tokio::spawn(play_main(link, number));
    Ok(())
}

/// Answers everything that a node asks.
async fn play_main(link: Arc<Link<ToFleet, Said>>, number: u32) {
    let begin = Instant::now();
    let mut form = String::new();
    while let Ok(Some((Said(said), _))) = link.news().await {
        let FromFleet::Tell { id, request } = said else {
            continue;
        };
        let answer = match request {
            FleetRequest::Apply { generation, .. } => {
                form = generation.to_string();
                applied(number, generation);
                FleetAnswer::Applied {
                    form: form.clone(),
                    router_ends: 0,
                }
            }
            FleetRequest::Look => FleetAnswer::Seen {
                form: form.clone(),
                requests: (begin.elapsed().as_secs_f64() * REQUESTS) as u64,
                errors: 0,
                start_failures: 0,
                router_ends: 0,
            },
            FleetRequest::Purge { .. } => FleetAnswer::Purged,
            // There is nothing that they could change here.
            _ => FleetAnswer::Noted,
        };
        link.send(&ToFleet::Answer { id, answer });
    }
}

fn applied(number: u32, generation: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let at = now.map_or(0.0, |time| time.as_secs_f64());
    let line = serde_json::json!({"node": number, "generation": generation, "at": at});
    // The reader has gone, so this program ends, too.
    let _ = writeln!(io::stdout(), "{line}");
}
