//! Bodies over HTTP/2.

use std::process::Command;

/// Sends bodies to an application that echoes, by curl, with their length and without, over one connection where there is TLS, and compares what comes back.
pub fn echoes(url: &str) {
    const SIZES: [usize; 7] = [0, 1, 1_000, 16_385, 100_000, 1_000_000, 5_000_000];
    let folder = tempfile::tempdir().expect("a file");
    let path = |name: String| {
        folder
            .path()
            .join(name)
            .to_str()
            .expect("a file")
            .to_owned()
    };
    let mut requests = Vec::new();
    for (index, size) in SIZES.into_iter().enumerate() {
        let body: Vec<u8> = (0..size)
            .map(|n| (n * 31 + n / 253 + index) as u8)
            .collect();
        std::fs::write(path(format!("{size}.in")), body).expect("a file");
        for kind in ["whole", "stream"] {
            let sent = format!("@{}", path(format!("{size}.in")));
            let got = path(format!("{size}.{kind}"));
            let mut request = vec!["--silent", "--show-error", "--fail", "--insecure"];
            request.extend([
                "--max-time",
                "300",
                "--data-binary",
                &sent,
                "--output",
                &got,
            ]);
            request.extend(["--write-out", "%{http_code} %{http_version}\n", url]);
            request.push(match url.starts_with("https") {
                true => "--http2",
                false => "--http2-prior-knowledge",
            });
            if kind == "stream" {
                // Over HTTP/2 it means to curl: of no known length.
                request.extend(["--header", "Transfer-Encoding: chunked"]);
            }
            requests.push(request.into_iter().map(str::to_owned).collect());
        }
    }
    // Debian's curl, 7.88, begins anew on a connection that it keeps after `--http2-prior-knowledge`.
    let runs: Vec<Vec<String>> = match url.starts_with("https") {
        true => vec![requests.join(&"--next".to_owned())],
        false => requests,
    };
    let said: String = runs.iter().map(|run| curl(run)).collect();
    assert_eq!(said, "200 2\n".repeat(SIZES.len() * 2), "{url}");
    for size in SIZES {
        let sent = std::fs::read(path(format!("{size}.in"))).expect("a file");
        for kind in ["whole", "stream"] {
            // curl makes no file of nothing.
            let came = std::fs::read(path(format!("{size}.{kind}"))).unwrap_or_default();
            assert!(
                came == sent,
                "{url}: {} of {size} bytes, {kind}",
                came.len()
            );
        }
    }
}

fn curl(arguments: &[String]) -> String {
    let output = Command::new("curl").args(arguments).output().expect("curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}{errors}");
    text
}
