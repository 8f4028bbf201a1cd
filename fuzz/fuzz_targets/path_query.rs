//! A path that parses climbs nowhere, and is sent as it came.
#![no_main]

use kleis::facts::{Path, Query};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|raw: &str| {
    let (path, query) = raw.split_once('?').map_or((raw, None), |(path, query)| (path, Some(query)));
    if let Ok(parsed) = Path::parse(path) {
        assert_eq!(parsed.as_str(), path);
        let segments = parsed.segments();
        for (index, segment) in segments.iter().enumerate() {
            assert!(!segment.is_empty() || index + 1 == segments.len());
            assert!(segment.split('/').all(|part| !matches!(part.split(';').next(), Some("." | ".."))));
            assert!(!segment.contains('\\') && !segment.chars().any(char::is_control));
        }
        if !parsed.is_asterisk() {
            assert_eq!(segments.len(), path.matches('/').count() - usize::from(path == "/"));
        }
    }
    if let Ok(parsed) = Query::parse(query) {
        let given = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).count();
        assert_eq!(parsed.pairs().len(), given);
    }
});
