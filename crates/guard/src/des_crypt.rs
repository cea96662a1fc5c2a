//! The traditional crypt(3): DES (FIPS 46-3) on zeros, 25 times, with the password as its key and a salt of 12 bits.
//!
//! It is too quick to be safe, and only the first eight characters count: the log reports such hashes. No maintained crate has it.

use aws_lc_rs::constant_time::verify_slices_are_equal;

/// Tables number bits from 1, the highest first.
const INITIAL: [u8; 64] = [
    58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4, 62, 54, 46, 38, 30, 22, 14, 6,
    64, 56, 48, 40, 32, 24, 16, 8, 57, 49, 41, 33, 25, 17, 9, 1, 59, 51, 43, 35, 27, 19, 11, 3, 61,
    53, 45, 37, 29, 21, 13, 5, 63, 55, 47, 39, 31, 23, 15, 7,
];
const FINAL: [u8; 64] = [
    40, 8, 48, 16, 56, 24, 64, 32, 39, 7, 47, 15, 55, 23, 63, 31, 38, 6, 46, 14, 54, 22, 62, 30,
    37, 5, 45, 13, 53, 21, 61, 29, 36, 4, 44, 12, 52, 20, 60, 28, 35, 3, 43, 11, 51, 19, 59, 27,
    34, 2, 42, 10, 50, 18, 58, 26, 33, 1, 41, 9, 49, 17, 57, 25,
];
const EXPANSION: [u8; 48] = [
    32, 1, 2, 3, 4, 5, 4, 5, 6, 7, 8, 9, 8, 9, 10, 11, 12, 13, 12, 13, 14, 15, 16, 17, 16, 17, 18,
    19, 20, 21, 20, 21, 22, 23, 24, 25, 24, 25, 26, 27, 28, 29, 28, 29, 30, 31, 32, 1,
];
const PERMUTATION: [u8; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10, 2, 8, 24, 14, 32, 27, 3, 9, 19,
    13, 30, 6, 22, 11, 4, 25,
];
const KEY_CHOICE: [u8; 56] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60,
    52, 44, 36, 63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29,
    21, 13, 5, 28, 20, 12, 4,
];
const ROUND_KEY: [u8; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2, 41, 52,
    31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];
const SHIFTS: [u32; 16] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];
/// Four rows of sixteen in each.
const BOXES: [[u8; 64]; 8] = [
    [
        14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7, 0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12,
        11, 9, 5, 3, 8, 4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0, 15, 12, 8, 2, 4, 9,
        1, 7, 5, 11, 3, 14, 10, 0, 6, 13,
    ],
    [
        15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10, 3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1,
        10, 6, 9, 11, 5, 0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15, 13, 8, 10, 1, 3, 15,
        4, 2, 11, 6, 7, 12, 0, 5, 14, 9,
    ],
    [
        10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8, 13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5,
        14, 12, 11, 15, 1, 13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7, 1, 10, 13, 0, 6,
        9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12,
    ],
    [
        7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15, 13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2,
        12, 1, 10, 14, 9, 10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4, 3, 15, 0, 6, 10, 1,
        13, 8, 9, 4, 5, 11, 12, 7, 2, 14,
    ],
    [
        2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9, 14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15,
        10, 3, 9, 8, 6, 4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14, 11, 8, 12, 7, 1, 14,
        2, 13, 6, 15, 0, 9, 10, 4, 5, 3,
    ],
    [
        12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11, 10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13,
        14, 0, 11, 3, 8, 9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6, 4, 3, 2, 12, 9, 5,
        15, 10, 11, 14, 1, 7, 6, 0, 8, 13,
    ],
    [
        4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1, 13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5,
        12, 2, 15, 8, 6, 1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2, 6, 11, 13, 8, 1, 4,
        10, 7, 9, 5, 0, 15, 14, 2, 3, 12,
    ],
    [
        13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7, 1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6,
        11, 0, 14, 9, 2, 7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8, 2, 1, 14, 7, 4, 10,
        8, 13, 15, 12, 9, 0, 3, 5, 6, 11,
    ],
];

