//! A file as it is read: as it lies there, or unpacked on the way where its name says so.
//!
//! Unpacking gzip takes some ten kilobytes, whatever the file is; zstd takes the window that the
//! file was packed with, 8 MiB as a rule.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// A file to read from.
pub(crate) enum Unpacked {
    Plain(File),
    /// Boxed, since it is large. Files of several members are one, as `cat` joins them.
    Gzip(Box<MultiGzDecoder<File>>),
    Zstd(Box<Frames<BufReader<File>>>),
}

impl Unpacked {
    /// Opens a file; one whose name ends in `.gz` is gzip, in `.zst` zstd.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let ending = path.extension().unwrap_or_default();
        Ok(if ending.eq_ignore_ascii_case("gz") {
            Self::Gzip(Box::new(MultiGzDecoder::new(file)))
        } else if ending.eq_ignore_ascii_case("zst") {
            Self::Zstd(Box::new(Frames::new(BufReader::new(file))))
        } else {
            Self::Plain(file)
        })
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (read, ending, kind) = match self {
            Self::Plain(file) => return file.read(buffer),
            Self::Gzip(gzip) => (gzip.read(buffer), ".gz", "gzip"),
            Self::Zstd(zstd) => (zstd.read(buffer), ".zst", "zstd"),
        };
        read.map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), format!("the {kind} file is cut off"))
            }
            code => io::Error::new(
                code,
                format!("{error} (its name ends in {ending}, so it is read as {kind})"),
            ),
        })
    }
}

/// The frames of a zstd file, one after the other, as `cat` joins them.
pub(crate) struct Frames<R> {
    source: R,
    frame: FrameDecoder,
    /// Whether a frame was begun.
    begun: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            frame: FrameDecoder::new(),
            begun: false,
        }
    }

    /// Begins the next frame. False at the end.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.frame.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = (&mut self.source).take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(said(&error)),
            }
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.begun {
                if !self.begin()? {
                    return Ok(0);
                }
                self.begun = true;
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.frame.decode_blocks(&mut self.source, one);
                decoded.map_err(|error| said(&error))?;
            }
            if self.frame.can_collect() > 0 {
                return self.frame.read(buffer);
            }
            self.begun = false;
        }
    }
}

/// The error of a frame; one that ends too soon says so.
fn said(error: &FrameDecoderError) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
            return io::ErrorKind::UnexpectedEof.into();
        }
        cause = error.source();
    }
    io::Error::other("it is broken, or no zstd")
}

/// What a file is that begins like no text, and what to do about it.
pub(crate) fn no_text(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(GZIP) {
        Some("the input is gzip: end its name in .gz, or pipe it through gunzip -c")
    } else if start.starts_with(ZSTD) {
        Some("the input is zstd: end its name in .zst, or pipe it through zstd -dc")
    } else if start.starts_with(ZIP) {
        Some("the input is a zip file or a spreadsheet: unpack it, or save it as CSV with UTF-8")
    } else if UTF_16.iter().any(|mark| start.starts_with(mark)) {
        Some("the input is UTF-16: save it as UTF-8 (iconv -f UTF-16 -t UTF-8 does it)")
    } else {
        None
    }
}

/// How a zip file begins (APPNOTE 4.3.7), and every spreadsheet of today with it.
const ZIP: &[u8] = b"PK\x03\x04";

/// The byte order marks of UTF-16.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// RFC 1952, section 2.3.1.
const GZIP: &[u8] = b"\x1f\x8b";

/// RFC 8878, section 3.1.1.
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(text).expect("written");
        gzip.finish().expect("written")
    }

    fn read(name: &str, bytes: &[u8]) -> io::Result<String> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(name);
        std::fs::write(&path, bytes)?;
        let mut text = String::new();
        Unpacked::open(&path)?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn a_name_that_ends_in_gz_is_unpacked_and_members_are_joined() {
        let members = [packed(b"one\n"), packed(b"two\n")].concat();
        assert_eq!(read("in.jsonl.gz", &members).expect("gzip"), "one\ntwo\n");
        assert_eq!(read("in.jsonl.GZ", &members).expect("gzip"), "one\ntwo\n");
        assert_eq!(read("in.jsonl", b"one\n").expect("plain"), "one\n");
    }

    #[test]
    fn what_is_cut_off_or_no_gzip_is_an_error_that_says_so() {
        let whole = packed(b"a line of some length\n");
        let error = read("in.gz", &whole[..whole.len() - 9]).expect_err("cut off");
        assert!(error.to_string().contains("cut off"), "{error}");
        let error = read("in.gz", b"{\"url\":\"/a\"}\n").expect_err("no gzip");
        assert!(error.to_string().contains("read as gzip"), "{error}");
    }
}
