//! Codes, sentences and delays inside a bounded slice of a body.
//!
//! Only JSON and XML are read; an HTML page proves nothing. Of a success only what stands where
//! errors stand is believed, so that the application's own data cannot look like a refusal.

use std::borrow::Cow;

use super::codes::{code, may_tell, violated};
use super::draft::{Draft, Source};
use super::durations::duration;
use super::findings::Findings;
use super::json::{self, Place, Scalar};
use super::sentence;
use super::spending::Spending;
use super::values::{Decimal, Delay, LONGEST_WAIT, Unit, Written, count};
use super::vendors::{Code, Field, Says, Told, Vendor, all};
use super::wordings;
use super::xml;

/// Reads a body into findings.
pub(crate) fn read<'a>(
    found: &mut Findings<'a>,
    vendor: &'static Vendor,
    refused: bool,
    body: &'a [u8],
) {
    let body = &body[..body.len().min(MOST)];
    let mut start = body.trim_ascii_start();
    start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    if start.starts_with(b"event:") || start.starts_with(b"data:") {
        // An event stream: its first event is the error.
        start = start
            .iter()
            .position(|&byte| byte == b'{')
            .map_or(&start[..0], |at| &start[at..]);
    }
    let mut reader = Reader {
        found,
        vendor,
        refused,
        violation: None,
        spending: Spending::default(),
        no_quota: false,
        in_parts: false,
    };
    match start.first() {
        Some(b'{' | b'[') => json::visit(start, |place, scalar| reader.told(place, scalar)),
        Some(b'<') => {
            // A page says something, if only to people.
            reader.found.evidence.spoke |= refused;
            xml::visit(start, |name, text| {
                let place = Place {
                    path: &[name],
                    object: 0,
                };
                reader.told(place, Scalar::Text(text));
            });
        }
        Some(_) if refused => {
            sentence::prose(reader.found, start);
            let line = start.trim_ascii();
            // A bare word may be a code: `local_rate_limited`.
            if line.len() <= LONGEST_CODE && !line.contains(&b' ') {
                reader.code(line, false);
            }
            reader.found.evidence.spoke = true;
        }
        _ => {}
    }
    reader.finish();
}

struct Reader<'r, 'a> {
    found: &'r mut Findings<'a>,
    vendor: &'static Vendor,
    /// The status says that it was refused.
    refused: bool,
    /// The quota violation that is being told, and the object that tells it.
    violation: Option<(u32, Draft<'a>)>,
    spending: Spending,
    /// The type `insufficient_quota` was told: a family of errors, whose code may say that it passes.
    no_quota: bool,
    /// The wait of the body is one part of a delay whose other part is still to come.
    in_parts: bool,
}

impl<'a> Reader<'_, 'a> {
    fn told(&mut self, place: Place<'_, 'a>, scalar: Scalar<'a>) {
        let Some((&name, outer)) = place.path.split_last() else {
            return;
        };
        let own = &self.vendor.own;
        let fields = own.fields.iter().filter(|_| self.refused || own.ok_bodies);
        let shared = all()
            .flat_map(|vendor| vendor.fields)
            .filter(|_| self.refused);
        if let Some(field) = fields.chain(shared).find(|field| field.is(place.path)) {
            self.field(field, scalar);
        }
        if let Scalar::Number(tokens) = scalar
            && !self.refused
            && !self.vendor.replays.is_empty()
        {
            self.spending.usage(name, outer, tokens);
        }
        if self.refused {
            if let (b"violated-policies", Scalar::Text(policy)) = (name, scalar)
                && let Ok(policy) = std::str::from_utf8(policy)
                && self.found.violated.len() < MOST_POLICIES
            {
                self.found.violated.push(policy);
            }
            self.delay(name, outer, scalar);
            self.quota(name, place.object, scalar);
            self.status(name, scalar);
        }
        let Some(own_only) = self.believed(place.path) else {
            return;
        };
        match scalar {
            Scalar::Text(text) if may_tell(name) && !text.is_empty() => {
                self.found.evidence.spoke = true;
                if text.contains(&b' ') {
                    sentence::read(self.found, self.vendor, text, own_only);
                } else if text.len() <= LONGEST_CODE {
                    self.code_of(text, own_only, name == b"type");
                    sentence::templates(self.found, self.vendor.own.texts.iter(), text);
                }
            }
            Scalar::Number(number) if may_tell(name) => self.own_code(number),
            _ => {}
        }
    }

