//! What a virtual provider writes into its headers: the real text of each style, so that what
//! reads real responses reads these.
//!
//! Rounding is as the styles have it: durations and waits in milliseconds down, whole seconds up.

use std::fmt::Write as _;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use super::law::{Counts, Style};
use super::meter::View;

/// What one answer has to tell.
pub(super) struct Told<'a> {
    pub(super) style: Style,
    /// Every limit that may be told, of the key that asked.
    pub(super) views: &'a [View],
    /// For a refusal: seconds until it makes sense to come again, if that is known.
    pub(super) wait: Option<f64>,
    /// The provider's clock at the decision, seconds since 1970.
    pub(super) wall: f64,
}

/// Writes the headers. A buffer is lent so that a million answers need no new one each.
pub(super) fn write(told: &Told<'_>, headers: &mut HeaderMap, text: &mut String) {
    match told.style {
        Style::OpenAi => open_ai(told, headers, text),
        Style::Anthropic => anthropic(told, headers, text),
        Style::GitHub => github(told, headers),
        Style::Ietf => ietf(told, headers, text),
        Style::Lists => lists(told, headers, text),
        Style::NamedWindows => named_windows(told, headers),
        Style::RetryAfter => retry_after(told, headers),
        Style::None => {}
    }
}

/// A `Date`, as whole seconds of the provider's clock.
pub(super) fn date(wall: f64, text: &mut String) -> HeaderValue {
    let moment = Civil::from_epoch(wall);
    text.clear();
    let weekday = WEEKDAYS[(moment.days.rem_euclid(7)) as usize];
    let month = MONTHS[moment.month as usize - 1];
    let Civil {
        year,
        day,
        hour,
        minute,
        second,
        ..
    } = moment;
    let written = write!(
        text,
        "{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT"
    );
    debug_assert!(written.is_ok(), "writing into a String cannot fail");
    value(text)
}

fn open_ai(told: &Told<'_>, headers: &mut HeaderMap, text: &mut String) {
    for (counts, [limit, remaining, reset]) in [
        (Counts::Requests, OPENAI_REQUESTS),
        (Counts::Tokens, OPENAI_TOKENS),
    ] {
        if let Some(view) = tightest(told.views, Some(counts)) {
            headers.insert(limit, whole(view.limit));
            headers.insert(remaining, whole(view.remaining));
            text.clear();
            go_duration((view.reset * 1e3 + ROUNDING_DUST).floor() as u64, text);
            headers.insert(reset, value(text));
        }
    }
    if let Some(wait) = told.wait {
        // The next millisecond, so that coming back then is never a moment too soon.
        headers.insert(RETRY_AFTER_MS, whole((wait * 1e3).floor() + 1.0));
    }
    retry_after(told, headers);
}

fn anthropic(told: &Told<'_>, headers: &mut HeaderMap, text: &mut String) {
    for (counts, [limit, remaining, reset]) in [
        (Counts::Requests, ANTHROPIC_REQUESTS),
        (Counts::Tokens, ANTHROPIC_TOKENS),
    ] {
        if let Some(view) = tightest(told.views, Some(counts)) {
            headers.insert(limit, whole(view.limit));
            headers.insert(remaining, whole(view.remaining));
            let Civil {
                year,
                month,
                day,
                hour,
                minute,
                second,
                ..
            } = Civil::from_epoch((told.wall + view.reset).ceil());
            text.clear();
            let written = write!(
                text,
                "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
            );
            debug_assert!(written.is_ok(), "writing into a String cannot fail");
            headers.insert(reset, value(text));
        }
    }
    retry_after(told, headers);
}

fn github(told: &Told<'_>, headers: &mut HeaderMap) {
    let Some(view) = tightest(told.views, None) else {
        return;
    };
    headers.insert(GITHUB_LIMIT, whole(view.limit));
    headers.insert(GITHUB_REMAINING, whole(view.remaining));
    headers.insert(GITHUB_USED, whole(view.limit - view.remaining));
    headers.insert(GITHUB_RESET, whole((told.wall + view.reset).ceil()));
    headers.insert(GITHUB_RESOURCE, HeaderValue::from_static("core"));
}

fn ietf(told: &Told<'_>, headers: &mut HeaderMap, text: &mut String) {
    if !told.views.is_empty() {
        text.clear();
        for (index, view) in told.views.iter().enumerate() {
            let (comma, unit) = (separator(index), unit(view.counts));
            let (limit, window) = (view.limit, view.window.ceil().max(1.0));
            let written = write!(text, "{comma}\"limit-{index}\";q={limit}{unit};w={window}");
            debug_assert!(written.is_ok(), "writing into a String cannot fail");
        }
        headers.insert(RATELIMIT_POLICY, value(text));
        text.clear();
        for (index, view) in told.views.iter().enumerate() {
            let (comma, remaining, reset) =
                (separator(index), view.remaining, whole_seconds(view.reset));
            let written = write!(text, "{comma}\"limit-{index}\";r={remaining};t={reset}");
            debug_assert!(written.is_ok(), "writing into a String cannot fail");
        }
        headers.insert(RATELIMIT, value(text));
    }
    retry_after(told, headers);
}

