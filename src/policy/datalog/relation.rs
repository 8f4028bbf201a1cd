//! The facts of one predicate.

#![allow(
    clippy::indexing_slicing,
    reason = "row numbers are made and bounded here; a wrong one must stop the decision, not read another fact"
)]

use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::word::Word;

/// From how many rows on looking a value up beats comparing all.
const INDEXED_FROM: usize = 12;

/// From how many rows on repeats are found by hash.
const HASHED_FROM: usize = 12;

const NONE: u32 = u32::MAX;

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Rows of one predicate and arity, with the origin of each.
#[derive(Debug, Default)]
pub struct Relation {
    arity: usize,
    rows: Vec<Word>,
    origins: Vec<u64>,
    /// Rows that were made from a body come first.
    pub made: usize,
    /// Where rows begin that rules derived from the shared facts.
    pub stated: usize,
    /// Where an item's own rows begin.
    pub shared: usize,
    /// Where rows begin that rules derived for the item.
    pub item_stated: usize,
    /// From here on rows are new to the rule at hand.
    pub mark: usize,
    seen: HashTable<(u64, u32)>,
    seen_upto: usize,
    indices: Vec<Index>,
}

/// Chains of the rows that have a value in a column.
#[derive(Debug, Default)]
struct Index {
    heads: HashTable<(Word, u32)>,
    next: Vec<u32>,
}

impl Relation {
    /// Empties it for another request.
    pub fn reset(&mut self, arity: usize) {
        self.arity = arity;
        self.rows.clear();
        self.origins.clear();
        (self.made, self.stated, self.shared, self.item_stated, self.mark) = (0, 0, 0, 0, 0);
        self.seen.clear();
        self.seen_upto = 0;
        for index in &mut self.indices {
            index.heads.clear();
            index.next.clear();
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.origins.len()
    }

    /// About how many bytes it holds on to.
    pub fn memory(&self) -> usize {
        self.rows.capacity() * 8 + self.origins.capacity() * 8 + self.seen.capacity() * 16
    }

    /// The value in a column.
    pub fn at(&self, row: usize, col: usize) -> Word {
        self.rows[row * self.arity + col]
    }

    /// A row.
    pub fn row(&self, row: usize) -> &[Word] {
        &self.rows[row * self.arity..(row + 1) * self.arity]
    }

    /// Which blocks and files a row comes from.
    pub fn origin(&self, row: usize) -> u64 {
        self.origins[row]
    }

    /// Adds a row.
    pub fn push(&mut self, row: &[Word], origin: u64) -> usize {
        self.rows.extend_from_slice(row);
        self.origins.push(origin);
        self.origins.len() - 1
    }

    /// Adds a row unless it is there with an origin that whoever sees the new one sees too: then it says
    /// nothing new.
    pub fn push_new(&mut self, row: &[Word], origin: u64) -> bool {
        if self.len() < HASHED_FROM {
            let known = (0..self.len()).any(|r| self.origins[r] & !origin == 0 && self.row(r) == row);
            if !known {
                self.push(row, origin);
            }
            return !known;
        }
        for r in self.seen_upto..self.len() {
            let hash = hash(self.row(r));
            self.seen.insert_unique(hash, (hash, r as u32), |(h, _)| *h);
        }
        self.seen_upto = self.len();
        let hash = hash(row);
        let (rows, origins, arity) = (&self.rows, &self.origins, self.arity);
        let known = self.seen.find(hash, |(h, r)| {
            let r = *r as usize;
            *h == hash && origins[r] & !origin == 0 && rows[r * arity..(r + 1) * arity] == *row
        });
        if known.is_some() {
            return false;
        }
        let r = self.push(row, origin);
        self.seen.insert_unique(hash, (hash, r as u32), |(h, _)| *h);
        self.seen_upto = self.len();
        true
    }

    /// Forgets the rows from `len` on.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        for r in (len..self.seen_upto).rev() {
            let hash = hash(self.row(r));
            if let Ok(entry) = self.seen.find_entry(hash, |(_, row)| *row as usize == r) {
                entry.remove();
            }
        }
        self.seen_upto = self.seen_upto.min(len);
        for (col, index) in self.indices.iter_mut().enumerate() {
            for r in (len..index.next.len()).rev() {
                let word = self.rows[r * self.arity + col];
                let before = index.next[r];
                if let Some(head) = index.heads.find_mut(hash_word(word), |(w, _)| *w == word) {
                    head.1 = before;
                }
            }
            index.next.truncate(len);
        }
        self.rows.truncate(len * self.arity);
        self.origins.truncate(len);
    }

    /// Whether looking up is worth it.
    pub fn is_large(&self) -> bool {
        self.len() >= INDEXED_FROM
    }

    /// The last row that has the value in the column; [`Relation::before`] leads to the others.
    pub fn last_with(&mut self, col: usize, word: Word) -> Option<usize> {
        while self.indices.len() <= col {
            self.indices.push(Index::default());
        }
        let (rows, arity, len) = (&self.rows, self.arity, self.origins.len());
        let index = &mut self.indices[col];
        for r in index.next.len()..len {
            let word = rows[r * arity + col];
            let hash = hash_word(word);
            match index.heads.find_mut(hash, |(w, _)| *w == word) {
                Some(head) => {
                    index.next.push(head.1);
                    head.1 = r as u32;
                }
                None => {
                    index.next.push(NONE);
                    index.heads.insert_unique(hash, (word, r as u32), |(w, _)| hash_word(*w));
                }
            }
        }
        index.heads.find(hash_word(word), |(w, _)| *w == word).and_then(|(_, r)| row_number(*r))
    }

    /// The row before this one with the same value in the column.
    pub fn before(&self, col: usize, row: usize) -> Option<usize> {
        row_number(self.indices[col].next[row])
    }
}