    /// Whether what stands here speaks of the response: none if not, and else whether only the
    /// vendor's own words count.
    fn believed(&self, path: &[&[u8]]) -> Option<bool> {
        if self.refused {
            return Some(false);
        }
        if !self.vendor.own.ok_bodies {
            return None;
        }
        let first = *path.first()?;
        let error = first.len() >= 5 && first[..5].eq_ignore_ascii_case(b"error");
        match (error, path.len()) {
            (true, _) => Some(false),
            (false, 1) => Some(true),
            _ => None,
        }
    }

    fn code_of(&mut self, text: &'a [u8], own_only: bool, weak: bool) {
        // `com.amazonaws.dynamodb#Code`, `https://…/problems/code`, `https://…#code`
        let text = text.rsplit(|&byte| byte == b'#').next().unwrap_or(text);
        let text = if text.starts_with(b"http") {
            text.rsplit(|&byte| byte == b'/').next().unwrap_or(text)
        } else {
            text
        };
        if weak && text == b"insufficient_quota" {
            self.no_quota = true;
            return;
        }
        self.code(text, own_only);
    }

    fn code(&mut self, text: &[u8], own_only: bool) {
        let evidence = &mut self.found.evidence;
        match code(self.vendor, text, own_only) {
            Some(says) => evidence.code = evidence.code.max(Some(says)),
            None if !own_only => evidence.guess = evidence.guess.max(wordings::guess(text)),
            None => {}
        }
        if own_only {
            return;
        }
        wordings::hear(evidence, text);
        evidence.oversized |= wordings::too_large_code(text);
        if wordings::key_taken_away(text) {
            evidence.key = Some(Says::Revoked);
        }
    }

    fn own_code(&mut self, number: &[u8]) {
        let own = self
            .vendor
            .own
            .codes
            .iter()
            .find(|code| code.0.as_bytes() == number);
        if let Some(Code(_, says)) = own {
            self.found.evidence.code = self.found.evidence.code.max(Some(*says));
        }
    }

    fn field(&mut self, field: &Field, scalar: Scalar<'a>) {
        let (Scalar::Text(value) | Scalar::Number(value)) = scalar else {
            return;
        };
        let now = self.found.tally.now;
        match field.means {
            Told::Part(key, part) => self.found.tally.part(&key, part, value, Source::Body),
            Told::Wait(unit) => {
                if let Some(written) = Written::read(value, now) {
                    self.found.body_wait = Some(written.wait(unit, now));
                }
            }
            Told::Cost(dimension) => {
                if let Some(cost) = count(value) {
                    self.found.costs(dimension, cost);
                }
            }
            Told::Refill(key) => {
                self.spending.refill(key, value);
            }
            Told::Status => {
                self.found.evidence.status =
                    Decimal::read(value).and_then(|status| u16::try_from(status.whole).ok());
            }
            Told::Reasons(reasons) => {
                self.found.reason(reasons, value);
            }
            Told::Code => self.code_of(value, false, false),
        }
    }

    /// Delays under the names that many bodies share.
    fn delay(&mut self, name: &[u8], outer: &[&[u8]], scalar: Scalar<'a>) {
        let (Scalar::Text(value) | Scalar::Number(value)) = scalar else {
            return;
        };
        let now = self.found.tally.now;
        let wait = |unit: Unit| Written::read(value, now).map(|written| written.wait(unit, now));
        let delay = match name {
            b"retry_after"
            | b"retryAfter"
            | b"retry-after"
            | b"retry_after_seconds"
            | b"retryAfterSeconds"
            | b"wait_seconds"
            | b"quotaResetDelay" => wait(Unit::Seconds),
            b"retry_after_ms" | b"retryAfterMs" => wait(Unit::Millis),
            // The type Duration of protocol buffers.
            b"retryDelay" => match value.strip_prefix(b"-") {
                Some(past) => duration(past)
                    .and_then(|_| Some(Written::read(b"0", now)?.wait(Unit::Seconds, now))),
                None => wait(Unit::Seconds),
            },
            b"seconds" if outer.last() == Some(&&b"retryDelay"[..]) => {
                return self.part_of_delay(wait(Unit::Seconds));
            }
            b"nanos" if outer.last() == Some(&&b"retryDelay"[..]) => {
                let nanos = Decimal::read(value).map(|nanos| Written::Span(nanos.span(1)));
                return self.part_of_delay(nanos.map(|nanos| nanos.wait(Unit::Seconds, now)));
            }
            _ => None,
        };
        if self.found.body_wait.is_none() {
            self.found.body_wait = delay;
        }
    }

