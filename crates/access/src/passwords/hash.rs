//! A bcrypt hash of a password, as in a web config file: `$2y$10$` and 53 characters.

use base64::Engine as _;
use base64::alphabet::BCRYPT;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use subtle::ConstantTimeEq as _;

/// The hash of one password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hash {
    cost: u32,
    salt: [u8; 16],
    digest: [u8; 23],
}

impl Hash {
    /// The cost of `htpasswd -BC 10`, which most files have.
    pub const USUAL_COST: u32 = 10;

    /// Parses a hash. The error does not show the text.
    pub fn parse(text: &str) -> Result<Hash, String> {
        let form = "is not a bcrypt hash: it begins with `$2y$10$` and has 60 characters, as `htpasswd -nBC 10 NAME` \
                    prints it behind the colon";
        let rest =
            ["$2a$", "$2b$", "$2x$", "$2y$"].iter().find_map(|begin| text.strip_prefix(begin));
        let (cost, rest) = rest.and_then(|rest| rest.split_once('$')).ok_or(form)?;
        let cost: u32 = cost.parse().ok().filter(|_| cost.len() == 2).ok_or(form)?;
        if !(MIN_COST..=MAX_COST).contains(&cost) {
            return Err(format!(
                "has the cost {cost}: use {MIN_COST} to {MAX_COST} (a check takes minutes above that; \
                 10 is usual)"
            ));
        }
        let (salt, digest) = rest.split_at_checked(22).filter(|_| rest.len() == 53).ok_or(form)?;
        Ok(Hash { cost, salt: decoded(salt).ok_or(form)?, digest: decoded(digest).ok_or(form)? })
    }

    /// A hash that matches no known password and takes as long to compare.
    pub fn decoy(cost: u32) -> Hash {
        Hash { cost, salt: [0x5a; 16], digest: [0; 23] }
    }

    /// The cost of a comparison: each step doubles its time.
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// Salt and digest, for the key of a cached result.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        [&self.salt[..], &self.digest[..]].into_iter()
    }

    /// Whether this is the hash of `password`. Takes some 60 ms at cost 10.
    pub fn matches(&self, password: &[u8]) -> bool {
        // bcrypt hashes the password with a trailing zero, at most 72 bytes in all.
        let mut input = password[..password.len().min(MAX_INPUT_BYTES)].to_vec();
        input.push(0);
        input.truncate(MAX_INPUT_BYTES);
        let digest = bcrypt::bcrypt(self.cost, self.salt, &input);
        self.digest.ct_eq(&digest[..23]).into()
    }
}

fn decoded<const N: usize>(text: &str) -> Option<[u8; N]> {
    // Some programs set unused bits after the last byte.
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone);
    GeneralPurpose::new(&BCRYPT, config).decode(text).ok()?.try_into().ok()
}

const MIN_COST: u32 = 4;
/// Cost 14 takes about a second; each step doubles it.
const MAX_COST: u32 = 20;
const MAX_INPUT_BYTES: usize = 72;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_hash_matches_only_its_password() {
        // The hash that exporter-toolkit compares with for unknown users.
        let hash =
            Hash::parse("$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi").unwrap();
        assert!(hash.matches(b"fakepassword"));
        assert!(!hash.matches(b"fakepasswor") && !hash.matches(b""));
        assert!(!Hash::decoy(4).matches(b"fakepassword"));
    }

    #[test]
    fn invalid_hashes_are_refused_without_showing_them() {
        for wrong in [
            "secret",
            "",
            "$2y$10$short",
            "$2z$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi",
            "$2y$1$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi!",
            "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeS\u{e9}",
        ] {
            let why = Hash::parse(wrong).unwrap_err();
            assert!(
                why.contains("htpasswd") && (wrong.is_empty() || !why.contains(wrong)),
                "{why}"
            );
        }
        let costly = "$2y$31$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";
        assert!(Hash::parse(costly).unwrap_err().contains("minutes"));
    }
}
