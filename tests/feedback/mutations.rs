//! Recorded responses, changed at random: a few thousand at each run, and as many as
//! `PACELINE_MUTATIONS` says (`PACELINE_SEED` picks others).

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use paceline::feedback::{self, Profile};

use super::NOW;
use super::targets::{self, check};

#[test]
fn changed_recordings_keep_the_reader_within_its_bounds() {
    let count = setting("PACELINE_MUTATIONS").unwrap_or(20_000);
    let seed = setting("PACELINE_SEED").unwrap_or(1);
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let cases = recordings();
    let profiles: Vec<_> = Profile::names().filter_map(Profile::by_name).collect();
    for _ in 0..count {
        let mut case = dice.pick(&cases).clone();
        let other = dice.pick(&cases);
        for _ in 0..=dice.below(4) {
            case.change(other, &mut dice);
        }
        let profile = match dice.below(3) {
            0 => Profile::NONE,
            1 => Profile::by_name(&case.vendor).unwrap_or_default(),
            _ => dice.pick(&profiles).clone(),
        };
        let received = SystemTime::UNIX_EPOCH
            + Duration::from_secs(NOW.as_secs() ^ (dice.below(3) * dice.below(1 << 33)));
        let body = Some(&case.body[..]).filter(|body| !body.is_empty());
        let status = StatusCode::from_u16(case.status).expect("it is in range");
        check(&feedback::read(
            &profile,
            status,
            &case.map(),
            body,
            received,
        ));
    }
}

#[test]
fn the_targets_of_the_fuzzers_hold_for_a_moment() {
    let count = setting("PACELINE_MUTATIONS").unwrap_or(5_000);
    let seed = setting("PACELINE_SEED").unwrap_or(1);
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let cases = recordings();
    for _ in 0..count {
        let case = dice.pick(&cases);
        let mut response = vec![dice.roll() as u8, 0, dice.roll() as u8];
        let mut lists = Vec::new();
        for (name, value) in &case.headers {
            response.extend([name.as_bytes(), b": ", value, b"\n"].concat());
            lists.extend([value, &b"\n"[..]].concat());
        }
        response.extend([b"\n", &case.body[..]].concat());
        let mut value = vec![dice.roll() as u8];
        if !case.headers.is_empty() {
            value.extend(&dice.pick(&case.headers).1);
        }
        let mut body = vec![dice.roll() as u8, dice.roll() as u8];
        body.extend(&case.body);
        let mut event = vec![dice.roll() as u8];
        event.extend(&case.body);
        for input in [&mut response, &mut lists, &mut value, &mut body, &mut event] {
            for _ in 0..dice.below(4) {
                dice.mutate(input);
            }
        }
        targets::response(&response);
        targets::fields(&lists);
        targets::values(&value);
        targets::body(&body);
        targets::event(&event);
    }
}

#[derive(Clone)]
struct Recording {
    vendor: String,
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Recording {
    /// Changes one thing, perhaps with a part of another recording.
    fn change(&mut self, other: &Self, dice: &mut Dice) {
        match dice.below(8) {
            0 => self.status = 100 + dice.below(900) as u16,
            1 => self.headers.extend(other.headers.iter().cloned()),
            2 if !self.headers.is_empty() => {
                let at = dice.below(self.headers.len() as u64) as usize;
                dice.mutate(&mut self.headers[at].1);
            }
            3 if !self.headers.is_empty() && !other.headers.is_empty() => {
                let at = dice.below(self.headers.len() as u64) as usize;
                self.headers[at].1 = dice.pick(&other.headers).1.clone();
            }
            4 if !self.headers.is_empty() => {
                let header = dice.pick(&self.headers).clone();
                self.headers.push(header);
            }
            5 => self.body = other.body.clone(),
            _ => dice.mutate(&mut self.body),
        }
    }

    fn map(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            if let (Ok(name), Ok(value)) =
                (name.parse::<HeaderName>(), HeaderValue::from_bytes(value))
            {
                headers.append(name, value);
            }
        }
        headers
    }
}

/// A small generator, so that a seed means the same run everywhere.
struct Dice(u64);

impl Dice {
    /// xorshift64*
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.roll() >> 16) % end
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const PIECES: [&[u8]; 22] = [
            b"0",
            b"-1",
            b"9999999999999999999",
            b"1e400",
            b"NaN",
            b"inf",
            b";",
            b",",
            b"\"",
            b"\\",
            b"{",
            b"}",
            b"[",
            b"=",
            b":",
            b"\xc2\xb5s",
            b"\xff",
            b"1773144000",
            b"2026-03-10T12:00:00Z",
            b"h",
            b"per day",
            b"try again in ",
        ];
        let at = self.below(bytes.len() as u64 + 1) as usize;
        match self.below(4) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = self.roll() as u8,
            2 if at < bytes.len() => {
                let end = at + self.below((bytes.len() - at) as u64 + 1) as usize;
                let part = bytes[at..end].to_vec();
                let to = self.below(bytes.len() as u64 + 1) as usize;
                bytes.splice(to..to, part);
            }
            _ => {
                let piece = *self.pick(&PIECES);
                bytes.splice(at..at, piece.iter().copied());
            }
        }
        bytes.truncate(20_000);
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn recordings() -> Vec<Recording> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vendors");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let headers = case["headers"].as_array().unwrap().iter();
            all.push(Recording {
                vendor: case["vendor"].as_str().unwrap().to_owned(),
                status: case["status"].as_u64().unwrap() as u16,
                headers: headers
                    .map(|pair| {
                        (
                            pair[0].as_str().unwrap().to_owned(),
                            pair[1].as_str().unwrap().into(),
                        )
                    })
                    .collect(),
                body: case["body"].as_str().unwrap_or("").into(),
            });
        }
    }
    all
}
