//! `Content-Encoding`, undone within a bound (RFC 9110 §8.4), for judging only: the bytes that go
//! upstream are the ones that came.
//!
//! What servers disagree on is refused: bytes behind the end of a stream (some read a second gzip member,
//! some stop), a `deflate` that reads both with and without its zlib header, more than two encodings on
//! top of each other.

use std::io::Read;

use brotli::{BrotliDecompressStream, BrotliResult, BrotliState, HeapAlloc, HuffmanCode};
use flate2::bufread::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Operation};

const CHUNK: usize = 16 * 1024;
/// RFC 9659: a `zstd` content coding has a window of at most 8 MiB.
const ZSTD_WINDOW_LOG: u32 = 23;
const MAX_STACKED: usize = 2;

/// What came out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Undone {
    pub(super) bytes: Vec<u8>,
    /// Whether the stream came to its end: otherwise these are the first bytes only.
    pub(super) ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EncodingError {
    Wrong(&'static str),
    TooLarge,
}

use EncodingError::{TooLarge, Wrong};

/// How far to go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Upto {
    /// To the end; more than so many bytes are too many.
    End(usize),
    /// No further than so many bytes.
    Prefix(usize),
}

impl Upto {
    /// How far to go in a layer that is decoded again: compressing grows no text by more than this.
    fn of_a_layer(self) -> Upto {
        let grown = |most: usize| most.saturating_add(most / 8).saturating_add(CHUNK);
        match self {
            Upto::End(most) => Upto::End(grown(most)),
            Upto::Prefix(most) => Upto::Prefix(grown(most)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Whether a `Content-Encoding` changes nothing.
pub(super) fn is_identity(encoding: &str) -> bool {
    codings(encoding).is_ok_and(|codings| codings.is_empty())
}

/// Undoes all that the field lists. `complete` says whether `bytes` are all there are; if they are not,
/// what can be known of the beginning comes out.
pub(super) fn undo(encoding: &str, bytes: &[u8], complete: bool, upto: Upto) -> Result<Undone, EncodingError> {
    let mut now = Undone { bytes: Vec::new(), ended: complete };
    let codings = codings(encoding)?;
    for (index, coding) in codings.iter().enumerate().rev() {
        let input = if index + 1 == codings.len() { bytes } else { &now.bytes };
        now = undo_one(*coding, input, now.ended, if index == 0 { upto } else { upto.of_a_layer() })?;
    }
    Ok(now)
}

fn codings(encoding: &str) -> Result<Vec<Coding>, EncodingError> {
    let mut codings = Vec::new();
    for name in encoding.split(',').map(str::trim) {
        codings.push(match name.to_ascii_lowercase().as_str() {
            "" | "identity" => continue,
            "gzip" | "x-gzip" => Coding::Gzip,
            "deflate" => Coding::Deflate,
            "br" => Coding::Brotli,
            "zstd" => Coding::Zstd,
            _ => return Err(Wrong("a content encoding other than gzip, deflate, br and zstd")),
        });
    }
    if codings.len() > MAX_STACKED { Err(Wrong("more than two content encodings")) } else { Ok(codings) }
}

fn undo_one(coding: Coding, input: &[u8], complete: bool, upto: Upto) -> Result<Undone, EncodingError> {
    let mut out = Out { bytes: Vec::new(), upto };
    let rest = match coding {
        Coding::Gzip => gzip(input, &mut out)?,
        Coding::Deflate if complete => return deflate_of_either_kind(input, upto),
        // Which kind it is can't be told from a beginning.
        Coding::Deflate => None,
        Coding::Brotli => brotli(input, &mut out)?,
        Coding::Zstd => zstd(input, &mut out)?,
    };
    let ended = match rest {
        Some([]) => true,
        Some(_) => return Err(Wrong("bytes behind the end of a content encoding")),
        None if complete && !out.is_full() => return Err(Wrong("a content encoding that stops in the middle")),
        None => false,
    };
    Ok(Undone { bytes: out.bytes, ended })
}

/// Bytes coming out, and how many there may be.
struct Out {
    bytes: Vec<u8>,
    upto: Upto,
}

impl Out {
    fn is_full(&self) -> bool {
        matches!(self.upto, Upto::Prefix(most) if self.bytes.len() >= most)
    }

    /// Takes a piece; `false` when that is enough.
    fn take(&mut self, piece: &[u8]) -> Result<bool, EncodingError> {
        match self.upto {
            Upto::End(most) if self.bytes.len() + piece.len() > most => return Err(TooLarge),
            Upto::End(_) => self.bytes.extend_from_slice(piece),
            Upto::Prefix(most) => self.bytes.extend(piece.iter().take(most.saturating_sub(self.bytes.len()))),
        }
        Ok(!self.is_full())
    }
}

/// Each of these gives the bytes behind the stream's end, or `None` if it has not come to its end.
type Rest<'a> = Result<Option<&'a [u8]>, EncodingError>;

fn gzip<'a>(input: &'a [u8], out: &mut Out) -> Rest<'a> {
    let mut decoder = GzDecoder::new(input);
    let mut chunk = vec![0; CHUNK];
    loop {
        match decoder.read(&mut chunk) {
            Ok(0) => return Ok(Some(decoder.into_inner())),
            Ok(n) if out.take(chunk.get(..n).unwrap_or_default())? => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(_) => return Err(Wrong("broken gzip")),
        }
    }
}

/// `deflate` is zlib (RFC 9110 §8.4.1.2), and some clients send raw deflate; servers guess. A stream that
/// reads as both is refused.
fn deflate_of_either_kind(input: &[u8], upto: Upto) -> Result<Undone, EncodingError> {
    let read = |zlib: bool| {
        let mut out = Out { bytes: Vec::new(), upto };
        match deflate(input, zlib, &mut out)? {
            Some([]) => Ok(Undone { bytes: out.bytes, ended: true }),
            None if out.is_full() => Ok(Undone { bytes: out.bytes, ended: false }),
            _ => Err(Wrong("broken deflate")),
        }
    };
    match (read(true), read(false)) {
        (Ok(_), Ok(_)) => Err(Wrong("a deflate stream that reads in two ways")),
        (Ok(undone), Err(Wrong(_))) | (Err(Wrong(_)), Ok(undone)) => Ok(undone),
        (Err(TooLarge), _) | (_, Err(TooLarge)) => Err(TooLarge),
        (Err(error), Err(_)) => Err(error),
    }
}

fn deflate<'a>(input: &'a [u8], zlib: bool, out: &mut Out) -> Rest<'a> {
    let mut state = Decompress::new(zlib);
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let (was_in, was_out) = (state.total_in(), state.total_out());
        let status = state.decompress(rest, &mut chunk, FlushDecompress::None).map_err(|_| Wrong("broken deflate"))?;
        let (read, made) = (delta(was_in, state.total_in()), delta(was_out, state.total_out()));
        at += read;
        if !out.take(chunk.get(..made).unwrap_or_default())? {
            return Ok(None);
        }
        if status == Status::StreamEnd {
            return Ok(input.get(at..));
        }
        if read == 0 && made == 0 {
            return Ok(None);
        }
    }
}

