//! What a listener says to a preface. This layout is the same in all versions, for ever: an old end must
//! be able to read why a new one refuses it.

use super::preface::{MAGIC, Versions};
use super::refusal::{Reason, shortened};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// 0: go on; else why not.
    pub(super) verdict: u8,
    /// The version of all that follows, 0 where nothing follows.
    pub(super) chosen: u8,
    /// What the listener speaks.
    pub(super) versions: Versions,
    /// Noise's second message, or a text.
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn go_on(chosen: u8, body: Vec<u8>) -> Self {
        Answer { verdict: 0, chosen, versions: Versions::OURS, body }
    }

    pub(super) fn refuse(reason: Reason, text: &str) -> Self {
        let body = shortened(text).as_bytes().to_vec();
        Answer { verdict: reason.code(), chosen: 0, versions: Versions::OURS, body }
    }

    /// What Noise's second message repeats under encryption, so that nobody changes it between us.
    pub(super) fn summary(&self) -> [u8; 4] {
        [self.verdict, self.chosen, self.versions.lowest, self.versions.highest]
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let length = (self.body.len() as u16).to_le_bytes();
        [&MAGIC[..], &self.summary(), &length, &self.body].concat()
    }

    /// The answer and how many bytes it took, once all came. None ever comes of other bytes.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, NotOurs> {
        if !bytes.iter().zip(MAGIC).all(|(theirs, ours)| theirs == ours) {
            return Err(NotOurs);
        }
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
        let [_, _, _, _, verdict, chosen, lowest, highest, low, high] = *head;
        let length = usize::from(u16::from_le_bytes([low, high]));
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let versions = Versions { lowest, highest };
        let answer = Answer { verdict, chosen, versions, body: body.to_vec() };
        Ok(Some((answer, HEAD + length)))
    }
}

/// Something else answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotOurs;

const HEAD: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_when_they_are_whole() {
        let answer = Answer::refuse(Reason::WrongVersion, "update");
        let bytes = [&answer.to_bytes()[..], b"more"].concat();
        for cut in 0..16 {
            assert_eq!(Answer::parse(&bytes[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(Answer::parse(&bytes), Ok(Some((answer, 16))));
        assert_eq!(Answer::parse(b"HTTP/1.1 400 Bad Request"), Err(NotOurs));
    }
}
