//! JSON form of bytes that are mostly text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A piece: text, or bytes that are not UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Piece {
    Text(String),
    Bytes(Vec<u8>),
}

/// Writes an array of pieces.
pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let pieces = bytes.utf8_chunks().flat_map(|chunk| {
        let text = Piece::Text(chunk.valid().to_owned());
        let bytes = Piece::Bytes(chunk.invalid().to_vec());
        [text, bytes]
    });
    serializer.collect_seq(pieces)
}

/// Reads the array.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let pieces: Vec<Piece> = Deserialize::deserialize(deserializer)?;
    let pieces = pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => text.into_bytes(),
        Piece::Bytes(bytes) => bytes,
    });
    Ok(pieces.collect::<Vec<_>>().concat())
}

#[cfg(test)]
mod tests {
    use crate::ConfigFile;

    #[test]
    fn all_bytes_come_back() {
        for bytes in [
            &b""[..],
            b"{}",
            b"/* caf\xe9 */ {}\xff\xfe",
            "é\u{0}".as_bytes(),
        ] {
            let file = ConfigFile {
                name: "a.json".to_owned(),
                bytes: bytes.to_vec(),
            };
            let text = serde_json::to_vec(&file).unwrap();
            let read: ConfigFile = serde_json::from_slice(&text).unwrap();
            assert_eq!(read.bytes, bytes);
        }
    }
}
