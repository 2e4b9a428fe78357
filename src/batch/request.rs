//! One input line as a request: the OpenAI Batch form and its additions, or the Anthropic Message
//! Batches form. What is wrong with a line is said in words that name the field.

use std::fmt;

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use serde_json::value::RawValue;

use crate::scheduler::events::Ask;

use super::fields::{self, Form};

/// A request as a line describes it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    pub(crate) ask: Ask,
}

impl Request {
    /// The request as the client sends it. The body is shared, not copied.
    pub(crate) fn to_reqwest(&self) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method.clone(), self.url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = self.body.clone().map(Into::into);
        request
    }
}

impl Request {
    /// Whether a page for people cannot be its answer: it sent or asked for JSON and for no page, or
    /// was sent on to a place where people sign in.
    pub(crate) fn wants_no_page(&self, redirected: Option<&str>) -> bool {
        let says = |name, kind| {
            let value = self
                .headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok());
            value.is_some_and(|value| value.to_ascii_lowercase().contains(kind))
        };
        let signs_in = |url: &str| {
            let url = url.to_ascii_lowercase();
            ["login", "signin", "sign-in", "sign_in"]
                .iter()
                .any(|name| url.contains(name))
        };
        let sent_json = self.body.is_some() && says(CONTENT_TYPE, "json");
        ((sent_json || says(ACCEPT, "json")) && !says(ACCEPT, "html"))
            || redirected.is_some_and(|target| signs_in(target) && !signs_in(self.url.path()))
    }

    /// Where its answer came from, if not from where it was sent. What stands behind the path may
    /// be a secret.
    pub(crate) fn redirected_to(&self, from: &Url) -> Option<String> {
        (*from != self.url).then(|| without_query(from))
    }

    /// The model that the body names.
    pub(crate) fn model(&self) -> Option<String> {
        let body = self.body.as_deref()?;
        let mut model = None;
        let mut reader = serde_json::Deserializer::from_slice(body);
        // It ends with an error once the model is known: the rest of the body need not be read.
        serde::Deserializer::deserialize_map(&mut reader, ModelIn(&mut model)).ok();
        model
    }
}

/// A URL as it can be shown.
pub(crate) fn without_query(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// Looks for `model` in an object, and stops there.
struct ModelIn<'a>(&'a mut Option<String>);

impl<'de> serde::de::Visitor<'de> for ModelIn<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if *field == *"model" {
                *self.0 = Some(map.next_value::<String>()?);
                return Err(serde::de::Error::custom("the model is known"));
            }
            map.next_value::<serde::de::IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Turns lines into requests. It remembers the last URL, since most lines name the same.
#[derive(Debug)]
pub(crate) struct Reader {
    base: Option<Url>,
    last: Option<(Box<str>, Url)>,
}

impl Reader {
    /// A reader that resolves relative URLs against `base`.
    pub(crate) fn new(base: Option<Url>) -> Self {
        Self { base, last: None }
    }

    /// The request on a line with these fields. `unknown` is told those that are passed over.
    ///
    /// # Errors
    ///
    /// What is wrong with the line, as a sentence for its record.
    pub(crate) fn read(
        &mut self,
        line: &Bytes,
        form: &Form<'_>,
        mut unknown: impl FnMut(&str),
    ) -> Result<Request, BadLine> {
        for field in &form.others {
            unknown(field);
        }
        if form.custom_id.is_some_and(|id| !id.get().starts_with('"')) {
            return Err(BadLine::new("custom_id must be a string"));
        }
        let batches_of_anthropic = form.params.is_some() && form.url.is_none();
        let payload = if batches_of_anthropic {
            form.params
        } else {
            form.body
        };
        let mut headers = form.headers()?;
        let body = payload
            .map(|raw| body(raw, line, &mut headers))
            .transpose()?;
        let url = match form.url {
            Some(url) => self.url(&fields::text("url", url)?)?,
            None if batches_of_anthropic => self.url("/v1/messages")?,
            None => return Err(BadLine::new("url is missing")),
        };
        if batches_of_anthropic {
            headers
                .entry(ANTHROPIC_VERSION)
                .or_insert(HeaderValue::from_static("2023-06-01"));
        }
        let method = match form.method {
            Some(raw) => {
                let name = fields::text("method", raw)?;
                method(&name)?
            }
            None if body.is_some() => Method::POST,
            None => Method::GET,
        };
        let ask = form.ask()?;
        Ok(Request {
            method,
            url,
            headers,
            body,
            ask,
        })
    }

