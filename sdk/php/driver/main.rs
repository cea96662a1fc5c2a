//! PHP without a server around it: requests come as JSON lines on descriptor 0, what PHP does with them leaves on descriptor 3.
//!
//! `tutti-php-driver CONFIG` serves what it is sent. `tutti-php-driver CONFIG --bench TARGET COUNT` serves one request over and over and tells
//! the time each took: the figure to compare with PHP's own, and what `callgrind` and `strace` are run on.

use std::{
    fs::File,
    io::{self, BufRead, Write},
    os::fd::FromRawFd,
    process::ExitCode,
    time::Instant,
};

use serde::{Deserialize, Serialize};
use tutti_php::{
    After, PhpInstance, RequestSource,
    exchange::{HttpProtocol, PhpField, PhpRequest, RequestAborted},
};

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Request {
    method: String,
    target: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    has_length: bool,
    tls: bool,
    http10: bool,
    target_name: String,
    user: String,
    /// The client goes after this many bytes.
    gone_after: Option<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Event<'a> {
    Start {
        status: u16,
        fields: Vec<(String, String)>,
    },
    Write(&'a [u8]),
    Flush,
    Finish,
    Done {
        recycle: bool,
    },
}

struct Driver<W> {
    request: Request,
    path: Vec<u8>,
    read: usize,
    written: usize,
    output: W,
    is_quiet: bool,
}

impl<W: Write> Driver<W> {
    fn new(request: Request, output: W) -> Self {
        let path = request.target.split('?').next().unwrap_or_default();
        let path = percent_encoding::percent_decode_str(path).collect();
        Self {
            request,
            path,
            read: 0,
            written: 0,
            output,
            is_quiet: false,
        }
    }

    /// The router uses the request's memory again once the exchange is finished: who looks then sees this.
    fn spoil(&mut self) {
        let spoil = |text: &mut String| *text = "#".repeat(text.len());
        spoil(&mut self.request.method);
        spoil(&mut self.request.target);
        spoil(&mut self.request.user);
        for (name, value) in &mut self.request.fields {
            spoil(name);
            spoil(value);
        }
        self.path.fill(b'#');
    }

    fn tell(&mut self, event: &Event<'_>) {
        if self.is_quiet {
            return;
        }
        let mut line = serde_json::to_vec(event).unwrap_or_default();
        line.push(b'\n');
        // The test that listens fails by itself when the line does not come.
        let _ = self.output.write_all(&line);
    }
}

impl<W: Write> PhpRequest for Driver<W> {
    fn method(&self) -> &[u8] {
        self.request.method.as_bytes()
    }
    fn target(&self) -> &[u8] {
        self.request.target.as_bytes()
    }
    fn path(&self) -> &[u8] {
        &self.path
    }
    fn query(&self) -> &[u8] {
        self.request
            .target
            .split_once('?')
            .map_or(b"", |(_, query)| query.as_bytes())
    }
    fn protocol(&self) -> HttpProtocol {
        if self.request.http10 {
            HttpProtocol::Http10
        } else {
            HttpProtocol::Http11
        }
    }
    fn is_tls(&self) -> bool {
        self.request.tls
    }
    fn remote_address(&self) -> &[u8] {
        b"192.0.2.7"
    }
    fn remote_port(&self) -> u16 {
        40_404
    }
    fn local_address(&self) -> &[u8] {
        b"127.0.0.1"
    }
    fn local_port(&self) -> u16 {
        8080
    }
    fn server_name(&self) -> &[u8] {
        b"example.test"
    }
    fn target_name(&self) -> &[u8] {
        self.request.target_name.as_bytes()
    }
    fn user(&self) -> &[u8] {
        self.request.user.as_bytes()
    }
    fn content_length(&self) -> Option<u64> {
        self.request
            .has_length
            .then_some(self.request.body.len() as u64)
    }
    fn has_body(&self) -> bool {
        !self.request.body.is_empty()
    }
    fn visit_fields(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in &self.request.fields {
            visit(name.as_bytes(), value.as_bytes());
        }
    }
    fn body_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // In small pieces, as a body that streams comes.
        let rest = self.request.body.get(self.read..).unwrap_or_default();
        let count = rest.len().min(buffer.len()).min(1000);
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.read += count;
        Ok(count)
    }
    fn start(&mut self, status: u16, fields: &[PhpField]) {
        if self.is_quiet {
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = fields
            .iter()
            .map(|field| (text(field.name()), text(field.value())))
            .collect();
        self.tell(&Event::Start { status, fields });
    }
    fn write(&mut self, data: &[u8]) -> Result<(), RequestAborted> {
        if self.is_client_gone() {
            return Err(RequestAborted);
        }
        self.written += data.len();
        self.tell(&Event::Write(data));
        Ok(())
    }
    fn flush(&mut self) -> Result<(), RequestAborted> {
        self.tell(&Event::Flush);
        if self.is_client_gone() {
            Err(RequestAborted)
        } else {
            Ok(())
        }
    }
    fn finish(&mut self) {
        self.tell(&Event::Finish);
        if !self.is_quiet {
            self.spoil();
        }
    }
    fn is_client_gone(&self) -> bool {
        self.request
            .gone_after
            .is_some_and(|limit| self.written >= limit)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let config = arguments
        .next()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let mut php = match PhpInstance::start(&config) {
        Ok(php) => php,
        Err(error) => {
            eprintln!("{}: {} ({})", error.step, error.message, error.hint);
            return ExitCode::from(3);
        }
    };
    php.worker_started(0);
    if arguments.next().as_deref() == Some("--bench") {
        let target = arguments.next().unwrap_or_else(|| "/".to_owned());
        bench(
            &mut php,
            &target,
            arguments
                .next()
                .and_then(|count| count.parse().ok())
                .unwrap_or(100_000),
        );
        return ExitCode::SUCCESS;
    }
    // SAFETY: the test opened descriptor 3 for this process, and nothing else in it uses it.
    let mut output = unsafe { File::from_raw_fd(3) };
    if php.is_resident() {
        let mut lines = Lines {
            output: &mut output,
            current: None,
            has_left: false,
        };
        if let Err(error) = php.reside(&mut lines) {
            eprintln!("{}: {} ({})", error.step, error.message, error.hint);
            return ExitCode::from(3);
        }
        return ExitCode::SUCCESS;
    }
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(request) = serde_json::from_str(&line) else {
            return ExitCode::from(4);
        };
        let mut driver = Driver::new(request, &mut output);
        let after = php.serve(&mut driver);
        driver.tell(&Event::Done {
            recycle: after == After::Recycle,
        });
    }
    ExitCode::SUCCESS
}

/// Requests from descriptor 0, for a resident script.
struct Lines<'a> {
    output: &'a mut File,
    current: Option<Driver<File>>,
    has_left: bool,
}