fn delta(before: u64, after: u64) -> usize {
    usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX)
}

fn brotli<'a>(input: &'a [u8], out: &mut Out) -> Rest<'a> {
    let mut state =
        BrotliState::new(HeapAlloc::new(0_u8), HeapAlloc::new(0_u32), HeapAlloc::new(HuffmanCode::default()));
    // Not part of RFC 7932: a server would refuse it, and it would cost up to a gigabyte here.
    state.large_window = false;
    let mut chunk = vec![0; CHUNK];
    let (mut left, mut at, mut total) = (input.len(), 0, 0);
    loop {
        let (mut room, mut made) = (chunk.len(), 0);
        let result =
            BrotliDecompressStream(&mut left, &mut at, input, &mut room, &mut made, &mut chunk, &mut total, &mut state);
        if !out.take(chunk.get(..made).unwrap_or_default())? {
            return Ok(None);
        }
        match result {
            BrotliResult::ResultSuccess => return Ok(input.get(at..)),
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::NeedsMoreInput => return Ok(None),
            BrotliResult::ResultFailure => return Err(Wrong("broken brotli")),
        }
    }
}

fn zstd<'a>(input: &'a [u8], out: &mut Out) -> Rest<'a> {
    let broken = |_| Wrong("broken zstd, or a window over 8 MiB");
    let mut decoder = zstd::stream::raw::Decoder::new().map_err(broken)?;
    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).map_err(broken)?;
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let status = decoder.run_on_buffers(rest, &mut chunk).map_err(broken)?;
        at += status.bytes_read;
        if !out.take(chunk.get(..status.bytes_written).unwrap_or_default())? {
            return Ok(None);
        }
        if status.remaining == 0 {
            return Ok(input.get(at..));
        }
        if status.bytes_read == 0 && status.bytes_written == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn br(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        brotli::CompressorWriter::new(&mut out, 4096, 5, 20).write_all(bytes).unwrap();
        out
    }

    fn zst(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 3).unwrap()
    }

    fn all(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        vec![
            ("gzip", gz(bytes)),
            ("x-gzip", gz(bytes)),
            ("deflate", zlib(bytes)),
            ("deflate", raw_deflate(bytes)),
            ("br", br(bytes)),
            ("zstd", zst(bytes)),
            ("gzip, br", br(&gz(bytes))),
            ("zstd,gzip", gz(&zst(bytes))),
        ]
    }

    fn whole(encoding: &str, bytes: &[u8], max: usize) -> Result<Vec<u8>, EncodingError> {
        undo(encoding, bytes, true, Upto::End(max)).map(|undone| undone.bytes)
    }

    #[test]
    fn r92_every_encoding_is_undone() {
        let text = br#"{"action":"delete"}"#.repeat(5000);
        for (encoding, bytes) in all(&text) {
            assert_eq!(whole(encoding, &bytes, 1 << 20), Ok(text.clone()), "{encoding}");
            assert_eq!(whole(&encoding.to_uppercase(), &bytes, text.len()), Ok(text.clone()), "{encoding}");
        }
    }

    #[test]
    fn r100_what_comes_out_is_bounded() {
        let bomb = vec![0; 4 << 20];
        for (encoding, bytes) in all(&bomb) {
            assert_eq!(whole(encoding, &bytes, (4 << 20) - 1), Err(TooLarge), "{encoding}");
        }
    }

    #[test]
    fn a_stream_that_stops_or_goes_on_is_refused() {
        for (encoding, bytes) in all(b"hello hello hello hello") {
            assert!(whole(encoding, &bytes[..bytes.len() - 1], 100).is_err(), "{encoding} cut");
            let mut longer = bytes.clone();
            longer.push(0);
            assert!(whole(encoding, &longer, 100).is_err(), "{encoding} and a byte");
            let twice = [bytes.clone(), bytes.clone()].concat();
            assert!(whole(encoding, &twice, 100).is_err(), "{encoding} twice");
            assert!(whole(encoding, b"", 100).is_err(), "{encoding} empty");
        }
    }

    #[test]
    fn broken_checksums_are_refused() {
        for mut bytes in [gz(b"hello"), zlib(b"hello")] {
            let encoding = if bytes[0] == 0x1f { "gzip" } else { "deflate" };
            let at = bytes.len() - 5 + usize::from(encoding == "deflate") * 4;
            bytes[at] ^= 1;
            assert!(whole(encoding, &bytes, 100).is_err(), "{encoding}");
        }
    }

    #[test]
    fn a_deflate_that_reads_in_two_ways_is_refused() {
        // With its header, one stored block of 65379 bytes; without, a stored block of 156 bytes and then,
        // inside the other's payload, a final one to the end.
        let mut payload = vec![b'a'; 65_379];
        payload[154..159].copy_from_slice(&[1, 0xcd, 0xfe, 0x32, 0x01]);
        let mut both = vec![0x78, 0x9c, 0, 0x63, 0xff, 0x9c, 0];
        both.extend(&payload);
        both.extend([1, 0, 0, 0xff, 0xff]);
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in &payload {
            a = (a + u32::from(*byte)) % 65_521;
            b = (b + a) % 65_521;
        }
        both.extend((b << 16 | a).to_be_bytes());
        let read = |zlib| deflate(&both, zlib, &mut Out { bytes: Vec::new(), upto: Upto::End(1 << 20) }).unwrap();
        assert_eq!((read(true), read(false)), (Some(&[][..]), Some(&[][..])));
        assert_eq!(whole("deflate", &both, 1 << 20), Err(Wrong("a deflate stream that reads in two ways")));
    }

    #[test]
    fn unknown_and_stacked_encodings_are_refused() {
        for encoding in ["aws-chunked", "compress", "gzip, gzip, gzip", "gzip;q=1", "gzip br"] {
            assert!(matches!(whole(encoding, b"", 100), Err(Wrong(_))), "{encoding}");
        }
        assert!(is_identity("") && is_identity("identity, ") && !is_identity("gzip") && !is_identity("x"));
    }

    #[test]
    fn r83_the_beginning_of_a_stream_is_read() {
        let noise: Vec<u8> = (0..200_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for (encoding, bytes) in all(&noise) {
            let cut = &bytes[..bytes.len() / 2];
            let undone = undo(encoding, cut, false, Upto::Prefix(1000)).unwrap();
            if encoding != "deflate" {
                assert_eq!(undone.bytes, noise[..1000], "{encoding}");
            }
            assert!(!undone.ended);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), which in 0_usize..6) {
            let encoding = ["gzip", "deflate", "br", "zstd", "gzip,br", "zstd,deflate"][which];
            let _ = whole(encoding, &bytes, 10_000);
            let _ = undo(encoding, &bytes, false, Upto::Prefix(100));
        }
    }
}
