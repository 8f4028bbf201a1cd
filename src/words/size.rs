//! Sizes as people write them: `64KiB`, `32MiB`, `1048576`.

/// Why a text is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size: use a number of bytes, or a number and KiB, MiB or GiB")]
pub struct SizeError(pub String);

/// Parses a number of bytes, optionally with `B`, `KiB`, `MiB` or `GiB` behind it.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let wrong = || SizeError(text.to_owned());
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert_eq!(parse_size("32MiB"), Ok(33_554_432));
        assert_eq!(parse_size("17"), Ok(17));
        for wrong in ["", "KiB", "1KB", "-1", "1.5MiB", "99999999999GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
