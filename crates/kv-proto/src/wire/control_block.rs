//! The board: words in a client's landing by which a store that reaches its memory at no cost hears and
//! answers, without a message.
//!
//! A client may have one, at the beginning of its landing. While the store **watches** it, a batch is asked for by
//! a [`Note`] of where its message lies, and answered by a **bell**: the note's sequence, in the word before the
//! answers, once they are placed. One answer and its bell are a line of the caches, which travels once. Each side writes, looks whether the other still watches or
//! sleeps, and sends a message if so: so nothing is missed whoever goes to sleep.

/// Where the words are.
#[derive(Debug)]
pub struct Board;

impl Board {
    /// How many bytes of the landing it takes.
    pub const LENGTH: usize = Self::TAKEN + 64;
    /// The client's own line: its state, then its notes. The store reads it whole.
    pub const CLIENT: usize = 0;
    /// How long that is.
    pub const LINE: usize = 64;
    /// The store's word: whether it watches.
    pub const STORE: usize = 64;
    /// The client's second word, in a line of its own: the sequence up to which it has taken all answers. What the
    /// store lent it for those is the store's again.
    pub const TAKEN: usize = 128;
    /// How long a bell is, which stands before the answers of a batch that was noted.
    pub const BELL: usize = 8;
    /// How many notes there are.
    pub const NOTES: usize = 7;

    /// The client's state while it sleeps, or the store's while it watches; 0 otherwise.
    pub const YES: u64 = 1;

    /// Where the note of a sequence is.
    #[inline]
    pub fn note(sequence: u64) -> usize {
        Self::CLIENT + 8 * (1 + (sequence % Self::NOTES as u64) as usize)
    }
}

/// Where a batch's message lies in the landing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The low bits of its sequence; sequences begin at 1.
    pub sequence: u16,
    /// How long it is.
    pub length: u16,
    /// Where it is, in units of 64 bytes.
    pub at: u32,
}

impl Note {
    /// What [`Note::at`] counts.
    pub const UNIT: usize = 64;

    /// As a word.
    #[inline]
    pub fn to_word(self) -> u64 {
        u64::from(self.sequence) | u64::from(self.length) << 16 | u64::from(self.at) << 32
    }

    /// From a word; every word is a note, of some sequence.
    #[inline]
    pub fn from_word(word: u64) -> Self {
        Note { sequence: word as u16, length: (word >> 16) as u16, at: (word >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_and_places_do_not_overlap() {
        let note = Note { sequence: 65_535, length: 1, at: u32::MAX };
        assert_eq!(Note::from_word(note.to_word()), note);
        let notes: std::collections::BTreeSet<_> = (1..=7).map(Board::note).collect();
        assert_eq!(notes, (1..=7).map(|at| at * 8).collect());
        assert!(notes.iter().all(|at| (8..Board::LINE).contains(at)));
        assert!(
            Board::STORE.is_multiple_of(Board::LINE) && Board::TAKEN.is_multiple_of(Board::LINE)
        );
    }
}
