//! The fields of an input line, and what is wrong with one.
//!
//! Fields that are not known are passed over, since many inputs carry notes of their own, and told.
//! One that looks like a known one which is missing is a slip of the pen: what it was to say would
//! be lost, so the line is not sent.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::scheduler::events::{Cost, Priority};

use super::request::BadLine;

/// The fields of a line, unread.
#[derive(Debug, Default)]
pub(crate) struct Form<'a> {
    pub(crate) custom_id: Option<&'a RawValue>,
    pub(crate) method: Option<&'a RawValue>,
    pub(crate) url: Option<&'a RawValue>,
    pub(crate) body: Option<&'a RawValue>,
    pub(crate) params: Option<&'a RawValue>,
    pub(crate) headers: Option<&'a RawValue>,
    pub(crate) priority: Option<&'a RawValue>,
    pub(crate) tenant: Option<&'a RawValue>,
    pub(crate) group: Option<&'a RawValue>,
    pub(crate) bucket: Option<&'a RawValue>,
    pub(crate) cost: Option<&'a RawValue>,
    /// What is wrong with the row that a line was made of.
    fault: Option<&'a RawValue>,
    /// Fields that are not known.
    pub(crate) others: Vec<Cow<'a, str>>,
}

impl<'a> Form<'a> {
    /// The fields of a line.
    ///
    /// # Errors
    ///
    /// It is no JSON object, or a field is misspelt.
    pub(crate) fn of(line: &'a [u8]) -> Result<Self, BadLine> {
        let text = std::str::from_utf8(line).map_err(|_| BadLine::new("it is not UTF-8"))?;
        let form: Self = serde_json::from_str(text).map_err(|error| json(text, &error))?;
        if let Some(fault) = form.fault {
            return Err(BadLine(self::text(FAULT, fault)?.into_owned()));
        }
        let missing = KNOWN.iter().filter(|known| !form.has(known));
        for known in missing {
            if let Some(slip) = form.others.iter().find(|field| is_slip(field, known)) {
                return Err(BadLine(format!(
                    "it has a field `{slip}`: is `{known}` meant? Fields that paceline does not \
                     know are passed over, but not one that looks like a mistake"
                )));
            }
        }
        Ok(form)
    }

    fn has(&self, known: &str) -> bool {
        match known {
            "custom_id" => self.custom_id.is_some(),
            "method" => self.method.is_some(),
            "url" => self.url.is_some(),
            "body" => self.body.is_some(),
            "params" => self.params.is_some(),
            "headers" => self.headers.is_some(),
            "priority" => self.priority.is_some(),
            "tenant" => self.tenant.is_some(),
            "group" => self.group.is_some(),
            "bucket" => self.bucket.is_some(),
            _ => self.cost.is_some(),
        }
    }

    fn place(&mut self, field: &str) -> Option<(&'static str, &mut Option<&'a RawValue>)> {
        Some(match field {
            "custom_id" => ("custom_id", &mut self.custom_id),
            "method" => ("method", &mut self.method),
            "url" => ("url", &mut self.url),
            "body" => ("body", &mut self.body),
            "params" => ("params", &mut self.params),
            "headers" => ("headers", &mut self.headers),
            "priority" => ("priority", &mut self.priority),
            "tenant" => ("tenant", &mut self.tenant),
            "group" => ("group", &mut self.group),
            "bucket" => ("bucket", &mut self.bucket),
            "cost" => ("cost", &mut self.cost),
            FAULT => (FAULT, &mut self.fault),
            _ => return None,
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Form<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Form<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Form<'de>, A::Error> {
                let (mut form, mut seen) = (Form::default(), Vec::with_capacity(6));
                while let Some(Text(field)) = map.next_key::<Text<'de>>()? {
                    match form.place(&field) {
                        Some((name, _)) if seen.contains(&name) => {
                            return Err(A::Error::duplicate_field(name));
                        }
                        Some((name, place)) => {
                            *place = map.next_value()?;
                            seen.push(name);
                        }
                        None => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                            form.others.push(field);
                        }
                    }
                }
                Ok(form)
            }
        }
        from.deserialize_map(Fields)
    }
}

/// A string that borrows from the line where it can.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Reader)
    }
}

/// The string in a field.
///
/// # Errors
///
/// It is something else.
pub(crate) fn text<'a>(name: &str, raw: &'a RawValue) -> Result<Cow<'a, str>, BadLine> {
    match serde_json::from_str(raw.get()) {
        Ok(Text(text)) => Ok(text),
        Err(_) => Err(BadLine(format!("{name} must be a string"))),
    }
}

/// The strings of an object in their order; a name may stand twice.
///
/// # Errors
///
/// It is something else.
pub(crate) fn strings(name: &str, raw: &RawValue) -> Result<Vec<(String, String)>, BadLine> {
    struct Pairs(Vec<(String, String)>);
    impl<'de> Deserialize<'de> for Pairs {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            struct Reader;
            impl<'de> Visitor<'de> for Reader {
                type Value = Pairs;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object of strings")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                    let mut pairs = Vec::new();
                    while let Some(pair) = map.next_entry()? {
                        pairs.push(pair);
                    }
                    Ok(Pairs(pairs))
                }
            }
            from.deserialize_map(Reader)
        }
    }
    match serde_json::from_str(raw.get()) {
        Ok(Pairs(pairs)) => Ok(pairs),
        Err(_) => Err(BadLine(format!("{name} must be an object of strings"))),
    }
}

