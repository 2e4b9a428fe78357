//! A raw HTTP response, as `curl -si` prints it.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// A response on its way to be explained.
pub(super) struct Response<'a> {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: &'a [u8],
    /// Lines among the headers that are none.
    pub(super) unread: Vec<String>,
}

impl<'a> Response<'a> {
    /// Reads the last response in a text: those of a proxy, of `100 Continue` and of redirects that
    /// were followed stand before it.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut response = Self::first(bytes)?;
        while response.body.starts_with(b"HTTP/") && !response.is_final() {
            match Self::first(response.body) {
                Some(next) => response = next,
                None => break,
            }
        }
        Some(response)
    }

    fn first(bytes: &'a [u8]) -> Option<Self> {
        let (line, mut rest) = line(bytes)?;
        let mut words = line.split(|&byte| byte == b' ');
        words
            .next()
            .filter(|version| version.starts_with(b"HTTP/"))?;
        let status = StatusCode::from_bytes(words.next()?).ok()?;
        let mut response = Self {
            status,
            headers: HeaderMap::new(),
            body: b"",
            unread: Vec::new(),
        };
        while let Some((line, after)) = self::line(rest) {
            rest = after;
            if line.is_empty() {
                break;
            }
            response.header(line);
        }
        response.body = rest;
        Some(response)
    }

    /// One line; what is no header is kept for the user and spoils nothing else.
    fn header(&mut self, line: &[u8]) {
        let header = line
            .iter()
            .position(|&byte| byte == b':')
            .and_then(|colon| {
                let name = HeaderName::from_bytes(line[..colon].trim_ascii()).ok()?;
                Some((
                    name,
                    HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?,
                ))
            });
        match header {
            Some((name, value)) if self.headers.len() < MOST => {
                self.headers.append(name, value);
            }
            _ => self
                .unread
                .push(String::from_utf8_lossy(line).chars().take(80).collect()),
        }
    }

    /// Whether no other response follows: only these are followed by one in curl's output.
    fn is_final(&self) -> bool {
        let connected = self.status == 200 && self.headers.is_empty();
        !(self.status.is_informational() || self.status.is_redirection() || connected)
    }
}

/// The first line without its end, and what follows it.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if bytes.is_empty() {
        return None;
    }
    let end = bytes
        .iter()
        .position(|&byte| byte == b'\n')
        .unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at(end);
    Some((
        line.strip_suffix(b"\r").unwrap_or(line),
        rest.strip_prefix(b"\n").unwrap_or(rest),
    ))
}

/// More headers than any server sends; a map panics at 32,768.
const MOST: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_response_is_read_after_a_proxy_and_redirects() {
        let text = b"HTTP/1.1 200 Connection established\r\n\r\n\
            HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n\
            HTTP/2 429 \r\nretry-after: 3\r\n\r\n{\"a\":1}";
        let response = Response::read(text).expect("it is a response");
        assert_eq!(response.status, 429);
        assert_eq!(response.headers["retry-after"], "3");
        assert_eq!(response.body, b"{\"a\":1}");
    }

    #[test]
    fn a_line_that_is_no_header_spoils_no_other() {
        let text = b"HTTP/1.1 200 OK\nno header\nbad name: x\nRetry-After: 3\n\nbody";
        let response = Response::read(text).expect("it is a response");
        assert_eq!(response.unread.len(), 2);
        assert_eq!(response.headers["retry-after"], "3");
        assert_eq!(response.body, b"body");
    }

    #[test]
    fn what_is_no_response_is_none() {
        for text in [
            &b""[..],
            b"{}",
            b"HTTP/1.1",
            b"HTTP/1.1 abc",
            b"GET / HTTP/1.1\r\n\r\n",
        ] {
            assert!(Response::read(text).is_none(), "{text:?}");
        }
    }
}
