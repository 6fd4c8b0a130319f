//! The one subscriber of all tests: keeps spans with what is above them, and hands every line on to the tests of secrets.

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt::{self, Write as _},
    sync::{
        Condvar, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tracing::{
    Event, Metadata, Span, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_core::span::Current;

use crate::secrets;

/// How long a test waits for spans to be closed.
const LIMIT: Duration = Duration::from_secs(30);

/// A span as it was told.
pub(crate) struct Kept {
    pub(crate) name: &'static str,
    parent: Option<u64>,
    pub(crate) fields: Vec<(&'static str, String)>,
    metadata: &'static Metadata<'static>,
    handles: usize,
}

struct All {
    spans: Mutex<HashMap<u64, Kept>>,
    closed: Condvar,
    next: AtomicU64,
}

thread_local! {
    /// The spans that this thread is in.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

fn all() -> &'static All {
    static ALL: OnceLock<All> = OnceLock::new();
    ALL.get_or_init(|| All {
        spans: Mutex::default(),
        closed: Condvar::new(),
        next: AtomicU64::new(1),
    })
}

/// From here on every span and event of the process is taken.
pub(crate) fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        tracing::subscriber::set_global_default(Everything).expect("no other subscriber");
    });
}

/// Shows the spans below one, each with its fields on its line, when all of them are closed.
pub(crate) fn tree(root: &Span, show: impl Fn(&Kept) -> String) -> String {
    let root = root.id().unwrap().into_u64();
    let below = |spans: &HashMap<u64, Kept>, parent: u64| {
        let mut ids: Vec<u64> =
            spans.iter().filter(|it| it.1.parent == Some(parent)).map(|it| *it.0).collect();
        ids.sort_unstable();
        ids
    };
    fn open(
        spans: &HashMap<u64, Kept>,
        below: &impl Fn(&HashMap<u64, Kept>, u64) -> Vec<u64>,
        id: u64,
    ) -> bool {
        below(spans, id).into_iter().any(|it| spans[&it].handles > 0 || open(spans, below, it))
    }
    let (spans, timeout) = all()
        .closed
        .wait_timeout_while(all().spans.lock().unwrap(), LIMIT, |spans| open(spans, &below, root))
        .unwrap();
    assert!(!timeout.timed_out(), "spans are not closed");
    let mut shown = String::new();
    let mut stack: Vec<(usize, u64)> =
        below(&spans, root).into_iter().rev().map(|id| (0, id)).collect();
    while let Some((depth, id)) = stack.pop() {
        let _ = writeln!(shown, "{}{}", "  ".repeat(depth), show(&spans[&id]));
        stack.extend(below(&spans, id).into_iter().rev().map(|id| (depth + 1, id)));
    }
    shown
}

/// Takes every event and span of `tracing`.
struct Everything;

/// The fields of an event or span as text.
#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }
}

impl Fields {
    fn line(&self) -> String {
        let fields = self.0.iter().map(|(name, value)| format!("{name}={value} "));
        fields.collect::<Vec<_>>().concat()
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        secrets::keep(&format!("{}: {}", span.metadata().name(), fields.line()));
        let id = all().next.fetch_add(1, Ordering::Relaxed);
        let inside = || INSIDE.with_borrow(|inside| inside.last().copied());
        let parent = if span.is_contextual() { inside() } else { span.parent().map(Id::into_u64) };
        let metadata = span.metadata();
        let kept = Kept { name: metadata.name(), parent, fields: fields.0, metadata, handles: 1 };
        all().spans.lock().unwrap().insert(id, kept);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        secrets::keep(&fields.line());
        if let Some(kept) = all().spans.lock().unwrap().get_mut(&span.into_u64()) {
            kept.fields.extend(fields.0);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        secrets::keep(&format!("{}: {}", event.metadata().target(), fields.line()));
    }

    fn enter(&self, span: &Id) {
        INSIDE.with_borrow_mut(|inside| inside.push(span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        INSIDE.with_borrow_mut(|inside| {
            let place = inside.iter().rposition(|it| *it == span.into_u64());
            place.map(|place| inside.remove(place));
        });
    }

    fn current_span(&self) -> Current {
        let inside = INSIDE.try_with(|inside| inside.borrow().last().copied()).ok().flatten();
        let Some(id) = inside else { return Current::none() };
        Current::new(Id::from_u64(id), all().spans.lock().unwrap()[&id].metadata)
    }

    fn clone_span(&self, span: &Id) -> Id {
        if let Some(kept) = all().spans.lock().unwrap().get_mut(&span.into_u64()) {
            kept.handles += 1;
        }
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let mut spans = all().spans.lock().unwrap();
        let Some(kept) = spans.get_mut(&span.into_u64()) else { return false };
        kept.handles = kept.handles.saturating_sub(1);
        let is_closed = kept.handles == 0;
        drop(spans);
        all().closed.notify_all();
        is_closed
    }
}
