//! A reader for bodies that may be cut off anywhere: it tells every scalar with its path.
//!
//! It keeps no tree and allocates nothing. Strings are given as they stand, escapes included: only
//! codes, numbers and plain sentences are looked for. At the first byte that is not JSON it stops,
//! and a value that the cut went through is not told at all.

/// A value without parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    /// Between its quotes, escapes untouched.
    Text(&'a [u8]),
    /// As written.
    Number(&'a [u8]),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
}

/// Where a value stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p, 'a> {
    /// The names that lead to it, outermost first, its own last. Arrays have no names, so their
    /// members have the path of the array.
    pub(crate) path: &'p [&'a [u8]],
    /// Which of the body's objects it stands in.
    pub(crate) object: u32,
}

/// Tells every scalar in `text`, in order.
pub(crate) fn visit<'a>(text: &'a [u8], mut tell: impl FnMut(Place<'_, 'a>, Scalar<'a>)) {
    let mut scan = Scan {
        text,
        at: 0,
        names: [b""; DEEPEST],
        frames: [Frame::Array; DEEPEST],
        depth: 0,
        named: false,
        opened: 0,
        ids: [0; DEEPEST],
    };
    // `None` is the end of the text or the first error; both end the walk.
    while scan.step(&mut tell).is_some() {}
}

#[derive(Clone, Copy, PartialEq)]
enum Frame {
    Array,
    Object,
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    /// The name that leads to each frame, and to the value in the innermost one.
    names: [&'a [u8]; DEEPEST],
    frames: [Frame; DEEPEST],
    depth: usize,
    /// The colon after a name was just read, so a string is its value.
    named: bool,
    /// How many braces and brackets were opened, and which of them each frame is.
    opened: u32,
    ids: [u32; DEEPEST],
}

impl<'a> Scan<'a> {
    /// Reads one token and what belongs to it.
    fn step(&mut self, tell: &mut impl FnMut(Place<'_, 'a>, Scalar<'a>)) -> Option<()> {
        match self.next()? {
            b'{' => self.open(Frame::Object),
            b'[' => self.open(Frame::Array),
            b'}' | b']' => {
                self.at += 1;
                self.depth = self.depth.checked_sub(1)?;
                Some(())
            }
            sign @ (b',' | b':') => {
                self.at += 1;
                self.named = sign == b':';
                Some(())
            }
            b'"' => {
                let text = self.string()?;
                if self.expects_name() && !self.named {
                    *self.names.get_mut(self.depth)? = text;
                } else {
                    self.told(Scalar::Text(text), tell);
                }
                Some(())
            }
            b'-' | b'0'..=b'9' => {
                let number =
                    self.run(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'));
                // A number at the very end may have lost its last digits.
                (self.at < self.text.len()).then(|| self.told(Scalar::Number(number), tell))
            }
            b'a'..=b'z' => {
                let scalar = match self.run(|byte| byte.is_ascii_lowercase()) {
                    b"true" => Scalar::Bool(true),
                    b"false" => Scalar::Bool(false),
                    b"null" => Scalar::Null,
                    _ => return None,
                };
                self.told(scalar, tell);
                Some(())
            }
            _ => None,
        }
    }

    /// Skips blanks and gives the next byte without taking it.
    fn next(&mut self) -> Option<u8> {
        while self.text.get(self.at)?.is_ascii_whitespace() {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn open(&mut self, frame: Frame) -> Option<()> {
        self.at += 1;
        self.named = false;
        self.opened += 1;
        *self.frames.get_mut(self.depth)? = frame;
        self.depth += 1;
        *self.names.get_mut(self.depth)? = b"";
        *self.ids.get_mut(self.depth)? = self.opened;
        Some(())
    }

    fn expects_name(&self) -> bool {
        self.depth > 0 && self.frames[self.depth - 1] == Frame::Object
    }

    /// Takes a string with its quotes; none if its end is missing.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            at += to_sign(self.text.get(at..)?)?;
            if self.text[at] == b'"' {
                break;
            }
            at += 2;
        }
        self.at = at + 1;
        self.text.get(start..at)
    }

    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = &self.text[self.at..];
        let length = rest.iter().take_while(|byte| belongs(**byte)).count();
        self.at += length;
        &rest[..length]
    }

    fn told(&self, scalar: Scalar<'a>, tell: &mut impl FnMut(Place<'_, 'a>, Scalar<'a>)) {
        let mut path = [&b""[..]; DEEPEST];
        let (mut length, mut object) = (0, 0);
        for level in 1..=self.depth {
            // Only objects name what is in them.
            if self.frames[level - 1] == Frame::Object {
                path[length] = self.names[level];
                length += 1;
                object = self.ids[level];
            }
        }
        tell(
            Place {
                path: &path[..length],
                object,
            },
            scalar,
        );
    }
}

/// Where the first quote or backslash is. Several bytes are looked at together: most of a body is
/// the text in it.
fn to_sign(text: &[u8]) -> Option<usize> {
    let is_sign = |byte: &u8| matches!(byte, b'"' | b'\\');
    let has_sign = |piece: &&[u8; AT_ONCE]| {
        let signs = piece.iter().map(is_sign);
        signs.fold(false, |one, other| one | other)
    };
    let pieces = text.as_chunks::<AT_ONCE>().0.iter();
    let start = pieces.take_while(|piece| !has_sign(piece)).count() * AT_ONCE;
    let rest = text[start..].iter().position(is_sign)?;
    Some(start + rest)
}

/// What a vector register of every processor holds.
const AT_ONCE: usize = 16;

/// Deeper bodies are read down to here only.
const DEEPEST: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        visit(text.as_bytes(), |place, scalar| {
            let path: Vec<_> = place
                .path
                .iter()
                .map(|name| String::from_utf8_lossy(name))
                .collect();
            let scalar = match scalar {
                Scalar::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
                Scalar::Number(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            };
            lines.push(format!("{}={scalar}", path.join(".")));
        });
        lines
    }

