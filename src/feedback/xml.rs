//! A reader for XML bodies that may be cut off anywhere: it tells the text of every element.

use super::codes::contains;

/// Tells the text of every element of an XML body; an HTML page tells nothing.
pub(crate) fn visit<'a>(text: &'a [u8], mut tell: impl FnMut(&'a [u8], &'a [u8])) {
    if is_page(text) {
        return;
    }
    let mut rest = text;
    while let Some(open) = rest.iter().position(|&byte| byte == b'<') {
        rest = &rest[open + 1..];
        let Some(close) = rest.iter().position(|&byte| byte == b'>') else {
            return;
        };
        let (name, after) = (&rest[..close], &rest[close + 1..]);
        let Some(end) = after.iter().position(|&byte| byte == b'<') else {
            return;
        };
        if !after[..end].trim_ascii().is_empty() {
            tell(name, after[..end].trim_ascii());
        }
        rest = after;
    }
}

/// Whether it is a page for people.
fn is_page(text: &[u8]) -> bool {
    let start = text.get(..15).unwrap_or(text);
    contains(start, b"<html") || contains(start, b"<!doctype html")
}
