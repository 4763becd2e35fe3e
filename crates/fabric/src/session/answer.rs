//! The listener's answer to a preface. This layout never changes: an old end must
//! be able to read why a newer one refuses it.

use super::preface::{MAGIC, Versions};
use super::refusal::{Reason, shortened};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// 0: accepted; otherwise the code of a refusal.
    pub(super) verdict: u8,
    /// The version of what follows; 0 in a refusal.
    pub(super) chosen: u8,
    /// The versions that the listener supports.
    pub(super) versions: Versions,
    /// The second Noise message, or the text of a refusal.
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn accept(chosen: u8, body: Vec<u8>) -> Self {
        Answer { verdict: 0, chosen, versions: Versions::OURS, body }
    }

    pub(super) fn refuse(reason: Reason, text: &str) -> Self {
        let body = shortened(text).as_bytes().to_vec();
        Answer { verdict: reason.code(), chosen: 0, versions: Versions::OURS, body }
    }

    /// The payload of the second Noise message, by which the initiator detects changes in transit.
    pub(super) fn summary(&self) -> [u8; 4] {
        [self.verdict, self.chosen, self.versions.lowest, self.versions.highest]
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let length = (self.body.len() as u16).to_le_bytes();
        [&MAGIC[..], &self.summary(), &length, &self.body].concat()
    }

    /// The answer and its length, once it is complete.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, UnknownProtocol> {
        if !bytes.iter().zip(MAGIC).all(|(theirs, ours)| theirs == ours) {
            return Err(UnknownProtocol);
        }
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [_, _, _, _, verdict, chosen, lowest, highest, low, high] = *head;
        let length = usize::from(u16::from_le_bytes([low, high]));
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let versions = Versions { lowest, highest };
        let answer = Answer { verdict, chosen, versions, body: body.to_vec() };
        Ok(Some((answer, HEAD_BYTES + length)))
    }
}

/// The bytes are not an answer of this protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownProtocol;

const HEAD_BYTES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_parsed_when_complete() {
        let answer = Answer::refuse(Reason::WrongVersion, "update");
        let bytes = [&answer.to_bytes()[..], b"more"].concat();
        for cut in 0..16 {
            assert_eq!(Answer::parse(&bytes[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(Answer::parse(&bytes), Ok(Some((answer, 16))));
        assert_eq!(Answer::parse(b"HTTP/1.1 400 Bad Request"), Err(UnknownProtocol));
    }
}
