//! A text with places for columns, `{{column}}`, and what is wrong where a place or a column is none.

use std::io;

use super::input::fault;

/// A text with places for columns, as it was given.
#[derive(Clone, Debug)]
pub(super) struct Template {
    /// The option, and the file if it stands in one.
    pub(super) name: String,
    pub(super) text: String,
}

impl Template {
    /// Where in it a byte is, for a person.
    fn at(&self, byte: usize) -> String {
        let before = &self.text[..byte];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before[start..].chars().count() + 1;
        let name = &self.name;
        match self.text.contains('\n') {
            true => format!("{name}, line {line}, character {column}"),
            false => format!("{name}, character {column}"),
        }
    }
}

/// A template whose columns are found.
#[derive(Debug)]
pub(super) struct Parts(Vec<(String, Option<usize>)>);

impl Parts {
    /// The parts of a template for a table of these columns.
    ///
    /// # Errors
    ///
    /// It names a column that is not there, or twice.
    pub(super) fn of(template: &Template, columns: &[String]) -> io::Result<Self> {
        let (mut parts, mut rest) = (Vec::new(), template.text.as_str());
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, after)) = after.split_once("}}") else {
                break;
            };
            let name = name.trim();
            let at = template.text.len() - rest.len() + before.len();
            let place = place(name, columns, &template.at(at))?;
            parts.push((before.to_owned(), Some(place)));
            rest = after;
        }
        parts.push((rest.to_owned(), None));
        Ok(Self(parts))
    }

    /// The same without line breaks.
    pub(super) fn on_one_line(mut self) -> Self {
        for (text, _) in &mut self.0 {
            *text = text.replace(['\n', '\r'], " ");
        }
        self
    }

    /// Whether a column stands in it.
    pub(super) fn has(&self, column: usize) -> bool {
        self.0.iter().any(|(_, place)| *place == Some(column))
    }

    /// The text with what a row has in its columns, each written `as_it_is` to stand there.
    pub(super) fn filled(&self, fields: &[&str], as_it_is: impl Fn(&str) -> String) -> String {
        let mut text = String::new();
        for (before, place) in &self.0 {
            text.push_str(before);
            if let Some(place) = place {
                text.push_str(&as_it_is(fields[*place]));
            }
        }
        text
    }
}

/// Which column has this name, that stands `at` some place.
///
/// # Errors
///
/// None has, or two have.
pub(super) fn place(name: &str, columns: &[String], at: &str) -> io::Result<usize> {
    let mut places = (0..columns.len()).filter(|at| columns[*at] == name);
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(place),
        (Some(_), Some(_)) => Err(fault(format!(
            "it has two columns `{name}` ({at} names it): give one of them another name"
        ))),
        (None, _) => Err(fault(format!(
            "it has no column `{name}`, which is named at {at}: its first row names {}; write one \
             of these there, or mend the first row",
            named(columns)
        ))),
    }
}

/// The names of columns, for a message.
pub(super) fn named(columns: &[String]) -> String {
    let columns: Vec<_> = columns.iter().map(|name| format!("`{name}`")).collect();
    columns.join(", ")
}

/// What is wrong with a text in which a column seems to be meant that stands in none. Other tools'
/// signs are told only where all rows would be `alike`: else they may be meant as they stand.
pub(super) fn slip(column: &str, texts: &[&Template], alike: bool) -> Option<io::Error> {
    let signs = [
        format!("{{{column}}}"),
        format!("${column}"),
        format!("<{column}>"),
        format!("%{column}%"),
        format!("[{column}]"),
    ];
    let signs = if alike { &signs[..] } else { &signs[..1] };
    let named = texts.iter().filter(|_| !column.is_empty());
    for (template, sign) in named.flat_map(|text| signs.iter().map(move |sign| (text, sign))) {
        let text = &template.text;
        let stands = text.match_indices(sign.as_str()).find(|(at, _)| {
            !text[..*at].ends_with('{')
                && !text[at + sign.len()..].starts_with(char::is_alphanumeric)
        });
        if let Some((at, _)) = stands {
            let at = template.at(at);
            return Some(fault(format!(
                "`{sign}` stands for nothing ({at}): the column `{column}` is written \
                 {{{{{column}}}}}, with two braces (--same-request sends it as it stands)"
            )));
        }
    }
    None
}
