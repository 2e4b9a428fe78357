//! Everything that a thread logs, of every crate and at every level.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    static LOG: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn put(line: std::fmt::Arguments<'_>) {
    LOG.with_borrow_mut(|log| {
        if let Some(log) = log {
            writeln!(log, "{line}").unwrap();
        }
    });
}

/// What is logged while this is alive, on its thread.
pub(super) struct Logged(());

impl Logged {
    pub(super) fn start() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            log::set_boxed_logger(Box::new(Logger)).expect("no other logger");
            log::set_max_level(log::LevelFilter::Trace);
            // For all threads: whether a span is wanted is remembered where it is made, and
            // another test may come there first.
            tracing::subscriber::set_global_default(Spans).expect("no other subscriber");
        });
        LOG.set(Some(String::new()));
        Self(())
    }

    pub(super) fn end(self) -> String {
        let Self(()) = self;
        LOG.take().unwrap_or_default()
    }
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        put(format_args!("{} {}", record.target(), record.args()));
    }

    fn flush(&self) {}
}

/// Writes down every field of every span and event.
struct Spans;

struct Fields<'a>(&'a str);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        put(format_args!("{} {field} {value:?}", self.0));
    }
}

impl Subscriber for Spans {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        LOG.with_borrow(Option::is_some)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Fields(span.metadata().name()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Fields("span"));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Fields(event.metadata().target()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
