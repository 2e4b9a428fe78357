//! How a description becomes a row of the table: every part is checked, and what is wrong is told
//! with its place.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Dimension;
use super::description::{Description, DescriptionError, Rule, Sentence, Tells};
use super::profile::Profile;
use super::values::Unit;
use super::vendors::{
    Anchor, Bucketing, Code, Field, Form, Header, Key, Meaning, Own, Part, Reason, Text, Told,
    Vendor,
};

impl Description {
    /// Checks it, and makes it a profile, which is kept until the program ends.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and where.
    pub fn profile(self) -> Result<Profile, DescriptionError> {
        if self.name.trim().is_empty() {
            return Err(wrong("name", "is empty: a profile needs a name"));
        }
        let like = match &self.like {
            None => Profile::NONE,
            Some(name) => Profile::by_name(name).ok_or_else(|| {
                let meant = Profile::nearest(name);
                let meant =
                    meant.map_or_else(String::new, |meant| format!(": is {meant:?} meant?"));
                wrong(
                    "like",
                    format!("is {name:?}: no known vendor has this name{meant}"),
                )
            })?,
        };
        let known = like.vendor();
        let own = self.own(known)?;
        let hosts = self.hosts.iter().map(|host| kept(host));
        let replays = self.replays.iter().map(|path| kept(path));
        let idempotency = match &self.idempotency_header {
            Some(name) => Some(header_name("idempotency_header", name)?),
            None => known.idempotency,
        };
        Ok(Profile::of(Box::leak(Box::new(Vendor {
            name: kept(&self.name),
            also: &[],
            hosts: both(
                hosts,
                if self.hosts.is_empty() {
                    known.hosts
                } else {
                    &[]
                },
            ),
            notes: "described by the user",
            own,
            replays: both(replays, known.replays),
            idempotency,
            described: true,
            ..Vendor::NONE
        }))))
    }

    /// What is read only of it, those things of the known vendor last.
    fn own(&self, known: &Vendor) -> Result<Own, DescriptionError> {
        let counts = self.counts.unwrap_or(known.own.unit);
        let windows = windows_of(&self.headers, counts);
        let mut headers = Vec::new();
        for (name, rule) in &self.headers {
            let place = format!("headers.{name:?}");
            let kept = header_name(&place, name)?;
            let means = rule.meaning(&place, counts, &windows)?;
            headers.push(Header { name: kept, means });
        }
        // A star is looked for after every whole name.
        headers.extend(known.own.headers);
        headers.sort_by_key(|header| header.name.ends_with('*'));
        let windows_of_fields = windows_of(&self.fields, counts);
        let mut fields = Vec::new();
        for (path, rule) in &self.fields {
            let place = format!("fields.{path:?}");
            if self.read_successes && !path.starts_with('.') {
                return Err(wrong(
                    place,
                    format!(
                        "is the end of a path: where successes are read it must be a whole one, \
                         \".{path}\" if that is all of it"
                    ),
                ));
            }
            fields.push(Field {
                path: kept(path),
                means: rule.told(&place, counts, &windows_of_fields)?,
            });
        }
        let codes = self
            .codes
            .iter()
            .map(|(code, says)| Code(kept(code), *says));
        let mut texts = Vec::new();
        for (at, sentence) in self.sentences.iter().enumerate() {
            texts.push(sentence.text(&format!("sentences[{at}]"), counts)?);
        }
        let statuses = numbered("statuses", self.statuses.iter(), |says| Ok(*says))?;
        let floors = numbered("least_wait", self.least_wait.iter(), |wait| seconds(*wait))?;
        let mut lasting = Vec::new();
        for (dimension, window) in &self.windows {
            lasting.push((
                *dimension,
                seconds(*window).map_err(|why| wrong("windows", why))?,
            ));
        }
        let mut places = Vec::new();
        for window in &self.places {
            places.push(seconds(*window).map_err(|why| wrong("places", why))?);
        }
        Ok(Own {
            headers: headers.leak(),
            codes: both(codes, known.own.codes),
            texts: both(texts.into_iter(), known.own.texts),
            fields: both(fields.into_iter(), known.own.fields),
            statuses: both(statuses.into_iter(), known.own.statuses),
            unit: counts,
            item_unit: self.counts.unwrap_or(known.own.item_unit),
            reset_unit: if self.reset_unit == Unit::Seconds {
                known.own.reset_unit
            } else {
                self.reset_unit
            },
            windows: both(lasting.into_iter(), known.own.windows),
            places: if places.is_empty() {
                known.own.places
            } else {
                places.leak()
            },
            ok_bodies: self.read_successes || known.own.ok_bodies,
            ok_waits: self.waits_on_success || known.own.ok_waits,
            floors: both(floors.into_iter(), known.own.floors),
            anchor: if self.returns == Anchor::None {
                known.own.anchor
            } else {
                self.returns
            },
            bucket: self.bucketing(known)?,
            caps: both(self.output_caps.iter().map(|cap| kept(cap)), known.own.caps),
            ..known.own
        })
    }

