//! Tokens, sets of keys and files of passwords, as strangers and mistakes bring them: nothing panics, and no token without a valid signature
//! is believed.
#![no_main]

use std::sync::LazyLock;

use tutti_config::model::{GuardFile, Jwt, JwtAlgorithm, KeySource, Pointer};
use tutti_config::table::JwtOptions;
use tutti_guard::passwords::{Accounts, read_htpasswd};
use tutti_guard::token::{VerificationKeys, Verifier};

/// In no corpus: a fuzzer that finds a token for it has found a way in.
const SECRET: &[u8] = b"a secret of the test alone, which is long enough";

static WANTED: LazyLock<(Jwt, VerificationKeys, Verifier)> = LazyLock::new(|| {
    let wanted = Jwt {
        algorithms: vec![JwtAlgorithm::Hs256, JwtAlgorithm::Hs512],
        keys: KeySource::File(GuardFile {
            pointer: Pointer::root().into(),
            path: "/k".into(),
        }),
        audience: Vec::new(),
        fields: Vec::new(),
        options: JwtOptions::default(),
    };
    let keys = VerificationKeys::read(SECRET, &wanted).expect("a secret");
    let verifier = Verifier::new(&wanted);
    (wanted, keys, verifier)
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (wanted, keys, verifier) = &*WANTED;
    assert!(verifier.verify(bytes, keys).is_err(), "a token without a valid signature");
    if let Ok(set) = VerificationKeys::read_set(bytes, wanted) {
        let _ = verifier.verify(bytes, &set);
    }
    if let Ok(users) = read_htpasswd(bytes) {
        let accounts = Accounts::new(users.users);
        let _ = accounts.question("anna", b"secret");
    }
});