    fn url(&mut self, text: &str) -> Result<Url, BadLine> {
        if let Some((_, url)) = self.last.as_ref().filter(|(last, _)| **last == *text) {
            return Ok(url.clone());
        }
        let url = resolve(self.base.as_ref(), text)?;
        self.last = Some((text.into(), url.clone()));
        Ok(url)
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine(pub(super) String);

impl BadLine {
    /// A line with this fault.
    pub(crate) fn new(fault: &str) -> Self {
        Self(fault.to_owned())
    }

    /// Whether it is good but for a base to resolve its URL against.
    pub(crate) fn wants_base(&self) -> bool {
        self.0 == RELATIVE
    }
}

impl From<String> for BadLine {
    fn from(fault: String) -> Self {
        Self(fault)
    }
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Form<'_> {
    fn headers(&self) -> Result<HeaderMap, BadLine> {
        let Some(raw) = self.headers else {
            return Ok(HeaderMap::new());
        };
        let fields = fields::strings("headers", raw)?;
        let mut headers = HeaderMap::with_capacity(fields.len() + 1);
        for (name, value) in fields {
            let known = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| BadLine(format!("header name `{name}` is not allowed in HTTP")))?;
            if SET_BY_THE_TRANSPORT.contains(&known.as_str()) {
                return Err(BadLine(format!("header `{known}` is set by the transport")));
            }
            // The value may be a secret, and is not shown.
            let value = HeaderValue::from_str(&value)
                .map_err(|_| BadLine(format!("the value of header `{known}` is not allowed")))?;
            headers.append(known, value);
        }
        Ok(headers)
    }

    fn ask(&self) -> Result<Ask, BadLine> {
        let mut ask = Ask::new();
        if let Some(raw) = self.priority {
            ask.priority = fields::priority(raw)?;
        }
        if let Some(raw) = self.tenant {
            ask.tenant = Some(fields::text("tenant", raw)?.into_owned().into());
        }
        if let Some(raw) = self.group {
            ask.group = Some(fields::text("group", raw)?.into_owned().into());
        }
        if let Some(raw) = self.bucket {
            ask.bucket = Some(fields::text("bucket", raw)?.into_owned().into());
        }
        if let Some(raw) = self.cost {
            ask.cost = fields::cost(raw)?;
        }
        Ok(ask)
    }
}

/// The method of this name. Vendors may have their own, but not one that looks like a mistake.
///
/// # Errors
///
/// It is none.
pub(crate) fn method(name: &str) -> Result<Method, BadLine> {
    let upper = name.trim().to_ascii_uppercase();
    let none = || BadLine(format!("method `{name}` is not an HTTP method"));
    let known = Method::from_bytes(upper.as_bytes()).map_err(|_| none())?;
    if METHODS.contains(&upper.as_str()) {
        return Ok(known);
    }
    let meant = METHODS
        .iter()
        .find(|method| fields::is_slip(&upper, &method.to_ascii_lowercase()));
    match meant {
        Some(meant) => Err(BadLine(format!("method `{name}`: is {meant} meant?"))),
        None => Ok(known),
    }
}

/// The body, without copying it out of the line. It is JSON unless the line's own content type
/// says otherwise: then a string goes out as its text.
fn body(raw: &RawValue, line: &Bytes, headers: &mut HeaderMap) -> Result<Bytes, BadLine> {
    let json = match headers.get(CONTENT_TYPE) {
        None => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            true
        }
        Some(kind) => kind
            .to_str()
            .is_ok_and(|kind| kind.to_ascii_lowercase().contains("json")),
    };
    if !json && raw.get().starts_with('"') {
        let text: String = serde_json::from_str(raw.get())
            .map_err(|_| BadLine::new("body is a string with a broken escape"))?;
        return Ok(text.into());
    }
    Ok(line.slice_ref(raw.get().as_bytes()))
}

