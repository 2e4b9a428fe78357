#![doc = include_str!("catalogue.md")]

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use super::super::Dimension;
    use super::super::vendors::{Anchor, Bucketing, Header, VENDORS, Vendor};

    /// The page is made from the table, so that it cannot say anything else.
    #[test]
    fn the_page_says_what_the_table_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/feedback/catalogue.md");
        let made = page();
        if std::env::var_os("PACELINE_WRITE_CATALOGUE").is_some() {
            std::fs::write(&path, &made).expect("the page can be written");
        }
        let kept = std::fs::read_to_string(&path).expect("the page is there");
        assert!(
            kept == made,
            "src/feedback/catalogue.md is not what the table says: \
             PACELINE_WRITE_CATALOGUE=1 cargo test --lib catalogue writes it anew"
        );
    }

    fn page() -> String {
        let count: usize = VENDORS.iter().map(|rows| rows.len()).sum();
        let mut page = format!(
            "The vendors whose signals are known: {count} rows, made from the table that the \
             reader uses.\n\n\
             Headers under *read* mean the same whoever sends them, and are read from every \
             response; what stands under *known* is read where the vendor is known by its host or \
             by name. The common `X-RateLimit-*` family, every draft of `RateLimit`, \
             `Retry-After` and the usual error codes are read everywhere and not repeated.\n"
        );
        let groups = [
            "Standards, gateways and frameworks",
            "Language models",
            "Inference as a service",
            "Developer platforms",
            "Clouds",
            "Shops, payments and books",
            "Customers and messages",
            "Documents, tasks, identity and talk",
            "Social networks and reviews",
            "Music, films, pictures and games",
            "Maps, markets and research data",
            "Exchanges and prices of shares",
        ];
        for (group, rows) in groups.iter().zip(VENDORS) {
            write!(page, "\n# {group}\n").expect("a string takes all");
            for vendor in rows {
                row(&mut page, vendor).expect("a string takes all");
            }
        }
        page
    }

    fn row(page: &mut String, vendor: &Vendor) -> std::fmt::Result {
        write!(page, "\n**{}**", vendor.name)?;
        if !vendor.hosts.is_empty() {
            write!(page, " ({})", code(vendor.hosts.iter().copied()))?;
        }
        writeln!(page, ": {}", vendor.notes)?;
        let mut first = true;
        let also = code(vendor.also.iter().copied());
        let mut item = |name: &str, text: String| {
            if text.is_empty() {
                return Ok(());
            }
            let gap = if std::mem::take(&mut first) { "\n" } else { "" };
            writeln!(page, "{gap}- {name}: {text}")
        };
        let names = |headers: &'static [Header]| code(headers.iter().map(|header| header.name));
        item("also called", also)?;
        item("read", names(vendor.headers))?;
        item("codes", code(vendor.codes.iter().map(|code| code.0)))?;
        let own = &vendor.own;
        item("known", names(own.headers))?;
        item(
            "fields of the body",
            code(own.fields.iter().map(|field| field.path)),
        )?;
        item("its codes", code(own.codes.iter().map(|code| code.0)))?;
        let statuses = own.statuses.iter().map(|(status, _)| status.to_string());
        item("its statuses", statuses.collect::<Vec<_>>().join(", "))?;
        if own.unit != Dimension::Requests {
            item("counts", "points".to_owned())?;
        }
        let windows = own
            .windows
            .iter()
            .map(|(dimension, seconds)| format!("{dimension:?} per {seconds} s"));
        item("windows", windows.collect::<Vec<_>>().join(", "))?;
        let floors = own.floors.iter().map(|(status, seconds)| match status {
            0 => format!("{seconds} s"),
            status => format!("{seconds} s after {status}"),
        });
        item(
            "least wait without a hint",
            floors.collect::<Vec<_>>().join(", "),
        )?;
        item(
            "long quotas return",
            match own.anchor {
                Anchor::None => String::new(),
                Anchor::MidnightUtc | Anchor::QuarterHour => "at midnight UTC".to_owned(),
                Anchor::MidnightPacific => "at midnight Pacific".to_owned(),
            },
        )?;
        item(
            "a bucket is",
            match own.bucket {
                Bucketing::None => String::new(),
                Bucketing::Model => "the `model` of the body".to_owned(),
                Bucketing::ModelInPath => "the model in the path".to_owned(),
                Bucketing::Paths(patterns) => code(patterns.iter().copied()),
            },
        )?;
        item("replayed", code(vendor.replays.iter().copied()))?;
        item("repeats are known by", code(vendor.idempotency.into_iter()))
    }

    fn code<'a>(words: impl Iterator<Item = &'a str>) -> String {
        words
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}
