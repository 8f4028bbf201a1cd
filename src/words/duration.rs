//! Durations as people write them: `15s`, `5m`, `24h`, `90d`, `250ms`.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration: use a number and ms, s, m, h or d, as in `15s`")]
pub struct DurationError(pub String);

/// Parses one number with one unit. At most 100 years, so that adding it to a time never overflows.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let wrong = || DurationError(text.to_owned());
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let millis = number.checked_mul(millis_per_unit).ok_or_else(wrong)?;
    if millis > 36_525 * 86_400_000 {
        return Err(wrong());
    }
    Ok(Duration::from_millis(millis))
}

/// The shortest spelling that [`parse_duration`] reads back as the same value (to the millisecond).
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    for (size, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if millis >= size && millis.is_multiple_of(size) {
            return format!("{}{unit}", millis / size);
        }
    }
    format!("{millis}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for text in ["250ms", "15s", "5m", "36h", "90d", "0ms"] {
            let parsed = parse_duration(text).unwrap();
            assert_eq!(parse_duration(&format_duration(parsed)).unwrap(), parsed, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused_with_the_text() {
        for text in ["", "12", "12x", "-5s", "1.5h", "h", "99999999999999999999s", "40000d", "5 m"] {
            assert_eq!(parse_duration(text), Err(DurationError(text.to_owned())));
        }
    }
}
