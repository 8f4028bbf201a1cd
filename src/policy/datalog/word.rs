//! A value in one machine word, so that unification is a comparison of integers.

/// A tagged word. Small integers and dates, booleans and null are in it; everything else is the number
/// of an interned value. Within one pair of layers equal values are equal words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word(u64);

/// What a word stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Str,
    Date,
    Bytes,
    Bool,
    Set,
    Null,
    Array,
    Map,
}

const TAG_BITS: u32 = 4;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

/// The low bits. `WideInteger` and `WideDate` are for values of more than 60 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Tag {
    Integer = 0,
    Str = 1,
    Date = 2,
    Bytes = 3,
    Bool = 4,
    Set = 5,
    Null = 6,
    Array = 7,
    Map = 8,
    WideInteger = 9,
    WideDate = 10,
}

impl Word {
    pub const NULL: Word = Word(Tag::Null as u64);
    pub const TRUE: Word = Word((1 << TAG_BITS) | Tag::Bool as u64);
    pub const FALSE: Word = Word(Tag::Bool as u64);

    /// An interned value's number under its tag.
    pub fn interned(tag: Tag, id: usize) -> Word {
        Word(((id as u64) << TAG_BITS) | tag as u64)
    }

    pub fn bool(value: bool) -> Word {
        if value { Word::TRUE } else { Word::FALSE }
    }

    /// The integer, if 60 bits hold it.
    pub fn small_integer(value: i64) -> Option<Word> {
        let shifted = value << TAG_BITS;
        (shifted >> TAG_BITS == value).then_some(Word(shifted as u64 | Tag::Integer as u64))
    }

    /// The date, if 60 bits hold it.
    pub fn small_date(value: u64) -> Option<Word> {
        (value >> (64 - TAG_BITS) == 0).then_some(Word((value << TAG_BITS) | Tag::Date as u64))
    }

    pub fn tag(self) -> Tag {
        match self.0 & TAG_MASK {
            0 => Tag::Integer,
            1 => Tag::Str,
            2 => Tag::Date,
            3 => Tag::Bytes,
            4 => Tag::Bool,
            5 => Tag::Set,
            7 => Tag::Array,
            8 => Tag::Map,
            9 => Tag::WideInteger,
            10 => Tag::WideDate,
            _ => Tag::Null,
        }
    }

    pub fn kind(self) -> Kind {
        match self.tag() {
            Tag::Integer | Tag::WideInteger => Kind::Integer,
            Tag::Str => Kind::Str,
            Tag::Date | Tag::WideDate => Kind::Date,
            Tag::Bytes => Kind::Bytes,
            Tag::Bool => Kind::Bool,
            Tag::Set => Kind::Set,
            Tag::Null => Kind::Null,
            Tag::Array => Kind::Array,
            Tag::Map => Kind::Map,
        }
    }

    /// The number of an interned value.
    pub fn id(self) -> usize {
        (self.0 >> TAG_BITS) as usize
    }

    /// The value of a small integer.
    pub fn inline_integer(self) -> i64 {
        (self.0 as i64) >> TAG_BITS
    }

    /// The value of a small date.
    pub fn inline_date(self) -> u64 {
        self.0 >> TAG_BITS
    }

    /// The bits, for hashing.
    pub fn bits(self) -> u64 {
        self.0
    }
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}#{}", self.tag(), self.0 >> TAG_BITS)
    }
}

impl Kind {
    /// The name that `.type()` gives.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Integer => "integer",
            Kind::Str => "string",
            Kind::Date => "date",
            Kind::Bytes => "bytes",
            Kind::Bool => "bool",
            Kind::Set => "set",
            Kind::Null => "null",
            Kind::Array => "array",
            Kind::Map => "map",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_inline_and_wide_ones_are_not() {
        for value in [0, 1, -1, 1 << 58, -(1 << 59), (1 << 59) - 1] {
            assert_eq!(Word::small_integer(value).map(Word::inline_integer), Some(value));
        }
        for value in [i64::MAX, i64::MIN, 1 << 59, -(1 << 59) - 1] {
            assert_eq!(Word::small_integer(value), None);
        }
        assert_eq!(Word::small_date((1 << 60) - 1).map(Word::inline_date), Some((1 << 60) - 1));
        assert_eq!(Word::small_date(1 << 60), None);
    }
}