fn lists(told: &Told<'_>, headers: &mut HeaderMap, text: &mut String) {
    let mut list = |name: HeaderName, column: &dyn Fn(&View) -> f64| {
        text.clear();
        for (index, view) in told.views.iter().enumerate() {
            let written = write!(text, "{}{}", separator(index), column(view));
            debug_assert!(written.is_ok(), "writing into a String cannot fail");
        }
        if !text.is_empty() {
            headers.insert(name, value(text));
        }
    };
    list(GITHUB_LIMIT, &|view| view.limit);
    list(GITHUB_REMAINING, &|view| view.remaining);
    list(GITHUB_RESET, &|view| whole_seconds(view.reset));
    retry_after(told, headers);
}

fn named_windows(told: &Told<'_>, headers: &mut HeaderMap) {
    for view in told.views {
        let far = |seconds: f64| (seconds / view.window).ln().abs();
        let nearest = NAMED_WINDOWS
            .into_iter()
            .min_by(|a, b| far(a.0).total_cmp(&far(b.0)));
        if let Some((_, limit, remaining)) = nearest {
            headers.insert(limit, whole(view.limit));
            headers.insert(remaining, whole(view.remaining));
        }
    }
    if let Some(view) = tightest(told.views, None) {
        headers.insert(RATELIMIT_LIMIT, whole(view.limit));
        headers.insert(RATELIMIT_REMAINING, whole(view.remaining));
        headers.insert(RATELIMIT_RESET, whole(whole_seconds(view.reset)));
    }
    retry_after(told, headers);
}

/// Whole seconds, rounded up.
fn whole_seconds(seconds: f64) -> f64 {
    (seconds - ROUNDING_DUST).ceil().max(0.0)
}

fn retry_after(told: &Told<'_>, headers: &mut HeaderMap) {
    if let Some(wait) = told.wait {
        headers.insert(RETRY_AFTER, whole(whole_seconds(wait)));
    }
}

fn separator(index: usize) -> &'static str {
    if index == 0 { "" } else { ", " }
}

/// Requests are the unit that goes without saying.
fn unit(counts: Counts) -> &'static str {
    match counts {
        Counts::Requests => "",
        Counts::Tokens => ";qu=\"tokens\"",
    }
}

/// A header that has room for one limit tells the one of which the smallest share is left.
fn tightest(views: &[View], counts: Option<Counts>) -> Option<&View> {
    views
        .iter()
        .filter(|view| counts.is_none_or(|counts| view.counts == counts))
        .min_by(|a, b| (a.remaining / a.limit).total_cmp(&(b.remaining / b.limit)))
}

fn whole(number: f64) -> HeaderValue {
    HeaderValue::from(number as u64)
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("only printable ASCII is written")
}