    #[test]
    fn every_scalar_is_told_with_its_path() {
        let text =
            r#" {"a": 1, "b": {"c": "x\"y", "d": [true, {"e": null}]}, "f": ["g", -2.5e3]} "#;
        let expected = [
            "a=1",
            r#"b.c="x\\\"y""#,
            "b.d=Bool(true)",
            "b.d.e=Null",
            r#"f="g""#,
            "f=-2.5e3",
        ];
        assert_eq!(told(text), expected);
        assert_eq!(told(r#"[{"error":"x"}]"#), [r#"error="x""#]);
    }

    #[test]
    fn a_value_that_the_cut_went_through_is_not_told() {
        let text = r#"{"error":{"message":"Please try again in 20s","code":429},"retry_after":26}"#;
        let whole = told(text);
        for end in 0..text.len() {
            let cut = told(&text[..end]);
            assert_eq!(cut, whole[..cut.len()], "cut at {end}");
        }
    }

    #[test]
    fn a_string_ends_at_its_quote_however_long_it_is_and_whatever_is_escaped() {
        for length in 0..3 * AT_ONCE {
            for escaped in ["", "\\\"", "\\\\", "é"] {
                let text = "x".repeat(length) + escaped + &"y".repeat(length % 5);
                let body = format!("{{\"a\":\"{text}\",\"b\":1}}");
                assert_eq!(told(&body), [format!("a={text:?}"), "b=1".to_owned()]);
            }
        }
    }

    #[test]
    fn depth_and_garbage_end_the_walk_and_nothing_else() {
        assert!(told(&"[".repeat(100_000)).is_empty());
        assert!(told(&"{\"a\":".repeat(100_000)).is_empty());
        assert_eq!(told(r#"{"a":1,"b":nonsense,"c":2}"#), ["a=1"]);
        assert!(told("}}}").is_empty());
    }

    #[test]
    fn objects_are_told_apart_and_a_value_after_an_inner_one_is_of_the_outer() {
        let mut objects = Vec::new();
        visit(br#"[{"a":1,"b":{"c":2},"d":3},{"a":4}]"#, |place, _| {
            objects.push(place.object)
        });
        assert_eq!(objects[0], objects[2]);
        assert_ne!(objects[0], objects[1]);
        assert_ne!(objects[0], objects[3]);
    }
}