/// True if it is the password of a hash of 13 characters.
pub(crate) fn is_right(password: &[u8], text: &str) -> bool {
    let Some((salt, hash)) = text.as_bytes().split_at_checked(2) else {
        return false;
    };
    let mut digits = salt.iter().map(|digit| value(*digit));
    let (Some(Some(low)), Some(Some(high))) = (digits.next(), digits.next()) else {
        return false;
    };
    let block = encrypt(password, low | high << 6);
    let mut wanted = 0_u128;
    for digit in hash {
        let Some(value) = value(*digit) else {
            return false;
        };
        wanted = wanted << 6 | u128::from(value);
    }
    // Eleven digits of six bits: the last two bits are zeros.
    let found = u128::from(block) << 2;
    verify_slices_are_equal(&found.to_be_bytes(), &wanted.to_be_bytes()).is_ok()
}

/// The value of a digit of crypt(3).
fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'.' | b'/' | b'0'..=b'9' => digit - b'.',
        b'A'..=b'Z' => digit - b'A' + 12,
        b'a'..=b'z' => digit - b'a' + 38,
        _ => return None,
    };
    Some(value.into())
}

fn encrypt(password: &[u8], salt: u32) -> u64 {
    // Seven bits of each character; the eighth is the parity, which DES ignores.
    let mut key = 0;
    for number in 0..8 {
        let byte = password.get(number).copied().unwrap_or_default();
        key = key << 8 | u64::from(byte << 1);
    }
    let keys = round_keys(key);
    // A bit of the salt swaps a bit of the first half of an expansion, counted from its beginning, with that of the second.
    let mut swapped = 0;
    for bit in 0..12 {
        swapped |= u64::from(salt >> bit & 1) << (23 - bit);
    }
    let mut block = 0;
    for _ in 0..25 {
        block = des(block, &keys, swapped);
    }
    block
}

fn round_keys(key: u64) -> [u64; 16] {
    const HALF: u64 = (1 << 28) - 1;
    let chosen = permute(key, 64, &KEY_CHOICE);
    let (mut left, mut right) = (chosen >> 28, chosen & HALF);
    SHIFTS.map(|shift| {
        let turn = |half: u64| (half << shift | half >> (28 - shift)) & HALF;
        (left, right) = (turn(left), turn(right));
        permute(left << 28 | right, 56, &ROUND_KEY)
    })
}

fn des(block: u64, keys: &[u64; 16], swapped: u64) -> u64 {
    let block = permute(block, 64, &INITIAL);
    let (mut left, mut right) = (block >> 32, block & 0xffff_ffff);
    for key in keys {
        (left, right) = (right, left ^ round(right, *key, swapped));
    }
    permute(right << 32 | left, 64, &FINAL)
}

fn round(half: u64, key: u64, swapped: u64) -> u64 {
    let expanded = permute(half, 32, &EXPANSION);
    let differing = (expanded >> 24 ^ expanded) & swapped;
    let mixed = expanded ^ differing ^ differing << 24 ^ key;
    let mut substituted = 0;
    for (number, values) in BOXES.iter().enumerate() {
        let bits = mixed >> (42 - 6 * number) & 63;
        let row = bits >> 4 & 2 | bits & 1;
        let column = bits >> 1 & 15;
        let value = values.get((row * 16 + column) as usize);
        substituted = substituted << 4 | u64::from(value.copied().unwrap_or_default());
    }
    permute(substituted, 32, &PERMUTATION)
}

/// The bits of a number of `width` bits, in the order of a table.
fn permute(number: u64, width: u8, table: &[u8]) -> u64 {
    table
        .iter()
        .fold(0, |found, bit| found << 1 | number >> (width - bit) & 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_glibc_are_those_of_their_passwords() {
        for (password, text) in [
            ("secret", "abNANd1rDfiNc"),
            ("password", "zzXUHfURnGg8I"),
            ("", "./Una9Fi.seRo"),
            ("a longer password than eight", "Q9hp4NTfrsy4I"),
            ("a longer", "Q9hp4NTfrsy4I"),
        ] {
            assert!(is_right(password.as_bytes(), text), "{text}");
            assert!(!is_right(b"Secret", text), "{text}");
        }
        assert!(!is_right(b"secret", "ab"));
        assert!(!is_right(b"secret", "a"));
    }
}
