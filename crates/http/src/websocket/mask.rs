//! Masking (RFC 6455 §5.3).

/// Applies `mask` to `bytes`, the first of which is byte `phase` of its frame's payload; doing it twice undoes it.
///
/// In words: the compiler vectorises the middle loop.
pub fn apply_mask(bytes: &mut [u8], mask: [u8; 4], phase: u64) {
    let mut turned = mask;
    turned.rotate_left((phase % 4) as usize);
    let [a, b, c, d] = turned;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for chunk in words {
        *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(turned.iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_phase_agrees_with_the_definition() {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        for length in 0..70_usize {
            for phase in 0..5_usize {
                let plain: Vec<u8> = (0..length).map(|at| at as u8).collect();
                let mut masked = plain.clone();
                apply_mask(&mut masked, mask, phase as u64);
                let defined: Vec<u8> = plain
                    .iter()
                    .enumerate()
                    .map(|(at, byte)| byte ^ mask[(at + phase) % 4])
                    .collect();
                assert_eq!(masked, defined, "{length} bytes from {phase}");
            }
        }
    }
}