/// A URL of a line. What the path of the base and a relative URL share at their seam (`/v1`)
/// stands once in the result.
fn resolve(base: Option<&Url>, text: &str) -> Result<Url, BadLine> {
    if text.contains("://") {
        return match Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
            Ok(url) => Err(BadLine(format!(
                "url has the scheme `{}`, not http or https",
                url.scheme()
            ))),
            Err(error) => Err(BadLine(format!("url cannot be read: {error}"))),
        };
    }
    let Some(base) = base else {
        return Err(BadLine::new(RELATIVE));
    };
    let relative = text.trim_start_matches('/');
    let path = base.path().trim_end_matches('/');
    let shared = path
        .match_indices('/')
        .find(|(at, _)| {
            let rest = relative.strip_prefix(&path[at + 1..]);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        })
        .map_or(path.len(), |(at, _)| at);
    let target = format!("{}/{relative}", &path[..shared]);
    // Joined as a path: the result cannot name another host.
    let target = format!("/{}", target.trim_start_matches('/'));
    base.join(&target)
        .map_err(|error| BadLine(format!("url cannot be read: {error}")))
}

/// What nearly every API is spoken to with.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

const RELATIVE: &str = "url is relative and no --base-url was given";

const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// Two of these in one request, or a wrong one, let a proxy and a server see different requests.
const SET_BY_THE_TRANSPORT: [&str; 5] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::events::{Cost, Priority};

    fn read(line: &str) -> Result<Request, BadLine> {
        let base = Url::parse("https://api.example/v1").expect("a URL");
        let line = Bytes::copy_from_slice(line.as_bytes());
        Reader::new(Some(base)).read(&line, &Form::of(&line)?, |_| {})
    }

    #[test]
    fn fields_of_others_are_passed_over_and_told() {
        let line = Bytes::from_static(br#"{"url":"/a","host":"x","note":{"url":1},"id":7}"#);
        let base = Url::parse("https://api.example").expect("a URL");
        let mut seen = Vec::new();
        let form = Form::of(&line).expect("an object");
        let read = Reader::new(Some(base)).read(&line, &form, |field| seen.push(field.to_owned()));
        assert!(read.is_ok());
        assert_eq!(seen, ["host", "note", "id"]);
    }

    fn fault(line: &str) -> String {
        read(line).expect_err("a bad line").to_string()
    }

    #[test]
    fn the_openai_form_is_read_and_its_body_is_not_touched() {
        let line = r#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{ "x" : 1.0 }}"#;
        let request = read(line).expect("a request");
        assert_eq!(request.method, Method::POST);
        assert_eq!(
            request.url.as_str(),
            "https://api.example/v1/chat/completions"
        );
        assert_eq!(request.body.as_deref(), Some(&br#"{ "x" : 1.0 }"#[..]));
        assert_eq!(request.headers[CONTENT_TYPE], "application/json");
    }

    #[test]
    fn the_anthropic_form_becomes_a_call_of_messages() {
        let request = read(r#"{"custom_id":"a","params":{"model":"m"}}"#).expect("a request");
        assert_eq!(request.url.as_str(), "https://api.example/v1/messages");
        assert_eq!(request.method, Method::POST);
        assert_eq!(request.headers["anthropic-version"], "2023-06-01");
    }

    #[test]
    fn the_method_follows_from_the_body() {
        assert_eq!(
            read(r#"{"url":"/a"}"#).expect("a request").method,
            Method::GET
        );
        assert_eq!(
            read(r#"{"url":"/a","body":null}"#)
                .expect("a request")
                .method,
            Method::GET
        );
        assert_eq!(
            read(r#"{"url":"/a","body":[]}"#).expect("a request").method,
            Method::POST
        );
        assert_eq!(
            read(r#"{"url":"/a","method":"delete"}"#).expect("").method,
            Method::DELETE
        );
    }

    #[test]
    fn what_base_and_url_share_stands_once() {
        let base = |text| Url::parse(text).expect("a URL");
        for (start, relative, whole) in [
            ("https://h/v1", "/v1/chat", "https://h/v1/chat"),
            ("https://h/v1/", "chat", "https://h/v1/chat"),
            ("https://h", "/v1/chat?a=b", "https://h/v1/chat?a=b"),
            ("https://h/proxy/v1", "/v1/chat", "https://h/proxy/v1/chat"),
            ("https://h/v1", "/v10/chat", "https://h/v1/v10/chat"),
            (
                "https://h/a",
                "//evil.example/x",
                "https://h/a/evil.example/x",
            ),
            ("https://h", "//evil.example/x", "https://h/evil.example/x"),
            ("https://h/a", "https://other/x", "https://other/x"),
        ] {
            let url = resolve(Some(&base(start)), relative).expect("a URL");
            assert_eq!(url.as_str(), whole, "{start} and {relative}");
        }
    }

    #[test]
    fn additions_become_the_ask() {
        let line =
            r#"{"url":"/a","priority":"high","tenant":"t","group":"g","bucket":"b","cost":900}"#;
        let ask = read(line).expect("a request").ask;
        let expected = Ask::new()
            .priority(Priority::HIGH)
            .tenant("t")
            .group("g")
            .bucket("b");
        assert_eq!(ask, expected.cost(Cost::tokens(900)));
        let line = r#"{"url":"/a","priority":7,"cost":{"input_tokens":5,"output_tokens":6}}"#;
        let ask = read(line).expect("a request").ask;
        assert_eq!((ask.priority, ask.cost.tokens), (Priority(7), 11));
    }

    #[test]
    fn the_model_is_found_wherever_it_stands_and_nowhere_deeper() {
        let model = |body: &str| {
            let line = format!("{{\"url\":\"/a\",\"body\":{body}}}");
            read(&line).expect("a request").model()
        };
        assert_eq!(model(r#"{"model":"m","x":[1]}"#).as_deref(), Some("m"));
        assert_eq!(
            model(r#"{"x":{"model":"deep"},"model":"m"}"#).as_deref(),
            Some("m")
        );
        for body in [
            r#"{"x":{"model":"deep"}}"#,
            r#"{"model":5}"#,
            "[1]",
            "\"model\"",
        ] {
            assert_eq!(model(body), None, "{body}");
        }
    }

    #[test]
    fn a_body_of_another_content_type_goes_out_as_its_text() {
        let line = r#"{"url":"/a","headers":{"Content-Type":"text/plain"},"body":"a\nb"}"#;
        assert_eq!(
            read(line).expect("a request").body.as_deref(),
            Some(&b"a\nb"[..])
        );
    }

    #[test]
    fn a_bad_line_says_which_field_is_wrong() {
        for (line, part) in [
            ("{\"url\":", "its JSON has no end"),
            ("{url", "not JSON from column"),
            ("[1]", "an array, not an object"),
            ("\"a\"", "not an object"),
            (r#"{"url":"/a","boddy":{}}"#, "`boddy`: is `body` meant?"),
            (r#"{"URL":"/a"}"#, "`URL`: is `url` meant?"),
            (r#"{"url":"/a","tenant":5}"#, "tenant must be a string"),
            (r#"{"url":"/a","cost":-5}"#, "cost must be"),
            (r#"{"url":"/a","cost":{"tokns":5}}"#, "cost must be"),
            (r#"{"url":"/a","priority":[]}"#, "none of selected"),
            ("{}", "url is missing"),
            (
                r#"{"custom_id":5,"url":"/a"}"#,
                "custom_id must be a string",
            ),
            (r#"{"url":"ftp://h/a"}"#, "scheme `ftp`"),
            (r#"{"url":"http://"}"#, "url cannot be read"),
            (r#"{"url":5}"#, "url must be a string"),
            (r#"{"url":"/a","method":"B AD"}"#, "method `B AD`"),
            (r#"{"url":"/a","priority":"urgent"}"#, "priority `urgent`"),
            (r#"{"url":"/a","priority":256}"#, "between 0 and 255"),
            (r#"{"url":"/a","headers":{"a b":"c"}}"#, "header name `a b`"),
            (
                r#"{"url":"/a","headers":{"Host":"c"}}"#,
                "set by the transport",
            ),
            (r#"{"url":"/a","headers":[]}"#, "headers must be an object"),
            (r#"{"url":"/a","url":"/b"}"#, "duplicate field `url`"),
        ] {
            assert!(fault(line).contains(part), "{line}: {}", fault(line));
        }
    }

    #[test]
    fn a_bad_header_value_is_not_shown() {
        let line = "{\"url\":\"/a\",\"headers\":{\"x-key\":\"sk-secret\\u0000\"}}";
        assert!(!fault(line).contains("sk-secret"));
    }

    #[test]
    fn a_relative_url_without_a_base_says_what_to_give() {
        let line = Bytes::from_static(br#"{"url":"/a"}"#);
        let fault = Reader::new(None)
            .read(&line, &Form::of(&line).expect("an object"), |_| {})
            .expect_err("a bad line")
            .to_string();
        assert!(fault.contains("--base-url"), "{fault}");
    }
}