impl RequestSource for Lines<'_> {
    fn ready(&mut self) {
        // The test that waits for it fails by itself.
        let _ = self.output.write_all(b"\"ready\"\n");
    }
    fn next(&mut self) -> bool {
        let mut line = String::new();
        if self.has_left || io::stdin().lock().read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        let request = serde_json::from_str(&line).ok();
        let output = self.output.try_clone().ok();
        self.current = request
            .zip(output)
            .map(|(request, output)| Driver::new(request, output));
        self.current.is_some()
    }
    fn exchange(&mut self) -> Option<&mut dyn PhpRequest> {
        self.current
            .as_mut()
            .map(|current| -> &mut dyn PhpRequest { current })
    }
    fn done(&mut self) {
        if let Some(mut driver) = self.current.take() {
            driver.tell(&Event::Done { recycle: false });
        }
    }
    fn leave(&mut self) {
        self.has_left = true;
    }
}

/// One request over and over, for a resident script.
struct Same {
    driver: Driver<io::Sink>,
    left: u32,
    start: Option<Instant>,
}

impl RequestSource for Same {
    fn ready(&mut self) {}
    fn next(&mut self) -> bool {
        self.start.get_or_insert_with(Instant::now);
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
    fn exchange(&mut self) -> Option<&mut dyn PhpRequest> {
        Some(&mut self.driver)
    }
    fn done(&mut self) {}
    fn leave(&mut self) {
        self.left = 0;
    }
}

fn bench(php: &mut PhpInstance, target: &str, count: u32) {
    let fields = ["Host: example.test", "User-Agent: bench/1", "Accept: */*"];
    let fields = fields
        .iter()
        .filter_map(|field| field.split_once(": "))
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .collect();
    let request = Request {
        method: "GET".to_owned(),
        target: target.to_owned(),
        fields,
        ..Request::default()
    };
    let mut driver = Driver::new(request, io::sink());
    driver.is_quiet = true;
    if php.is_resident() {
        let mut same = Same {
            driver,
            left: count.saturating_add(1),
            start: None,
        };
        let result = php.reside(&mut same);
        let took = same
            .start
            .map_or(0.0, |start| start.elapsed().as_secs_f64());
        println!(
            "{:.3} us a request, {} bytes, {result:?}",
            took * 1e6 / f64::from(count),
            same.driver.written / count as usize
        );
        return;
    }
    php.serve(&mut driver);
    let start = Instant::now();
    for _ in 0..count {
        php.serve(&mut driver);
    }
    println!(
        "{:.3} us a request, {} bytes",
        start.elapsed().as_secs_f64() * 1e6 / f64::from(count),
        driver.written / (count as usize + 1)
    );
}
