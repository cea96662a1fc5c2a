//! A page of a hundred files, and what Chromium sees of it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tutti_testkit::Server;

/// A page of a hundred files: pictures, style sheets, scripts, fetched data. When all is there it says what the browser saw.
pub fn write(server: &Server) {
    let mut page = String::from("<!DOCTYPE html><meta charset=utf-8><title>hundred</title>\n");
    for number in 0..20 {
        server.write(
            &format!("style{number}.css"),
            format!(
                ".c{number} {{ background: hsl({}, 70%, 60%) }}",
                number * 18
            ),
        );
        page += &format!("<link rel=stylesheet href=style{number}.css>\n");
        server.write(
            &format!("script{number}.js"),
            format!(
                "window.ran = (window.ran || 0) + 1; // {}",
                "x".repeat(number * 1_000)
            ),
        );
        page += &format!("<script src=script{number}.js></script>\n");
    }
    for number in 0..40 {
        server.write(
            &format!("picture{number}.svg"),
            format!(
                "<svg xmlns='http://www.w3.org/2000/svg' width='80' height='60'><rect width='80' height='60' fill='hsl({}, 80%, 45%)'/>\
                 <text x='20' y='40' font-size='28' fill='white'>{number}</text></svg>",
                number * 9
            ),
        );
        page += &format!("<img src=picture{number}.svg alt=missing>\n");
    }
    page += "<p>";
    for number in 0..20 {
        server.write(
            &format!("data{number}.json"),
            format!("{{\"number\": {number}}}"),
        );
        page += &format!("<b class=c{number}>style {number}</b>\n");
    }
    page += r#"<pre id=seen></pre><script>
const all = Promise.all([...Array(20).keys()].map(async (number) => (await (await fetch(`data${number}.json`)).json()).number));
const loaded = new Promise((done) => window.addEventListener("load", done));
Promise.all([all, loaded]).then(([numbers]) => {
    const entries = performance.getEntriesByType("resource");
    const protocols = entries.concat(performance.getEntriesByType("navigation")).map((entry) => entry.nextHopProtocol);
    document.getElementById("seen").textContent = JSON.stringify({
        files: entries.length,
        protocols: [...new Set(protocols)],
        statuses: [...new Set(entries.map((entry) => entry.responseStatus))],
        pictures: [...document.images].filter((image) => image.naturalWidth === 80).length,
        scripts: window.ran,
        styles: [...document.querySelectorAll("b")].filter((one) => getComputedStyle(one).backgroundColor !== "rgba(0, 0, 0, 0)").length,
        data: numbers.reduce((sum, number) => sum + number),
    });
});
</script>"#;
    server.write("hundred.html", page);
}

/// The words of the page when all of it has come over this protocol.
pub fn seen(protocol: &str) -> Value {
    json!({"files": 100, "protocols": [protocol], "statuses": [200], "pictures": 40, "scripts": 20, "styles": 20, "data": 190})
}

/// Debian's browser, with a profile of its own.
pub struct Chromium {
    profile: tempfile::TempDir,
    flags: Vec<String>,
}

impl Chromium {
    /// With these flags more.
    pub fn new(flags: &[&str]) -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let mut all: Vec<String> = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--ignore-certificate-errors",
            "--window-size=900,700",
            // Time goes on while nothing is on its way, so that it waits for what is.
            "--virtual-time-budget=60000",
        ]
        .iter()
        .chain(flags)
        .map(|flag| (*flag).to_owned())
        .collect();
        all.push(format!("--user-data-dir={}", profile.path().display()));
        Self {
            profile,
            flags: all,
        }
    }

    /// The words of the page at this address about itself.
    pub fn sees(&self, url: &str) -> Value {
        let shown = self.run(&["--dump-dom", url]);
        let seen = shown
            .split_once("<pre id=\"seen\">")
            .and_then(|(_, rest)| rest.split_once("</pre>"))
            .unwrap_or_else(|| panic!("{shown}"))
            .0;
        serde_json::from_str(seen).unwrap_or_else(|_| panic!("{shown}"))
    }

    /// A picture of the page at this address.
    pub fn picture(&self, url: &str) -> Vec<u8> {
        let path: PathBuf = self.profile.path().join("page.png");
        self.run(&[&format!("--screenshot={}", path.display()), url]);
        std::fs::read(path).expect("a picture")
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new("chromium")
            .args(&self.flags)
            .args(arguments)
            .output()
            .expect("chromium runs; `packaging/install-deps test` installs it");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}{errors}");
        text
    }
}