    /// Seconds or nanoseconds of a delay that is told in both, in either order.
    fn part_of_delay(&mut self, part: Option<Delay>) {
        let Some(part) = part else { return };
        match &mut self.found.body_wait {
            None => {
                self.found.body_wait = Some(part);
                self.in_parts = true;
            }
            Some(sum) if self.in_parts => {
                sum.after = sum.after.saturating_add(part.after).min(LONGEST_WAIT);
                sum.grain = sum.grain.min(part.grain);
                self.in_parts = false;
            }
            Some(_) => {}
        }
    }

    /// A status beside the response's own: that of the server behind a gateway.
    fn status(&mut self, name: &[u8], scalar: Scalar<'a>) {
        let (Scalar::Text(value) | Scalar::Number(value)) = scalar else {
            return;
        };
        let named = matches!(name, b"code" | b"status" | b"statusCode" | b"status_code");
        if named && self.found.evidence.status.is_none() {
            self.found.evidence.status = match value {
                b"429" => Some(429),
                b"529" => Some(529),
                _ => None,
            };
        }
    }

    /// `google.rpc.QuotaFailure`: which quotas were violated, and how large they are.
    fn quota(&mut self, name: &[u8], object: u32, scalar: Scalar<'a>) {
        let (Scalar::Text(value) | Scalar::Number(value)) = scalar else {
            return;
        };
        match name {
            b"quotaId" | b"quotaValue" => {}
            // `google.rpc.ErrorInfo` names the one that was violated in its metadata.
            b"quota_limit" => {
                let id = std::str::from_utf8(value).unwrap_or("");
                let window = Some(u64::from(violated(id).window)).filter(|window| *window > 0);
                let evidence = &mut self.found.evidence;
                evidence.window = evidence.window.or(window);
                evidence.of_google = true;
                return;
            }
            b"domain" => {
                let google = value == b"usageLimits" || value.ends_with(b"googleapis.com");
                self.found.evidence.of_google |= google;
                return;
            }
            _ => return,
        }
        self.found.evidence.of_google = true;
        if self
            .violation
            .as_ref()
            .is_none_or(|(told, _)| *told != object)
        {
            self.end_violation();
            self.violation = Some((object, Draft::new(&violated(""), Source::Body)));
        }
        let Some((_, draft)) = &mut self.violation else {
            return;
        };
        if name == b"quotaValue" {
            draft.limit = count(value);
        } else if let Ok(id) = std::str::from_utf8(value) {
            let limit = draft.limit;
            *draft = Draft::new(&violated(id), Source::Body);
            (draft.limit, draft.remaining, draft.scope) = (limit, Some(0.0), Cow::Borrowed(id));
        }
    }

    fn end_violation(&mut self) {
        if let Some((_, draft)) = self.violation.take() {
            self.found.tally.push(draft);
        }
    }

    fn finish(mut self) {
        self.end_violation();
        if self.no_quota && self.found.evidence.code != Some(Says::Rate) {
            self.found.evidence.code = self.found.evidence.code.max(Some(Says::Funds));
        }
        self.spending.settle(self.found);
    }
}

impl Field {
    fn is(&self, path: &[&[u8]]) -> bool {
        let (end, whole) = match self.path.strip_prefix('.') {
            Some(whole) => (whole, true),
            None => (self.path, false),
        };
        let mut names = path.iter().rev();
        end.rsplit('.')
            .all(|name| names.next().is_some_and(|at| *at == name.as_bytes()))
            && !(whole && names.next().is_some())
    }
}

/// As much of a body as is looked at.
pub(crate) const MOST: usize = 8 * 1024;

/// More policies than one request can violate.
const MOST_POLICIES: usize = 8;

/// Codes are short: `ReservedFunctionConcurrentInvocationLimitExceeded` has 50 letters.
pub(super) const LONGEST_CODE: usize = 120;
