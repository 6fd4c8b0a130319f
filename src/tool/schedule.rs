//! Which calls of a batch may be at work: no more at once than allowed, and none beside an earlier one that touches the same.
//!
//! Calls that may not start yet are kept here and take no thread. Whoever sees a call end hands on those that may start
//! then: the thread it ran on, or the one that waits for it and no longer counts on it. The first call of those that have
//! not ended is never held by another that waits, so all of them get their turn.

use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::{Arc, OnceLock},
};

use crate::{
    error::Error,
    thread::lock::Mutex,
    tool::{Tool, ToolPool, pool::Job},
};

/// A call that wants to run.
pub(crate) struct Planned {
    pub(crate) tool: Tool,
    /// What it touches.
    pub(crate) resources: Vec<String>,
    pub(crate) job: Job,
}

/// The calls of one batch. A clone is a handle to the same.
#[derive(Clone)]
pub(crate) struct Schedule {
    inner: Arc<Inner>,
}

struct Inner {
    /// Told once; calls of a batch that nothing holds back need no more than that.
    plan: OnceLock<Plan>,
}

struct Plan {
    pool: ToolPool,
    at_once: Option<usize>,
    calls: Mutex<Vec<Entry>>,
}

struct Entry {
    name: Arc<str>,
    at_once: Option<usize>,
    resources: Vec<String>,
    phase: Phase,
}

enum Phase {
    Held(Job),
    Started,
    Ended,
}

impl Schedule {
    pub(crate) fn new() -> Schedule {
        Schedule { inner: Arc::new(Inner { plan: OnceLock::new() }) }
    }

    /// Starts the calls that may start on the pool; the others follow as calls end.
    pub(crate) fn start(
        &self,
        pool: &ToolPool,
        at_once: Option<usize>,
        calls: Vec<Planned>,
    ) -> Result<(), Error> {
        let at_once = at_once.filter(|most| *most < calls.len());
        let is_free = |call: &Planned| {
            call.resources.is_empty() && call.tool.call_limits_said().at_once.is_none()
        };
        if calls.len() < 2 || (at_once.is_none() && calls.iter().all(is_free)) {
            return pool.run(calls.into_iter().map(|call| call.job).collect());
        }
        let entries = calls.into_iter().map(Entry::of).collect();
        let plan = Plan { pool: pool.clone(), at_once, calls: Mutex::new(entries) };
        self.inner.plan.get_or_init(|| plan).go_on(None)
    }

    /// Takes note that a call is over, or that nobody waits for it any more, and starts what may start then.
    pub(crate) fn ended(&self, index: usize) {
        if let Some(plan) = self.inner.plan.get() {
            // A pool that can start no thread has those that it has.
            let _ = plan.go_on(Some(index));
        }
    }
}

impl Plan {
    fn go_on(&self, ended: Option<usize>) -> Result<(), Error> {
        let (jobs, over) = {
            let mut calls = self.calls.lock();
            let over = ended.and_then(|index| calls.get_mut(index)).map(Entry::end);
            (may_start(&mut calls, self.at_once), over)
        };
        // A call that never ran holds what is the host's.
        drop(over);
        let count = jobs.len();
        if count > 0 {
            self.pool.run(jobs)?;
        }
        if ended.is_some() && count > 1 {
            self.pool.relieve(true);
        }
        Ok(())
    }
}

/// Takes the jobs that may start, in their order.
fn may_start(calls: &mut [Entry], at_once: Option<usize>) -> Vec<Job> {
    let mut running = 0;
    let mut of_tool: HashMap<Arc<str>, usize> = HashMap::new();
    for call in calls.iter().filter(|call| matches!(call.phase, Phase::Started)) {
        running += 1;
        *of_tool.entry(call.name.clone()).or_default() += 1;
    }
    let mut jobs = Vec::new();
    let mut touched: HashSet<&str> = HashSet::new();
    for Entry { name, at_once: of_one, resources, phase } in calls {
        let is_free = !resources.iter().any(|resource| touched.contains(resource.as_str()));
        if !matches!(phase, Phase::Ended) {
            touched.extend(resources.iter().map(String::as_str));
        }
        let same = of_tool.entry(name.clone()).or_default();
        let has_room = at_once.is_none_or(|most| running < most.max(1))
            && of_one.is_none_or(|most| *same < most.max(1));
        if !is_free || !has_room || !matches!(phase, Phase::Held(_)) {
            continue;
        }
        if let Phase::Held(job) = mem::replace(phase, Phase::Started) {
            running += 1;
            *same += 1;
            jobs.push(job);
        }
    }
    jobs
}

impl Entry {
    fn of(call: Planned) -> Entry {
        Entry {
            name: Arc::from(call.tool.name()),
            at_once: call.tool.call_limits_said().at_once,
            resources: call.resources,
            phase: Phase::Held(call.job),
        }
    }

    fn end(&mut self) -> Phase {
        mem::replace(&mut self.phase, Phase::Ended)
    }
}
