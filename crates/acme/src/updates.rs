//! DNS records for `dns-01`, added by updates (RFC 2136) that are signed with a key (TSIG, RFC 8945).
//!
//! Over TCP, so that nothing must be outcome twice (RFC 7766). Must never happen: that an answer is accepted that is not
//! signed with the same key, or that one is awaited forever.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64;
use hickory_proto::op::update_message::{append, delete_by_rdata};
use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
use hickory_proto::rr::{Name, RData, Record as DnsRecord, RecordSet, RecordType, TSigner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tutti_dialer::{Address, connect};
use tutti_protocol::NameserverPlan;

use crate::challenges::{Record, RecordChange};
use crate::failure::OrderError;

/// Time limit for a name server's answer.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);

/// Time for which others may cache the record, in seconds.
const TIME_TO_LIVE: u32 = 60;

/// Tolerated difference between clocks, in seconds (RFC 8945 §10).
const FUDGE: u16 = 300;

/// Longest file with a secret.
const MOST_BYTES: u64 = 64 * 1024;

/// Adds a record to the DNS, or removes it.
pub(crate) async fn change(
    plan: &NameserverPlan,
    record: &Record,
    change: RecordChange,
) -> Result<(), OrderError> {
    let done = tokio::time::timeout(LONGEST_ANSWER, try_change(plan, record, change));
    let outcome = match done.await {
        Ok(done) => done,
        Err(_) => Err(format!(
            "no answer within {} seconds",
            LONGEST_ANSWER.as_secs()
        )),
    };
    outcome.map_err(|why| {
        OrderError::new(format!(
            "the name server `{}` of `rfc2136` does not accept the record: {why}",
            plan.server
        ))
    })
}

async fn try_change(
    plan: &NameserverPlan,
    record: &Record,
    change: RecordChange,
) -> Result<(), String> {
    let signer = signer(plan)?;
    let name = name(&record.name)?;
    let zone = match &plan.zone {
        Some(zone) => self::name(zone)?,
        None => zone_of(plan, &name).await?,
    };
    if !zone.zone_of(&name) {
        return Err(format!("`{name}` is not in the zone `{zone}`"));
    }
    let text = RData::TXT(TXT::new(vec![record.value.clone()]));
    let mut records = RecordSet::with_ttl(name.clone(), RecordType::TXT, TIME_TO_LIVE);
    records.insert(DnsRecord::from_rdata(name, TIME_TO_LIVE, text), 0);
    let mut message = match change {
        RecordChange::Add => append(records, zone.clone(), false, false),
        RecordChange::Remove => delete_by_rdata(records, zone.clone(), false),
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let signed = signer.sign_message(&message, now.as_secs());
    let (signature, verifier) =
        signed.map_err(|error| format!("the update cannot be signed: {error}"))?;
    message.set_signature(signature);
    let bytes = exchange(plan, &message).await?;
    let answer = Message::from_vec(&bytes)
        .map_err(|error| format!("its answer cannot be understood: {error}"))?;
    let code = answer.metadata.response_code;
    if let Some(mut verifier) = verifier
        && let Err(error) = verifier.verify(&bytes)
    {
        // A server that does not know the key cannot sign this answer.
        return Err(format!(
            "its answer is {code}, and not signed with the key `{}` ({error}); hint: check name, algorithm and secret of the key, and the clocks",
            plan.key
        ));
    }
    match code {
        ResponseCode::NoError => Ok(()),
        code => Err(format!(
            "its answer is {code} for the zone `{zone}`; hint: check that the key `{}` may update it",
            plan.key
        )),
    }
}

/// Returns the zone of a name: the server reports it for the name, or for one above it.
async fn zone_of(plan: &NameserverPlan, name: &Name) -> Result<Name, String> {
    let mut asked = name.clone();
    while !asked.is_root() {
        let mut question = Message::query();
        question.metadata.recursion_desired = false;
        question.add_query(Query::query(asked.clone(), RecordType::SOA));
        let bytes = exchange(plan, &question).await?;
        let answer = Message::from_vec(&bytes)
            .map_err(|error| format!("its answer cannot be understood: {error}"))?;
        let mut records = answer.answers.iter().chain(&answer.authorities);
        let zone = records.find(|record| record.record_type() == RecordType::SOA);
        if let Some(zone) = zone.filter(|zone| zone.name.zone_of(name)) {
            return Ok(zone.name.clone());
        }
        asked = asked.base_name();
    }
    Err(format!("it has no zone for `{name}`; hint: set `zone`"))
}

/// Sends a message, and receives the answer.
async fn exchange(plan: &NameserverPlan, message: &Message) -> Result<Vec<u8>, String> {
    let unreachable = |error: std::io::Error| format!("it cannot be reached: {error}");
    let bytes = message.to_vec().map_err(|error| error.to_string())?;
    let length = u16::try_from(bytes.len()).map_err(|error| error.to_string())?;
    let mut stream = connect(&Address::Inet(plan.server))
        .await
        .map_err(unreachable)?;
    let framed = [&length.to_be_bytes()[..], &bytes].concat();
    stream.write_all(&framed).await.map_err(unreachable)?;
    let length = stream.read_u16().await.map_err(unreachable)?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await.map_err(unreachable)?;
    match answer.get(..2) == bytes.get(..2) {
        true => Ok(answer),
        false => Err("it sends an unexpected answer".to_owned()),
    }
}

fn name(text: &str) -> Result<Name, String> {
    let mut name = Name::from_ascii(text).map_err(|error| format!("`{text}`: {error}"))?;
    name.set_fqdn(true);
    Ok(name)
}

fn signer(plan: &NameserverPlan) -> Result<TSigner, String> {
    let algorithm = match plan.algorithm.as_str() {
        "hmac-sha384" => TsigAlgorithm::HmacSha384,
        "hmac-sha512" => TsigAlgorithm::HmacSha512,
        _ => TsigAlgorithm::HmacSha256,
    };
    let secret = secret(&plan.secret_file)?;
    TSigner::new(secret, algorithm, name(&plan.key)?, FUDGE).map_err(|error| error.to_string())
}

fn secret(path: &Path) -> Result<Vec<u8>, String> {
    let unusable = |why: &str| {
        format!(
            "`{}` of `secret_file` cannot be used: {why}",
            path.display()
        )
    };
    let metadata = std::fs::metadata(path).map_err(|error| unusable(&error.to_string()))?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Err(unusable("it is not a file of at most 64 KiB"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unusable(&error.to_string()))?;
    let decoded = BASE64.decode(encoded(&text).as_bytes()).unwrap_or_default();
    match decoded.is_empty() {
        true => Err(unusable("the secret is not in Base64, or empty")),
        false => Ok(decoded),
    }
}

/// Returns the secret in a file: the value of `secret` in the format of BIND (`tsig-keygen`), or else all of it.
fn encoded(text: &str) -> String {
    let value = text.split_once("secret").and_then(|(before, rest)| {
        before.contains('{').then(|| {
            rest.split(['"', ';', ' ', '\t', '\n'])
                .find(|word| !word.is_empty())
        })?
    });
    value.unwrap_or(text).split_ascii_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_bare_or_in_a_key_of_bind() {
        assert_eq!(encoded("c2Vj\ncmV0\n"), "c2VjcmV0");
        let key = "key \"tutti\" {\n\talgorithm hmac-sha256;\n\tsecret \"c2VjcmV0\";\n};\n";
        assert_eq!(encoded(key), "c2VjcmV0");
        assert_eq!(encoded("key a { secret c2VjcmV0; };"), "c2VjcmV0");
        // The name of a key may contain the word.
        assert_eq!(encoded("secretsecret"), "secretsecret");
    }

    #[test]
    fn an_invalid_secret_is_reported_with_its_place() {
        let folder = std::env::temp_dir();
        assert!(secret(&folder).unwrap_err().contains("not a file"));
        assert!(
            secret(&folder.join("tutti-none"))
                .unwrap_err()
                .contains("`secret_file`")
        );
    }
}
