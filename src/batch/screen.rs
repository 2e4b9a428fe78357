//! The terminal on which a person reads: how wide it is, and text that keeps its words whole on it.

/// How many columns the terminal of stderr has; none if it is none, or does not say.
#[must_use]
pub fn columns() -> Option<usize> {
    #[cfg(unix)]
    {
        let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns >= NARROWEST)
    }
    #[cfg(not(unix))]
    None
}

/// Breaks each line between its words, so that none is longer than so many columns; what is carried
/// over is indented.
pub(crate) fn wrapped(text: &str, columns: usize, indent: usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        let mut room = columns;
        while rest.trim_end_matches('\n').chars().count() > room {
            let Some(end) = break_of(rest, room) else {
                break;
            };
            wrapped.push_str(rest[..end].trim_end());
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
            rest = rest[end..].trim_start_matches(' ');
            room = columns.saturating_sub(indent);
        }
        wrapped.push_str(rest);
    }
    wrapped
}

/// Where the last blank stands that leaves words within so many columns; none if it would leave
/// nothing.
fn break_of(line: &str, columns: usize) -> Option<usize> {
    let within = line.char_indices().nth(columns + 1);
    let end = within.map_or(line.len(), |(at, _)| at);
    let blank = line[..end].rfind(' ')?;
    (!line[..blank].trim().is_empty()).then_some(blank)
}

/// Narrower ones are not wrapped for: they break anywhere.
const NARROWEST: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_and_what_is_carried_over_is_indented() {
        let text = "note  one two three four\nshort\n";
        assert_eq!(
            wrapped(text, 14, 6),
            "note  one two\n      three\n      four\nshort\n"
        );
        assert_eq!(wrapped("abc def", 7, 2), "abc def");
        assert_eq!(wrapped("abcdefghij", 4, 2), "abcdefghij", "no word is cut");
        assert_eq!(wrapped("é é é", 3, 1), "é é\n é");
    }
}
