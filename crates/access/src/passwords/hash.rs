//! A password as a web config file has it: hashed by bcrypt, `$2y$10$` and 53 letters.

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
    /// As `htpasswd -B` would take with `-C 10`, and as most files have it.
    pub const USUAL_COST: u32 = 10;

    /// What is wrong is said without showing it.
    pub fn parse(text: &str) -> Result<Hash, String> {
        let form = "is no bcrypt hash: it begins with `$2y$10$` and has 60 characters, as `htpasswd -nBC 10 NAME` \
                    prints it behind the colon";
        let rest =
            ["$2a$", "$2b$", "$2x$", "$2y$"].iter().find_map(|begin| text.strip_prefix(begin));
        let (cost, rest) = rest.and_then(|rest| rest.split_once('$')).ok_or(form)?;
        let cost: u32 = cost.parse().ok().filter(|_| cost.len() == 2).ok_or(form)?;
        if !(MIN_COST..=MAX_COST).contains(&cost) {
            return Err(format!(
                "has the cost {cost}: {MIN_COST} to {MAX_COST} are taken, as above a check takes minutes; \
                 10 is usual"
            ));
        }
        let (salt, digest) = rest.split_at_checked(22).filter(|_| rest.len() == 53).ok_or(form)?;
        Ok(Hash { cost, salt: decoded(salt).ok_or(form)?, digest: decoded(digest).ok_or(form)? })
    }

    /// One that no password has, for all that is known, and that takes as long to compare with.
    pub fn decoy(cost: u32) -> Hash {
        Hash { cost, salt: [0x5a; 16], digest: [0; 23] }
    }

    /// How long a comparison takes: twice as long with each.
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// All of it, by which an answer is remembered.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        [&self.salt[..], &self.digest[..]].into_iter()
    }

    /// Whether the password is this one. It takes as long as the cost says: some 60 ms for 10.
    pub fn is_of(&self, password: &[u8]) -> bool {
        // Passwords end in a zero, and no more than 72 bytes of both count.
        let mut ended = password[..password.len().min(LONGEST)].to_vec();
        ended.push(0);
        ended.truncate(LONGEST);
        let digest = bcrypt::bcrypt(self.cost, self.salt, &ended);
        self.digest.ct_eq(&digest[..23]).into()
    }
}

fn decoded<const N: usize>(text: &str) -> Option<[u8; N]> {
    // Some programs leave bits behind the last byte that say nothing.
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone);
    GeneralPurpose::new(&BCRYPT, config).decode(text).ok()?.try_into().ok()
}

const MIN_COST: u32 = 4;
/// A second or so for each step above 14, doubled by each.
const MAX_COST: u32 = 20;
const LONGEST: usize = 72;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_hash_is_of_its_password_alone() {
        // The one that exporter-toolkit itself compares unknown callers with.
        let hash =
            Hash::parse("$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi").unwrap();
        assert!(hash.is_of(b"fakepassword"));
        assert!(!hash.is_of(b"fakepasswor") && !hash.is_of(b""));
        assert!(!Hash::decoy(4).is_of(b"fakepassword"));
    }

    #[test]
    fn what_is_no_hash_is_refused_without_showing_it() {
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
