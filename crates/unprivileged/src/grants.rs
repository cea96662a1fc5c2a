//! Computes the grants of a checked configuration: what a router may have.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use tutti_commands::CommandSpec;
use tutti_config::Config;
use tutti_config::model::{Application, ListenAddress, Listener};
use tutti_pool::AppSpec;
use tutti_protocol::{ApplicationGrant, BindAddress, CacheGrant, CommandGrant, Grants, PlaceGrant};

/// Returns where a listener accepts connections; `None`: it receives datagrams.
///
/// `*:PORT` is IPv4, as in NGINX Unit; `[::]:PORT` can exist next to it.
pub fn place_of(address: &ListenAddress) -> Option<BindAddress> {
    Some(match address {
        ListenAddress::Any(port) => {
            BindAddress::Inet(SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)))
        }
        ListenAddress::Ip(address) => BindAddress::Inet(*address),
        ListenAddress::Unix(path) => BindAddress::Path(path.clone()),
        ListenAddress::Abstract(name) => BindAddress::Abstract(name.clone()),
        ListenAddress::Udp(_) => return None,
    })
}

/// Returns where a listener receives datagrams: those of its stream, or, if it supports HTTP/3, those of QUIC on the same address
/// and port.
pub fn datagrams_of(listener: &Listener) -> Option<SocketAddr> {
    stream_datagrams_of(listener).or_else(|| {
        listener.options.http3.on()?;
        match place_of(&listener.address)? {
            BindAddress::Inet(address) => Some(address),
            _ => None,
        }
    })
}

/// Returns where a listener receives datagrams of its stream.
pub fn stream_datagrams_of(listener: &Listener) -> Option<SocketAddr> {
    match listener.address {
        ListenAddress::Udp(address) => Some(address),
        _ => None,
    }
}

/// Returns an application's start document, as in a grant and in a router's request.
pub fn start_of(spec: &AppSpec) -> String {
    // String keys and no fallible Serialize: an error cannot occur.
    serde_json::to_string(&spec.start()).unwrap_or_default()
}

/// The grants that serving `config` needs.
pub fn of(config: &Config) -> Grants {
    let places = config.listeners.iter().filter_map(|listener| {
        Some(PlaceGrant {
            place: place_of(&listener.address)?,
            backlog: listener.options.backlog.0,
        })
    });
    let streams = config.listeners.iter().filter_map(stream_datagrams_of);
    let applications = config.applications.values();
    let logs = config.log_files().map(|(path, _)| path.to_owned());
    let files = config.secret_files();
    let files = files.map(|file| file.path.clone());
    let kubernetes = Some(&config.settings.kubernetes).filter(|_| config.follows_kubernetes());
    let credentials = kubernetes.into_iter();
    let credentials =
        credentials.flat_map(|api| [api.options.ca.clone(), api.options.token_file.clone()]);
    let stores = config.settings.limit_stores.values();
    let stores = stores.flat_map(|store| store.files().map(Path::to_owned));
    let spool = config.settings.http.body_temp_path.iter().cloned();
    Grants {
        places: places.collect(),
        datagrams: config.listeners.iter().filter_map(datagrams_of).collect(),
        stream_datagrams: streams.collect(),
        logs: logs.collect(),
        files: files.chain(credentials).chain(stores).collect(),
        spools: spool.collect(),
        jobs: config.all_spoolers().next().is_some(),
        caches: caches_of(config).collect(),
        nodes: config.follows_nodes(),
        applications: applications.map(|one| application_grant(one)).collect(),
        commands: commands(config),
    }
}

/// Returns the files of the caches of a configuration.
pub fn caches_of(config: &Config) -> impl Iterator<Item = CacheGrant> {
    let caches = config.settings.caches.iter();
    caches.filter_map(|(name, store)| {
        Some(CacheGrant {
            name: name.clone(),
            folder: store.disk.as_ref()?.options.path.clone(),
        })
    })
}

fn commands(config: &Config) -> Vec<CommandGrant> {
    let grant = |spec: CommandSpec| {
        let application = config.applications.get(&*spec.application)?;
        Some(CommandGrant {
            application: application_grant(application),
            processes: spec.processes,
            stop_timeout: u64::try_from(spec.stop_timeout.as_millis()).unwrap_or(u64::MAX),
            start: spec.start,
            place: spec.place,
        })
    };
    let specs = tutti_commands::all(config).into_iter();
    specs.filter_map(grant).collect()
}

fn application_grant(application: &Application) -> ApplicationGrant {
    // The spool folder and its limit are not part of the document.
    let spec = AppSpec::from_config(application, std::path::PathBuf::new().into(), 0);
    ApplicationGrant {
        name: application.name.clone(),
        kind: spec.kind.clone(),
        version: spec.version.clone(),
        user: application.common.user.clone(),
        group: application.common.group.clone(),
        isolation: application.common.isolation.clone(),
        start: start_of(&spec),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tutti_config::model::Backlog;

    use super::*;

    #[test]
    fn what_a_configuration_names_is_granted_and_nothing_else() {
        let text = r#"{
            "listeners": {"*:80": {"pass": "applications/site", "backlog": 7}, "unix:/run/a": {"pass": "routes"}},
            "routes": [],
            "applications": {"site": {"type": "php", "root": "/site", "user": "www", "group": "site",
                "environment": {"A": "b"}, "isolation": {"namespaces": {"pid": true}}}},
            "access_log": "/var/log/a.log",
            "settings": {
                "http": {"body_temp_path": "/var/spool"},
                "cache": {"pages": {"disk": {"size": "1G", "path": "/var/cache/tutti"}}, "in memory": {}}
            }
        }"#;
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let context = tutti_config::ValidationContext::with_modules([("php", "8.2.0")]);
        let config = tutti_config::validate(&document, &context).unwrap();
        let grants = of(&config);
        let mut places: Vec<_> = grants
            .places
            .iter()
            .map(|g| (&g.place, g.backlog))
            .collect();
        places.sort_by_key(|(_, backlog)| *backlog);
        let any = BindAddress::Inet("0.0.0.0:80".parse().unwrap());
        let path = BindAddress::Path("/run/a".into());
        assert_eq!(places, [(&any, 7), (&path, Backlog::LONGEST.0)]);
        assert_eq!(grants.logs, [PathBuf::from("/var/log/a.log")]);
        assert_eq!(grants.spools, [PathBuf::from("/var/spool")]);
        let cache = CacheGrant {
            name: "pages".to_owned(),
            folder: Some("/var/cache/tutti".into()),
        };
        assert_eq!(grants.caches, [cache]);
        let [site] = grants.applications.as_slice() else {
            panic!("{grants:?}");
        };
        assert_eq!(
            (
                site.name.as_str(),
                site.kind.as_str(),
                site.version.as_str()
            ),
            ("site", "php", "8.2.0")
        );
        assert_eq!(
            (site.user.as_deref(), site.group.as_deref()),
            (Some("www"), Some("site"))
        );
        assert!(site.isolation.as_ref().unwrap().namespaces.pid);
        let start: tutti_wire::control::Start = serde_json::from_str(&site.start).unwrap();
        assert_eq!(start.config["environment"]["A"], "b");
        assert_eq!((start.threads, start.workers), (None, None));
        // The same configuration must give the same text: the router finds its applications by it.
        assert_eq!(of(&config), grants);
    }
}
