#![allow(dead_code, unused)]
#[path = ""] mod huffman;
mod http3 { #[path = ""] pub mod table; #[path = ""] pub mod qpack;
 pub mod go { use super::qpack::*;
  pub fn answer(f: &[(&[u8], &[u8])], out: &mut Vec<u8>) { begin(out); for (n, v) in f { write_field(n, v, out); } } } }
use std::hint::black_box;
fn main() {
  let answer: &[(&[u8], &[u8])] = &[(b":status", b"200"), (b"server", b"Tutti/0.1.0"), (b"date", b"Tue, 24 Nov 2026 20:14:07 GMT"), (b"content-type", b"text/plain"),
    (b"last-modified", b"Tue, 24 Nov 2026 20:14:06 GMT"), (b"etag", b"\"6b05f00e-400\""), (b"accept-ranges", b"bytes"), (b"content-length", b"1024")];
  let request: &[(&[u8], &[u8])] = &[(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"www.example.com"), (b":path", b"/assets/application-1f3a9c.js?v=17"),
    (b"user-agent", b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"), (b"accept", b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    (b"accept-language", b"en-US,en;q=0.5"), (b"accept-encoding", b"gzip, deflate, br, zstd"), (b"referer", b"https://www.example.com/shop/list?page=3"),
    (b"cookie", b"session=8f14e45fceea167a5a36dedd4bea2543"), (b"sec-fetch-dest", b"document"), (b"sec-fetch-mode", b"navigate"), (b"sec-fetch-site", b"same-origin"), (b"priority", b"u=0, i")];
  let n = 10_000; let mut out = Vec::with_capacity(4096);
  match std::env::args().nth(1).as_deref() {
    Some("encode") => for _ in 0..n { out.clear(); http3::go::answer(black_box(answer), &mut out); black_box(&out); },
    Some("decode") => { http3::go::answer(request, &mut out); for _ in 0..n { let mut s = 0; http3::qpack::decode(black_box(&out), 1<<16, |a, b| s += a.len() + b.len()).unwrap(); black_box(s); } }
    _ => { http3::go::answer(answer, &mut out); http3::go::answer(request, &mut out); println!("{out:02x?}"); }
  }
}