    fn bucketing(&self, known: &Vendor) -> Result<Bucketing, DescriptionError> {
        match (self.bucket_by_model, self.bucket_by_path.is_empty()) {
            (true, false) => Err(wrong(
                "bucket_by_path",
                "cannot stand beside bucket_by_model: one of them names the bucket",
            )),
            (true, true) => Ok(Bucketing::Model),
            (false, true) => Ok(known.own.bucket),
            (false, false) => {
                let paths = self.bucket_by_path.iter().map(|path| kept(path));
                Ok(Bucketing::Paths(paths.collect::<Vec<_>>().leak()))
            }
        }
    }
}

/// The windows that the rules of each quota state, which the others of that quota share.
type Windows = BTreeMap<(Dimension, String), u32>;

fn windows_of(rules: &BTreeMap<String, Rule>, counts: Dimension) -> Windows {
    let stated = rules.values().filter_map(|rule| {
        let window = seconds(rule.per?).ok()?;
        Some(((rule.of.unwrap_or(counts), rule.scope.clone()), window))
    });
    stated.collect()
}

impl Rule {
    fn key(&self, counts: Dimension, windows: &Windows) -> Key<'static> {
        let dimension = self.of.unwrap_or(counts);
        let window = windows.get(&(dimension, self.scope.clone())).copied();
        Key::of(dimension)
            .per(window.unwrap_or(0))
            .scope(kept(&self.scope))
            .family("described")
    }

    /// The part of a reading that it tells, if it tells one.
    fn part(&self) -> Option<Part> {
        Some(match self.tells {
            Tells::Limit => Part::Limit,
            Tells::Remaining => Part::Remaining,
            Tells::Used => Part::Used,
            Tells::UsedPercent => Part::UsedPercent,
            Tells::UsedShare => Part::UsedShare,
            Tells::Reset => Part::Reset(self.unit),
            Tells::Window => Part::Window(self.unit),
            _ => return None,
        })
    }

    fn check(&self, place: &str) -> Result<(), DescriptionError> {
        if self.tells == Tells::Reason && self.words.is_empty() {
            return Err(wrong(
                place,
                "tells a reason: it needs words, and what they say",
            ));
        }
        if self.tells != Tells::Reason && !self.words.is_empty() {
            return Err(wrong(
                place,
                "has words: only a rule that tells a reason has any",
            ));
        }
        match self.per.map(seconds) {
            Some(Err(problem)) => Err(wrong(format!("{place}.per"), problem)),
            _ => Ok(()),
        }
    }

    fn meaning(
        &self,
        place: &str,
        counts: Dimension,
        windows: &Windows,
    ) -> Result<Meaning<'static>, DescriptionError> {
        self.check(place)?;
        let key = self.key(counts, windows);
        if let Some(part) = self.part() {
            return Ok(Meaning::Part(key, part));
        }
        Ok(match self.tells {
            Tells::UsedOfLimit => Meaning::Whole(key, Form::UsedOfLimit),
            Tells::LimitsByWindow => Meaning::Whole(key, Form::LimitsByWindow),
            Tells::UsedByWindow => Meaning::Whole(key, Form::UsedByWindow),
            Tells::Bucket => Meaning::Part(key.plain("*"), Part::Bucket),
            Tells::Wait => Meaning::Wait(self.unit),
            Tells::Cost => Meaning::Cost(key.dimension),
            Tells::Code => Meaning::Code,
            Tells::Reason => Meaning::Reasons(self.reasons()),
            Tells::ShouldRetry => Meaning::ShouldRetry,
            Tells::Nothing => Meaning::Nothing,
            _ => return Err(wrong(place, "tells what no header can")),
        })
    }

    fn told(
        &self,
        place: &str,
        counts: Dimension,
        windows: &Windows,
    ) -> Result<Told, DescriptionError> {
        self.check(place)?;
        let key = self.key(counts, windows);
        if let Some(part) = self.part() {
            return Ok(Told::Part(key, part));
        }
        Ok(match self.tells {
            Tells::Wait => Told::Wait(self.unit),
            Tells::Cost => Told::Cost(key.dimension),
            Tells::Code => Told::Code,
            Tells::Status => Told::Status,
            Tells::Reason => Told::Reasons(self.reasons()),
            _ => return Err(wrong(place, "tells what no field of a body can")),
        })
    }

    fn reasons(&self) -> &'static [Reason] {
        let reasons = self.words.iter().map(|(word, says)| Reason {
            word: kept(word),
            says: *says,
            names: None,
            spent: false,
            resets_with_wait: false,
        });
        reasons.collect::<Vec<_>>().leak()
    }
}

