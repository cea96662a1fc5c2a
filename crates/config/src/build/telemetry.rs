//! `settings.telemetry`.

use http::Uri;
use tutti_document::{Diagnostic, shorten};

use super::builder::Builder;
use super::reader::Reader;
use crate::model::Telemetry;
use crate::table::{CollectorProtocol, TelemetryOptions};

/// The default path of collectors (OTLP specification, "OTLP/HTTP Request").
const HTTP_PATH: &str = "/v1/traces";

/// The gRPC method that receives traces (`opentelemetry/proto/collector/trace/v1/trace_service.proto`).
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

impl<'d> Builder<'d> {
    pub(super) fn telemetry(&mut self, reader: Reader<'d>) -> Option<Telemetry> {
        let (node, place) = reader.get(&TelemetryOptions::endpoint)?;
        let endpoint = node.as_str()?;
        if self.faults.has(reader.node) {
            return None;
        }
        let options: TelemetryOptions = reader.read();
        match url(endpoint, options.protocol) {
            Ok(url) => Some(Telemetry {
                pointer: reader.pointer,
                url,
                options,
            }),
            Err((message, hint)) => {
                let fault = Diagnostic::new(place, message).suggest(hint);
                self.faults.value(fault, node);
                None
            }
        }
    }
}

/// Returns the URL that spans are posted to; or the fault of `endpoint`, and the remedy.
fn url(endpoint: &str, protocol: CollectorProtocol) -> Result<String, (String, &'static str)> {
    let shown = shorten(endpoint);
    let no_url = || {
        (
            format!("`{shown}` is not the URL of a collector"),
            "it looks like `http://127.0.0.1:4318`, or `https://collector.example.com/v1/traces`",
        )
    };
    let uri: Uri = endpoint.parse().map_err(|_| no_url())?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(no_url());
    };
    if authority.as_str().contains('@') {
        return Err((
            "a user name and password in the URL are not sent to collectors".to_owned(),
            "send the spans to a collector on this machine, and let it add them",
        ));
    }
    let host = authority.host();
    // The parser does not reject every text after the host that is not a port from 1 to 65535.
    let is_port_wrong =
        authority.as_str() != host && authority.port_u16().is_none_or(|port| port == 0);
    if !matches!(scheme, "http" | "https") || host.is_empty() || is_port_wrong {
        return Err(no_url());
    }
    if protocol == CollectorProtocol::Https && scheme == "http" {
        return Err((
            format!("`protocol` is `https`, but `{shown}` is not"),
            "begin the endpoint with `https://`, or set `protocol` to `http`",
        ));
    }
    match protocol {
        CollectorProtocol::Grpc if !matches!(uri.path(), "" | "/") || uri.query().is_some() => {
            Err((
                format!("`{shown}` has a path, which gRPC does not use"),
                "give scheme, host and port, usually 4317; or set `protocol` to `http`",
            ))
        }
        CollectorProtocol::Grpc => Ok(format!("{scheme}://{authority}{GRPC_PATH}")),
        CollectorProtocol::Http | CollectorProtocol::Https => {
            let path = match uri.path() {
                "" | "/" => HTTP_PATH,
                path => path,
            };
            let query = uri
                .query()
                .map_or(String::new(), |query| format!("?{query}"));
            Ok(format!("{scheme}://{authority}{path}{query}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_completed() {
        use CollectorProtocol::{Grpc, Http};
        for (endpoint, protocol, whole) in [
            (
                "http://127.0.0.1:4318",
                Http,
                "http://127.0.0.1:4318/v1/traces",
            ),
            ("http://collector/", Http, "http://collector/v1/traces"),
            (
                "https://c.example/a/v1/traces?x=1",
                Http,
                "https://c.example/a/v1/traces?x=1",
            ),
            ("HTTP://[::1]:4318", Http, "http://[::1]:4318/v1/traces"),
            (
                "http://[::1]:4317",
                Grpc,
                "http://[::1]:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            ),
        ] {
            assert_eq!(url(endpoint, protocol).as_deref(), Ok(whole));
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        use CollectorProtocol::{Grpc, Http};
        for (endpoint, protocol) in [
            ("", Http),
            ("127.0.0.1:4318", Http),
            ("collector", Http),
            ("/v1/traces", Http),
            ("ftp://collector", Http),
            ("http://", Http),
            ("http://:4318", Http),
            ("http://host:", Http),
            ("http://host:0", Http),
            ("http://host:65536", Http),
            ("http://host:port", Http),
            ("http://a b", Http),
            ("http://user:word@host", Http),
            ("http://host:4317/v1/traces", Grpc),
            ("http://host:4317/?a", Grpc),
        ] {
            assert!(url(endpoint, protocol).is_err(), "{endpoint}");
        }
        assert!(url("http://host", CollectorProtocol::Https).is_err());
    }
}