/// Milliseconds the way Go prints them: `12ms`, `8.64s`, `6m0s`, `1h0m3.5s`.
fn go_duration(millis: u64, text: &mut String) {
    let written = match millis {
        0 => write!(text, "0s"),
        1..=999 => write!(text, "{millis}ms"),
        _ => {
            let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
            let seconds = (millis % 60_000) as f64 / 1e3;
            match (hours, minutes) {
                (0, 0) => write!(text, "{seconds}s"),
                (0, _) => write!(text, "{minutes}m{seconds}s"),
                _ => write!(text, "{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    debug_assert!(written.is_ok(), "writing into a String cannot fail");
}

/// A moment as a calendar shows it in UTC.
struct Civil {
    /// Days since Thursday, 1 January 1970.
    days: i64,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Civil {
    /// The calendar day by Hinnant's `civil_from_days`: years that begin in March make the leap
    /// day the last of its year, and eras of 400 years are all of one length.
    fn from_epoch(wall: f64) -> Self {
        let seconds = wall.floor() as i64;
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        };
        Self {
            days,
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }
}

/// Sums of decimal fractions miss whole numbers by less than this; without it 0.02 s that are
/// 20.000000001 ms would be rounded to the wrong side.
const ROUNDING_DUST: f64 = 1e-6;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const OPENAI_REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const OPENAI_TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];
const ANTHROPIC_REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-ratelimit-requests-limit"),
    HeaderName::from_static("anthropic-ratelimit-requests-remaining"),
    HeaderName::from_static("anthropic-ratelimit-requests-reset"),
];
const ANTHROPIC_TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-ratelimit-tokens-limit"),
    HeaderName::from_static("anthropic-ratelimit-tokens-remaining"),
    HeaderName::from_static("anthropic-ratelimit-tokens-reset"),
];
const GITHUB_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const GITHUB_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const GITHUB_USED: HeaderName = HeaderName::from_static("x-ratelimit-used");
const GITHUB_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const GITHUB_RESOURCE: HeaderName = HeaderName::from_static("x-ratelimit-resource");
const RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
/// Seconds, and what their limit and the rest of it are called.
const NAMED_WINDOWS: [(f64, HeaderName, HeaderName); 4] = [
    (
        1.0,
        HeaderName::from_static("x-ratelimit-limit-second"),
        HeaderName::from_static("x-ratelimit-remaining-second"),
    ),
    (
        60.0,
        HeaderName::from_static("x-ratelimit-limit-minute"),
        HeaderName::from_static("x-ratelimit-remaining-minute"),
    ),
    (
        3_600.0,
        HeaderName::from_static("x-ratelimit-limit-hour"),
        HeaderName::from_static("x-ratelimit-remaining-hour"),
    ),
    (
        86_400.0,
        HeaderName::from_static("x-ratelimit-limit-day"),
        HeaderName::from_static("x-ratelimit-remaining-day"),
    ),
];
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The first day of 1970 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn written(style: Style, wait: Option<f64>) -> Vec<(String, String)> {
        let view = |counts, limit, remaining, reset, window| View {
            counts,
            limit,
            remaining,
            reset,
            window,
        };
        let views = [
            view(Counts::Requests, 20.0, 5.0, 0.1504, 1.0),
            view(Counts::Tokens, 30_000.0, 29_000.0, 366.2, 600.0),
        ];
        let (mut headers, mut text) = (HeaderMap::new(), String::new());
        let told = Told {
            style,
            views: &views,
            wait,
            wall: 1_700_000_000.25,
        };
        write(&told, &mut headers, &mut text);
        headers.insert(http::header::DATE, date(told.wall, &mut text));
        headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect()
    }

    fn has(headers: &[(String, String)], name: &str, value: &str) {
        let found = headers.iter().find(|header| header.0 == name);
        assert_eq!(
            found.map(|header| header.1.as_str()),
            Some(value),
            "{name} in {headers:?}"
        );
    }

    #[test]
    fn openai_tells_durations_and_a_wait_in_milliseconds() {
        let headers = written(Style::OpenAi, Some(0.02));
        has(&headers, "x-ratelimit-limit-requests", "20");
        has(&headers, "x-ratelimit-remaining-requests", "5");
        has(&headers, "x-ratelimit-reset-requests", "150ms");
        has(&headers, "x-ratelimit-reset-tokens", "6m6.2s");
        has(&headers, "retry-after-ms", "21");
        has(&headers, "retry-after", "1");
        has(&headers, "date", "Tue, 14 Nov 2023 22:13:20 GMT");
    }

    #[test]
    fn anthropic_tells_rfc_3339_times_rounded_up() {
        let headers = written(Style::Anthropic, Some(1.5));
        has(
            &headers,
            "anthropic-ratelimit-requests-reset",
            "2023-11-14T22:13:21Z",
        );
        has(&headers, "anthropic-ratelimit-tokens-remaining", "29000");
        has(&headers, "retry-after", "2");
    }

    #[test]
    fn github_tells_the_tightest_limit_and_no_wait() {
        let headers = written(Style::GitHub, Some(1.5));
        has(&headers, "x-ratelimit-limit", "20");
        has(&headers, "x-ratelimit-used", "15");
        has(&headers, "x-ratelimit-reset", "1700000001");
        assert!(!headers.iter().any(|header| header.0 == "retry-after"));
    }

    #[test]
    fn ietf_tells_every_limit_in_one_field() {
        let headers = written(Style::Ietf, None);
        has(
            &headers,
            "ratelimit",
            "\"limit-0\";r=5;t=1, \"limit-1\";r=29000;t=367",
        );
        let policy = "\"limit-0\";q=20;w=1, \"limit-1\";q=30000;qu=\"tokens\";w=600";
        has(&headers, "ratelimit-policy", policy);
    }

    #[test]
    fn lists_give_each_limit_a_place() {
        let headers = written(Style::Lists, Some(0.3));
        has(&headers, "x-ratelimit-limit", "20, 30000");
        has(&headers, "x-ratelimit-remaining", "5, 29000");
        has(&headers, "x-ratelimit-reset", "1, 367");
        has(&headers, "retry-after", "1");
    }

    #[test]
    fn named_windows_tell_the_rest_of_each_and_the_reset_of_the_tightest() {
        let headers = written(Style::NamedWindows, None);
        has(&headers, "x-ratelimit-limit-second", "20");
        has(&headers, "x-ratelimit-remaining-hour", "29000");
        has(&headers, "ratelimit-remaining", "5");
        has(&headers, "ratelimit-reset", "1");
    }

    #[test]
    fn durations_look_as_go_prints_them() {
        for (millis, expected) in [
            (0, "0s"),
            (12, "12ms"),
            (8_640, "8.64s"),
            (360_000, "6m0s"),
            (3_723_500, "1h2m3.5s"),
        ] {
            let mut text = String::new();
            go_duration(millis, &mut text);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_silent_style_writes_nothing_but_the_date() {
        assert_eq!(written(Style::None, Some(1.0)).len(), 1);
    }
}
