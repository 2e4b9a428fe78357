//! A number and what it counts, one or many, as a sentence needs it.

use super::summary::Grouped;

/// The number, then the text, in which `[one|many]` stands for what fits it.
pub(crate) fn counted(count: u64, text: &str) -> String {
    let mut said = Grouped(count).to_string();
    said.push(' ');
    let mut rest = text;
    while let Some((before, choice, after)) = choice_in(rest) {
        said.push_str(before);
        said.push_str(if count == 1 { choice.0 } else { choice.1 });
        rest = after;
    }
    said.push_str(rest);
    said
}

/// What stands before the first choice, the choice, and what comes after it.
fn choice_in(text: &str) -> Option<(&str, (&str, &str), &str)> {
    let (before, rest) = text.split_once('[')?;
    let (choice, after) = rest.split_once(']')?;
    Some((before, choice.split_once('|')?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_told_from_many_wherever_it_shows() {
        let text = "[line|lines] moved since [its request was|their requests were] done";
        assert_eq!(counted(1, text), "1 line moved since its request was done");
        assert_eq!(
            counted(1_200, text),
            "1,200 lines moved since their requests were done"
        );
        assert_eq!(counted(0, "[key|keys]"), "0 keys");
    }
}