fn row_number(row: u32) -> Option<usize> {
    (row != NONE).then_some(row as usize)
}

fn hash(row: &[Word]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = HASHER.build_hasher();
    for word in row {
        hasher.write_u64(word.bits());
    }
    hasher.finish()
}

fn hash_word(word: Word) -> u64 {
    hash(&[word])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(value: i64) -> Word {
        Word::small_integer(value).unwrap()
    }

    fn with(relation: &mut Relation, col: usize, value: i64) -> Vec<usize> {
        let mut found = Vec::new();
        let mut next = relation.last_with(col, word(value));
        while let Some(row) = next {
            found.push(row);
            next = relation.before(col, row);
        }
        found.reverse();
        found
    }

    #[test]
    fn rows_are_found_by_value_also_after_some_were_forgotten() {
        let mut relation = Relation::default();
        relation.reset(2);
        for i in 0..40 {
            relation.push(&[word(i % 4), word(i)], 1);
        }
        assert_eq!(with(&mut relation, 0, 3), (0..40).filter(|i| i % 4 == 3).collect::<Vec<_>>());
        relation.truncate(10);
        assert_eq!(with(&mut relation, 0, 3), [3, 7]);
        assert_eq!(with(&mut relation, 0, 2), [2, 6]);
        relation.push(&[word(3), word(99)], 1);
        assert_eq!(with(&mut relation, 0, 3), [3, 7, 10]);
        assert_eq!(with(&mut relation, 1, 39), [] as [usize; 0]);
        relation.truncate(0);
        assert_eq!(with(&mut relation, 0, 3), [] as [usize; 0]);
    }

    #[test]
    fn a_repeat_is_dropped_only_if_its_origin_is_seen_wherever_the_new_one_is() {
        for filler in [0, 40] {
            let mut relation = Relation::default();
            relation.reset(1);
            for i in 0..filler {
                assert!(relation.push_new(&[word(1000 + i)], 1));
            }
            assert!(relation.push_new(&[word(7)], 0b110));
            assert!(!relation.push_new(&[word(7)], 0b110));
            assert!(!relation.push_new(&[word(7)], 0b111));
            assert!(relation.push_new(&[word(7)], 0b010));
            let len = relation.len();
            assert!(relation.push_new(&[word(8)], 1));
            relation.truncate(len);
            assert!(relation.push_new(&[word(8)], 1), "forgotten rows are new again");
        }
    }
}
