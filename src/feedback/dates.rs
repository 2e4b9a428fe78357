//! The calendar: dates and instants as servers write them.
//!
//! Values are matched as a whole. A day that does not exist is no date.

use std::time::Duration;

use super::values::{Decimal, NANOS};

/// An instant as RFC 3339 writes it, also without seconds, without a zone (UTC), or with blanks
/// for the `T` and before the zone. Nanoseconds since 1970.
pub(crate) fn rfc3339(text: &[u8]) -> Option<(i64, Duration)> {
    if let Some(text) = text.first_chunk::<20>().filter(|_| text.len() == 20)
        && let Some(fields) = plain(text)
    {
        return fields
            .seconds()
            .and_then(|secs| Some((secs.checked_mul(i64::from(NANOS))?, Duration::from_secs(1))));
    }
    let (date, rest) = text.split_first_chunk::<16>()?;
    let signs = [date[4], date[7], date[13]] == *b"--:" && matches!(date[10], b'T' | b't' | b' ');
    if !signs {
        return None;
    }
    let two = |at: usize| number(&date[at..at + 2]);
    let days = days(two(0)? * 100 + two(2)?, two(5)?, two(8)?)?;
    let (hour, minute) = (two(11)?, two(14)?);
    let (mut second, mut nanos, mut grain, mut rest) = (0, 0, Duration::from_secs(60), rest);
    if let [b':', after @ ..] = rest {
        number(after.get(..2)?)?;
        let (decimal, after) = Decimal::split(after)?;
        second = u32::try_from(decimal.whole).ok()?;
        (nanos, rest) = (decimal.nanos, after);
        grain = decimal.span(u64::from(NANOS)).grain;
    }
    let secs = clock(days, hour, minute, second)?.checked_sub(zone(rest)?)?;
    let nanos = secs
        .checked_mul(i64::from(NANOS))?
        .checked_add(i64::from(nanos))?;
    Some((nanos, grain))
}

