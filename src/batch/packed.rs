//! A file as it is read: as it lies there, or unpacked on the way where its name says so.
//!
//! Unpacking takes some ten kilobytes, whatever the file is.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// A file to read from.
pub(crate) enum Unpacked {
    Plain(File),
    /// Boxed, since it is large. Files of several members are one, as `cat` joins them.
    Gzip(Box<MultiGzDecoder<File>>),
}

impl Unpacked {
    /// Opens a file; one whose name ends in `.gz` is gzip.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let gzip = path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
        Ok(if gzip {
            Self::Gzip(Box::new(MultiGzDecoder::new(file)))
        } else {
            Self::Plain(file)
        })
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Gzip(gzip) => gzip.read(buffer).map_err(|error| match error.kind() {
                io::ErrorKind::Interrupted => error,
                io::ErrorKind::UnexpectedEof => {
                    io::Error::new(error.kind(), "the gzip file is cut off")
                }
                kind => io::Error::new(
                    kind,
                    format!("{error} (its name ends in .gz, so it is read as gzip)"),
                ),
            }),
        }
    }
}

/// What a file whose name does not say so begins with, and what to do about it.
pub(crate) fn packed_unawares(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(GZIP) {
        Some("the input is gzip: end its name in .gz, or pipe it through gunzip -c")
    } else if start.starts_with(ZSTD) {
        Some("the input is zstd: pipe it through zstd -dc")
    } else {
        None
    }
}

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