/// A priority: a number or a name.
///
/// # Errors
///
/// It is neither.
pub(crate) fn priority(raw: &RawValue) -> Result<Priority, BadLine> {
    let text = raw.get();
    match serde_json::from_str::<f64>(text) {
        Ok(number) if (0.0..=255.0).contains(&number) => return Ok(Priority(number as u8)),
        Ok(number) => {
            return Err(BadLine(format!(
                "priority {number} is not between 0 and 255"
            )));
        }
        Err(_) => {}
    }
    match text.trim_matches('"') {
        "selected" => Ok(Priority::SELECTED),
        "high" => Ok(Priority::HIGH),
        "normal" => Ok(Priority::NORMAL),
        "low" => Ok(Priority::LOW),
        "background" => Ok(Priority::BACKGROUND),
        name => Err(BadLine(format!(
            "priority `{name}` is none of selected, high, normal, low, background, 0 to 255"
        ))),
    }
}

/// A cost: tokens, or a part for each dimension.
///
/// # Errors
///
/// It is neither.
pub(crate) fn cost(raw: &RawValue) -> Result<Cost, BadLine> {
    if let Ok(tokens) = serde_json::from_str(raw.get()) {
        return Ok(Cost::tokens(tokens));
    }
    let parts: Parts = serde_json::from_str(raw.get()).map_err(|_| {
        BadLine::new(
            "cost must be a number of tokens, or an object with tokens, input_tokens, \
             output_tokens, points or bytes, each from 0 to 4294967295",
        )
    })?;
    let split = Cost::in_out(parts.input_tokens, parts.output_tokens);
    Ok(Cost {
        tokens: parts.tokens.max(split.tokens),
        points: parts.points,
        bytes: parts.bytes,
        ..split
    })
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Parts {
    tokens: u32,
    input_tokens: u32,
    output_tokens: u32,
    points: u32,
    bytes: u32,
}

fn json(text: &str, error: &serde_json::Error) -> BadLine {
    let kind = match text.as_bytes().first() {
        Some(b'[') => Some("an array"),
        Some(b'"') => Some("a string"),
        Some(b'{') => None,
        _ => Some("a number or a word"),
    };
    BadLine(match (error.classify(), kind) {
        (serde_json::error::Category::Data, Some(kind)) => format!(
            "it is {kind}, not an object: a line is {{\"custom_id\": …, \"url\": …, \"body\": …}}"
        ),
        (serde_json::error::Category::Data, None) => {
            // "…, expected a string at line 1 column 9": the line is the only one there is.
            let text = error.to_string();
            let end = text.rfind(" at line ").unwrap_or(text.len());
            format!("it has a wrong field: {}", &text[..end])
        }
        (serde_json::error::Category::Eof, _) => {
            "its JSON has no end: a request is one whole line (`jq -c` makes such lines)".to_owned()
        }
        _ => format!("it is not JSON from column {} on", error.column()),
    })
}

/// Whether a field is a known one but for its case, or one letter too many, too few, wrong or in
/// the wrong order. First letters are seldom mistaken, and `host` is not `cost`.
pub(crate) fn is_slip(field: &str, known: &str) -> bool {
    let lower = field.to_ascii_lowercase();
    let (a, b) = (lower.as_bytes(), known.as_bytes());
    if a.first() != b.first() || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    match (a, b) {
        ([], _) | (_, []) => true,
        _ if a.len() > b.len() => a[1..] == *b,
        _ if a.len() < b.len() => *a == b[1..],
        _ if a[1..] == b[1..] => true,
        ([a0, a1, rest_a @ ..], [b0, b1, rest_b @ ..]) => (a0, a1) == (b1, b0) && rest_a == rest_b,
        _ => false,
    }
}

/// What a row that is no request puts in the place of one.
pub(crate) const FAULT: &str = "paceline:fault";

const KNOWN: [&str; 11] = [
    "custom_id",
    "method",
    "url",
    "body",
    "params",
    "headers",
    "priority",
    "tenant",
    "group",
    "bucket",
    "cost",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_one_letter_or_the_case() {
        for (field, known) in [
            ("boddy", "body"),
            ("bdy", "body"),
            ("bodi", "body"),
            ("Body", "body"),
            ("ulr", "url"),
            ("uri", "url"),
            ("customId", "custom_id"),
            ("custom-id", "custom_id"),
            ("header", "headers"),
            ("mehtod", "method"),
            ("priorty", "priority"),
        ] {
            assert!(is_slip(field, known), "{field}");
        }
        for (field, known) in [
            ("host", "cost"),
            ("post", "cost"),
            ("id", "url"),
            ("bodies", "body"),
            ("bull", "url"),
            ("metadata", "method"),
            ("uid", "url"),
            ("", "url"),
            ("grape", "group"),
        ] {
            assert!(!is_slip(field, known), "{field}");
        }
    }

    #[test]
    fn a_field_that_is_there_is_not_missed() {
        assert!(Form::of(br#"{"url":"/a","uri":"x"}"#).is_ok());
        assert!(Form::of(br#"{"url":null,"uri":"x"}"#).is_err());
    }
}