/// The fields of `2026-03-10T12:01:30Z`, which is what nearly all servers write.
struct Plain {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

impl Plain {
    fn seconds(&self) -> Option<i64> {
        let days = days(self.year, self.month, self.day)?;
        clock(days, self.hour, self.minute, self.second)
    }
}

/// Takes an instant in its plain form apart, eight bytes at a time: a branch for each digit would
/// cost more than the rest of the walk.
fn plain(text: &[u8; 20]) -> Option<Plain> {
    let (date, rest) = text.split_first_chunk::<8>()?;
    let (time, seconds) = rest.split_first_chunk::<8>()?;
    let seconds = [seconds[0], seconds[1], seconds[2], seconds[3], 0, 0, 0, 0];
    let date = pairs(date, b"0000-00-")?;
    let time = pairs(time, b"00T00:00")?;
    let seconds = pairs(&seconds, b":00Z\0\0\0\0")?;
    Some(Plain {
        year: pair(date, 0) * 100 + pair(date, 2),
        month: pair(date, 5),
        day: pair(time, 0),
        hour: pair(time, 3),
        minute: pair(time, 6),
        second: pair(seconds, 1),
    })
}

/// Reads eight bytes that have digits where the form has zeros, and are as the form elsewhere: in
/// each byte the number of two digits that begins there.
#[inline]
fn pairs(text: &[u8; 8], form: &[u8; 8]) -> Option<u64> {
    let zeros = form.map(|byte| if byte == b'0' { 0x80 - 10 } else { 0x80 - 1 });
    let digits = u64::from_le_bytes(*text) ^ u64::from_le_bytes(*form);
    // The top bit of a byte that is no digit, or not as the form has it, is set by the sum.
    let over = digits.wrapping_add(u64::from_le_bytes(zeros)) | digits;
    (over & 0x8080_8080_8080_8080 == 0).then(|| digits * 10 + (digits >> 8))
}

/// The number of two digits that begins at a byte.
#[inline]
fn pair(pairs: u64, at: u32) -> u32 {
    (pairs >> (8 * at)) as u32 & 0xff
}

/// A date in one of the three forms of HTTP, or as JavaScript prints it, in seconds since 1970.
/// A two-digit year is taken to lie at most 50 years after `now`.
pub(crate) fn read(text: &[u8], now: i64) -> Option<i64> {
    let text = text.trim_ascii();
    imf(text)
        .or_else(|| mail(text))
        .or_else(|| asctime(text))
        .or_else(|| javascript(text))
        .or_else(|| rfc850(text, now))
}

/// `Tue, 10 Mar 2026 12:01:30 GMT`
pub(crate) fn imf(text: &[u8]) -> Option<i64> {
    let text = text.first_chunk::<29>().filter(|_| text.len() == 29)?;
    if &text[3..5] != b", " || text[7] != b' ' || text[11] != b' ' || text[16] != b' ' {
        return None;
    }
    if !matches!(&text[25..], b" GMT" | b" UTC") {
        return None;
    }
    day_and_time(text)
}

/// `Tue, 10 Mar 2026 12:01:30 +0000`, as mail writes it
fn mail(text: &[u8]) -> Option<i64> {
    let (start, offset) = text.split_at_checked(26)?;
    if &start[3..5] != b", " || start[7] != b' ' || start[11] != b' ' || start[16] != b' ' {
        return None;
    }
    if start[25] != b' ' || !matches!(offset.first(), Some(b'+' | b'-')) {
        return None;
    }
    day_and_time(start)?.checked_sub(zone(offset)?)
}

/// `10 Mar 2026 12:01:30` after a weekday of five letters
fn day_and_time(text: &[u8]) -> Option<i64> {
    let days = days(
        number(&text[12..16])?,
        month(&text[8..11])?,
        number(&text[5..7])?,
    )?;
    time(days, &text[17..25])
}

/// `Tuesday, 10-Mar-26 12:02:00 GMT`
fn rfc850(text: &[u8], now: i64) -> Option<i64> {
    let comma = text.iter().position(|&byte| byte == b',')?;
    weekday(&text[..comma])?;
    let text = text[comma..]
        .first_chunk::<24>()
        .filter(|rest| comma + rest.len() == text.len())?;
    if &text[..2] != b", " || text[4] != b'-' || text[8] != b'-' || &text[20..] != b" GMT" {
        return None;
    }
    let (day, month, short) = (
        number(&text[2..4])?,
        month(&text[5..8])?,
        number(&text[9..11])?,
    );
    let at = |year| time(days(year, month, day)?, &text[12..20]);
    // RFC 9110, 5.6.7: more than 50 years ahead means the last year with these digits.
    let this = 1970 + u32::try_from(now / MEAN_YEAR).ok()?;
    let year = this - this % 100 + short;
    let secs = at(year)?;
    if secs.saturating_sub(now) > 50 * MEAN_YEAR {
        at(year - 100)
    } else {
        Some(secs)
    }
}

/// `Tue Mar 10 12:02:00 2026`, the day padded with a blank
fn asctime(text: &[u8]) -> Option<i64> {
    let text = text.first_chunk::<24>().filter(|_| text.len() == 24)?;
    if text[3] != b' ' || text[7] != b' ' || text[10] != b' ' || text[19] != b' ' {
        return None;
    }
    weekday(&text[..3])?;
    let day = number(text[8..10].trim_ascii_start())?;
    time(
        days(number(&text[20..])?, month(&text[4..7])?, day)?,
        &text[11..19],
    )
}

/// `Tue Mar 10 2026 13:10:00 GMT+0100 (Central European Standard Time)`
fn javascript(text: &[u8]) -> Option<i64> {
    let (text, rest) = text.split_first_chunk::<24>()?;
    if text[3] != b' ' || text[7] != b' ' || text[10] != b' ' || text[15] != b' ' {
        return None;
    }
    weekday(&text[..3])?;
    let days = days(
        number(&text[11..15])?,
        month(&text[4..7])?,
        number(&text[8..10])?,
    )?;
    let rest = rest.strip_prefix(b" GMT")?;
    let (offset, name) = rest.split_at(rest.len().min(5));
    if !(name.is_empty() || name.starts_with(b" (") && name.ends_with(b")")) {
        return None;
    }
    time(days, &text[16..])?.checked_sub(zone(offset)?)
}

/// Seconds that a zone is ahead of UTC: `Z`, nothing, `+01:00`, `-0530`, `+01`.
fn zone(text: &[u8]) -> Option<i64> {
    if text == b" UTC" || text == b" GMT" {
        return Some(0);
    }
    let (sign, digits) = match text {
        [] | [b'Z' | b'z'] => return Some(0),
        // Ruby and Postgres put a blank before it.
        [b' ', rest @ ..] if matches!(rest.first(), Some(b'+' | b'-')) => return zone(rest),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        [_, _] => (number(digits)?, 0),
        [_, _, _, _] => (number(&digits[..2])?, number(&digits[2..])?),
        [_, _, b':', _, _] => (number(&digits[..2])?, number(&digits[3..])?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then(|| sign * i64::from(hours * 3600 + minutes * 60))
}

/// `12:01:30` on a day
fn time(days: i64, text: &[u8]) -> Option<i64> {
    let pairs = pairs(text.first_chunk::<8>()?, b"00:00:00")?;
    clock(days, pair(pairs, 0), pair(pairs, 3), pair(pairs, 6))
}

#[inline]
fn clock(days: i64, hour: u32, minute: u32, second: u32) -> Option<i64> {
    // 60 is a leap second.
    (hour < 24 && minute < 60 && second <= 60)
        .then(|| days * 86_400 + i64::from(hour * 3600 + minute * 60 + second))
}

/// Days since 1970-01-01 of a date in the Gregorian calendar.
#[inline]
pub(crate) fn days(year: u32, month: u32, day: u32) -> Option<i64> {
    if !(1..=12).contains(&month) || day == 0 || day > 28 && day > longest(year, month) {
        return None;
    }
    // Years that begin in March end with the leap day, so the months need no table.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year.checked_sub(1)?, month + 9)
    };
    let (century, of_century) = (i64::from(year / 100), i64::from(year % 100));
    let of_year = i64::from((153 * month + 2) / 5 + day - 1);
    Some(century * 146_097 / 4 + of_century * 1461 / 4 + of_year - 719_468)
}

/// The days of a month.
fn longest(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn month(name: &[u8]) -> Option<u32> {
    Some(match name.first_chunk::<3>().filter(|_| name.len() == 3)? {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return None,
    })
}

/// Whether this is a weekday, short or long.
pub(crate) fn weekday(name: &[u8]) -> Option<()> {
    const DAYS: [&[u8]; 7] = [
        b"Monday",
        b"Tuesday",
        b"Wednesday",
        b"Thursday",
        b"Friday",
        b"Saturday",
        b"Sunday",
    ];
    DAYS.iter()
        .any(|day| *day == name || day[..3] == *name)
        .then_some(())
}

/// A few digits and nothing else.
fn number(text: &[u8]) -> Option<u32> {
    let mut sum = 0_u32;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum = sum * 10 + u32::from(digit);
    }
    (!text.is_empty()).then_some(sum)
}

/// Seconds in a mean Gregorian year.
const MEAN_YEAR: i64 = 31_556_952;

/// Whether clocks in California are an hour ahead: from the second Sunday of March to the first of
/// November, at 2 in the morning of the time that ends.
pub(crate) fn summer_in_california(now: i64) -> bool {
    let year = 1970 + u32::try_from(now.max(0) / MEAN_YEAR).unwrap_or(0);
    // 1970-01-01 was a Thursday.
    let sunday = |from: i64| from + (3 - from).rem_euclid(7);
    let (Some(march), Some(november)) = (days(year, 3, 8), days(year, 11, 1)) else {
        return false;
    };
    let begins = sunday(march) * 86_400 + 10 * 3600;
    let ends = sunday(november) * 86_400 + 9 * 3600;
    (begins..ends).contains(&now)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_773_144_000;

    #[test]
    fn the_four_forms_of_a_date_are_one_moment() {
        for text in [
            "Tue, 10 Mar 2026 12:02:00 GMT",
            "Tuesday, 10-Mar-26 12:02:00 GMT",
            "Tue Mar 10 12:02:00 2026",
            "Tue Mar 10 2026 13:02:00 GMT+0100 (Central European Standard Time)",
            "Tue Mar 10 2026 12:02:00 GMT+0000",
        ] {
            assert_eq!(read(text.as_bytes(), NOW), Some(NOW + 120), "{text}");
        }
        assert_eq!(read(b"Sun Nov  6 08:49:37 1994", NOW), Some(784_111_777));
        assert_eq!(
            read(b"Sunday, 06-Nov-94 08:49:37 GMT", NOW),
            Some(784_111_777)
        );
    }

    #[test]
    fn what_is_nearly_a_date_is_none() {
        for text in [
            "Tue, 10 Mar 2026 12:02:00",
            "Tue, 10 Mar 2026 25:02:00 GMT",
            "Tue, 31 Feb 2026 12:02:00 GMT",
            "Tue, 10 Foo 2026 12:02:00 GMT",
            "Tue, 10 Mar 2026 12:02:00 GMT+1",
            "10 Mar 2026",
            "not a date",
            "",
        ] {
            assert_eq!(read(text.as_bytes(), NOW), None, "{text}");
        }
    }

    #[test]
    fn rfc_3339_may_leave_out_seconds_zone_and_the_letter() {
        let at = |text: &str| rfc3339(text.as_bytes()).map(|(nanos, _)| nanos / 1_000_000);
        let expected = Some((NOW + 600) * 1000);
        for text in [
            "2026-03-10T12:10:00Z",
            "2026-03-10t12:10:00z",
            "2026-03-10T12:10Z",
            "2026-03-10 12:10:00",
            "2026-03-10T13:10:00+01:00",
            "2026-03-10T06:40:00-0530",
            "2026-03-10T12:10:00.000000+00:00",
        ] {
            assert_eq!(at(text), expected, "{text}");
        }
        assert_eq!(at("2026-03-10T12:10:00.250Z"), expected.map(|at| at + 250));
        for text in [
            "2026-03-10",
            "2026-13-10T12:10:00Z",
            "2026-02-29T12:10:00Z",
            "2026-03-10T12:10:00+25:00",
            "2026-03-10T12:10:0Z",
            "2026-03-10T12:10:00Zz",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
        assert_eq!(at("2024-02-29T00:00:00Z"), Some(1_709_164_800_000));
    }

    #[test]
    fn clocks_in_california_change_in_march_and_november() {
        let summer = |text: &str| {
            summer_in_california(rfc3339(text.as_bytes()).expect("a date").0 / 1_000_000_000)
        };
        assert!(!summer("2026-03-08T09:59:59Z"));
        assert!(summer("2026-03-08T10:00:00Z"));
        assert!(summer("2026-11-01T08:59:59Z"));
        assert!(!summer("2026-11-01T09:00:00Z"));
        assert!(!summer("2026-01-01T00:00:00Z"));
    }

    proptest! {
        #[test]
        fn every_second_of_four_centuries_is_read_back(secs in 0_i64..9_000_000_000) {
            let time = std::time::UNIX_EPOCH + Duration::from_secs(secs as u64);
            let text = humantime::format_rfc3339_seconds(time).to_string();
            prop_assert_eq!(rfc3339(text.as_bytes()).map(|(nanos, _)| nanos / 1_000_000_000), Some(secs));
        }
    }
}