impl Sentence {
    fn text(&self, place: &str, counts: Dimension) -> Result<Text, DescriptionError> {
        let words = format!("{place}.words");
        if self.words.trim().is_empty() || self.words.starts_with('{') {
            return Err(wrong(words, "must begin with a word that is always there"));
        }
        let mut rest = self.words.as_str();
        while let Some((_, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                return Err(wrong(words, "has a `{` without its `}`"));
            };
            if !PLACES.contains(&name) {
                let known = PLACES.join("}, {");
                return Err(wrong(
                    words,
                    format!("has a place {{{name}}}: there are {{{known}}}"),
                ));
            }
            if name == "*" && after.is_empty() {
                return Err(wrong(words, "ends in {*}: a word must follow it"));
            }
            rest = after;
        }
        let floor = self.least_wait.map_or(Ok(0), seconds);
        Ok(Text {
            words: kept(&self.words),
            says: self.says,
            names: Key::of(self.of.unwrap_or(counts)),
            spent: self.spent,
            floor: floor.map_err(|why| wrong(format!("{place}.least_wait"), why))?,
        })
    }
}

/// What is said by status; `any` is 0.
fn numbered<'a, V: 'a, T>(
    place: &str,
    entries: impl Iterator<Item = (&'a String, &'a V)>,
    value: impl Fn(&V) -> Result<T, String>,
) -> Result<Vec<(u16, T)>, DescriptionError> {
    let read = entries.map(|(status, said)| {
        let place = format!("{place}.{status}");
        let number = match status.as_str() {
            "any" => 0,
            status => status
                .parse()
                .ok()
                .filter(|status| (100..1000).contains(status))
                .ok_or_else(|| wrong(&place, "is no HTTP status from 100 to 999"))?,
        };
        Ok((number, value(said).map_err(|why| wrong(&place, why))?))
    });
    let mut read = read.collect::<Result<Vec<_>, _>>()?;
    // What holds for any status is looked at last.
    read.sort_by_key(|(status, _)| *status == 0);
    Ok(read)
}

/// A length in whole seconds.
fn seconds(length: Duration) -> Result<u32, String> {
    let shown = humantime::format_duration(length);
    match u32::try_from(length.as_secs()) {
        Ok(seconds) if seconds > 0 && length.subsec_nanos() == 0 => Ok(seconds),
        _ => Err(format!(
            "is {shown}: it must be a whole number of seconds, 1s or more"
        )),
    }
}

/// A header's name as HTTP has it.
fn header_name(place: &str, name: &str) -> Result<&'static str, DescriptionError> {
    let bare = name.strip_suffix('*').unwrap_or(name);
    match http::HeaderName::from_bytes(bare.as_bytes()) {
        Ok(_) => Ok(kept(&name.to_ascii_lowercase())),
        Err(_) => Err(wrong(place, format!("{name:?} is no name of a header"))),
    }
}

fn wrong(place: impl Into<String>, problem: impl Into<String>) -> DescriptionError {
    DescriptionError {
        place: place.into(),
        problem: problem.into(),
    }
}

/// Rows of the table live as long as the program, and so does what makes one.
fn kept(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// What the user said, and after it what is known anyway: the first that fits counts.
fn both<T: Clone>(told: impl Iterator<Item = T>, known: &[T]) -> &'static [T] {
    told.chain(known.iter().cloned()).collect::<Vec<_>>().leak()
}

/// The places that a sentence may have.
const PLACES: [&str; 10] = [
    "wait",
    "instant",
    "limit",
    "used",
    "remaining",
    "cost",
    "dimension",
    "window",
    "reset",
    "*",
];
