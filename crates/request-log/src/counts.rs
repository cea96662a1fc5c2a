//! Counts requests by what answered them and by their routes, for the metrics.
//!
//! Each listen thread has its own cells for each application, upstream, route and other kind of action of the configuration, and is their
//! only writer: a request costs a clock reading and a few plain additions. A scrape adds the threads up. A change of the configuration
//! keeps the cells of everything that it keeps by name.
//!
//! Must never: make a cell for something that a client has sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use tutti_metrics::{Classes, Durations, Histogram, Measured, Page, PerThread, names};
use tutti_routing::DecisionKind;

/// The answerer of a request, each counted separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answerer {
    /// The server, because the request is refused or no route matches.
    #[default]
    Nothing,
    /// A file, or a page instead of one.
    Share,
    /// `return`.
    Return,
    /// The metrics.
    Metrics,
    /// A spooler, which has stored it.
    Spooler,
    /// Maintenance.
    Maintenance,
    /// A stored response.
    Cache,
    /// The application with this number.
    Application(usize),
    /// The upstream with this number.
    Upstream(usize),
}

impl Answerer {
    /// The answerer of an action.
    pub fn of(action: &DecisionKind<'_>) -> Self {
        match action {
            DecisionKind::Application(found) => Self::Application(found.index),
            DecisionKind::Upstream(index) => Self::Upstream(*index),
            DecisionKind::Share(_) => Self::Share,
            DecisionKind::Return(_) => Self::Return,
            DecisionKind::Metrics | DecisionKind::StubStatus => Self::Metrics,
            DecisionKind::Spooler(_) => Self::Spooler,
            DecisionKind::NotFound | DecisionKind::Loop | DecisionKind::Undecided => Self::Nothing,
        }
    }
}

/// The counts of one thread for one answerer or one route.
#[derive(Debug, Default)]
struct Cells {
    classes: Classes,
    durations: Durations,
}

impl Cells {
    fn add(&self, status: u16, took: Measured) {
        self.classes.add(status);
        // The time of a connection that switched protocols is not that of a request.
        if status >= 200 {
            self.durations.add(took);
        }
    }
}

/// The cells of one answerer.
type Answered = Arc<PerThread<Cells>>;

/// The cells of something that the configuration names.
type Named = (Box<str>, Answered);

/// The cells of everything that may answer requests of a configuration.
pub struct ResponseCounts {
    threads: usize,
    nothing: Answered,
    share: Answered,
    returned: Answered,
    metrics: Answered,
    spooler: Answered,
    maintenance: Answered,
    cache: Answered,
    /// With their names, in the snapshot's order.
    applications: Vec<Named>,
    upstreams: Vec<Named>,
    routes: Vec<Named>,
}

impl ResponseCounts {
    /// For this many threads, without any application or upstream.
    pub fn new(threads: usize) -> Self {
        let cells = || Arc::new(PerThread::new(threads));
        Self {
            threads,
            nothing: cells(),
            share: cells(),
            returned: cells(),
            metrics: cells(),
            spooler: cells(),
            maintenance: cells(),
            cache: cells(),
            applications: Vec::new(),
            upstreams: Vec::new(),
            routes: Vec::new(),
        }
    }

    /// The number of listen threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The counts for another configuration; they continue for equal names.
    pub fn of<'n>(
        &self,
        applications: impl Iterator<Item = &'n str>,
        upstreams: impl Iterator<Item = &'n str>,
        routes: impl Iterator<Item = &'n str>,
    ) -> Self {
        Self {
            threads: self.threads,
            nothing: Arc::clone(&self.nothing),
            share: Arc::clone(&self.share),
            returned: Arc::clone(&self.returned),
            metrics: Arc::clone(&self.metrics),
            spooler: Arc::clone(&self.spooler),
            maintenance: Arc::clone(&self.maintenance),
            cache: Arc::clone(&self.cache),
            applications: self.renewed(&self.applications, applications),
            upstreams: self.renewed(&self.upstreams, upstreams),
            routes: self.renewed(&self.routes, routes),
        }
    }

    fn renewed<'n>(&self, before: &[Named], names: impl Iterator<Item = &'n str>) -> Vec<Named> {
        let before = before.iter().map(|(name, cells)| (&**name, cells));
        let mut known: BTreeMap<&str, Answered> = before
            .map(|(name, cells)| (name, Arc::clone(cells)))
            .collect();
        let mut renewed = Vec::new();
        for name in names {
            // Two with one name count together.
            let cells = match known.get(name) {
                Some(cells) => Arc::clone(cells),
                None => Arc::new(PerThread::new(self.threads)),
            };
            renewed.push((name.into(), Arc::clone(&cells)));
            known.insert(name, cells);
        }
        renewed
    }

    /// Counts a request of a thread, answered with this status after `took`.
    pub fn note(&self, thread: u32, answerer: Answerer, status: u16, took: Measured) {
        let Some(cells) = self.cells(answerer).and_then(|cells| cells.of(thread)) else {
            return;
        };
        cells.add(status, took);
    }

    /// Counts a request of a thread for the route with this number.
    pub fn note_route(&self, thread: u32, route: usize, status: u16, took: Measured) {
        let cells = self.routes.get(route).and_then(|(_, all)| all.of(thread));
        if let Some(cells) = cells {
            cells.add(status, took);
        }
    }

    fn cells(&self, answerer: Answerer) -> Option<&PerThread<Cells>> {
        Some(match answerer {
            Answerer::Nothing => &self.nothing,
            Answerer::Share => &self.share,
            Answerer::Return => &self.returned,
            Answerer::Metrics => &self.metrics,
            Answerer::Spooler => &self.spooler,
            Answerer::Maintenance => &self.maintenance,
            Answerer::Cache => &self.cache,
            Answerer::Application(index) => &self.applications.get(index)?.1,
            Answerer::Upstream(index) => &self.upstreams.get(index)?.1,
        })
    }

    /// Adds the counts of all threads to a page.
    pub fn measure(&self, page: &mut Page) {
        self.each(|labels, answers| {
            let [action, application, upstream] = labels;
            for (class, count) in answers.classes {
                let labels = [action, application, upstream, class];
                page.add(names::REQUESTS, &labels, count);
            }
            page.add(names::REQUEST_DURATION, &labels, answers.durations.clone());
        });
        self.each_route(|route, answers| {
            for (class, count) in answers.classes {
                page.add(names::ROUTE_REQUESTS, &[route, class], count);
            }
            page.add(names::ROUTE_DURATION, &[route], answers.durations.clone());
        });
    }

    /// Calls `each` with labels (action, application, upstream) and sums of all answerers.
    pub fn each(&self, mut each: impl FnMut([&str; 3], &Answers)) {
        each(["none", "", ""], &Answers::sum(&self.nothing));
        each(["share", "", ""], &Answers::sum(&self.share));
        each(["return", "", ""], &Answers::sum(&self.returned));
        each(["metrics", "", ""], &Answers::sum(&self.metrics));
        each(["spooler", "", ""], &Answers::sum(&self.spooler));
        each(["maintenance", "", ""], &Answers::sum(&self.maintenance));
        each(["cache", "", ""], &Answers::sum(&self.cache));
        for (name, cells) in once(&self.applications) {
            each(["application", name, ""], &Answers::sum(cells));
        }
        for (name, cells) in once(&self.upstreams) {
            each(["upstream", "", name], &Answers::sum(cells));
        }
    }

    /// Calls `each` with the name and the sums of each route.
    fn each_route(&self, mut each: impl FnMut(&str, &Answers)) {
        for (name, cells) in once(&self.routes) {
            each(name, &Answers::sum(cells));
        }
    }
}

/// Each name once.
fn once(all: &[Named]) -> BTreeMap<&str, &Answered> {
    all.iter().map(|(name, cells)| (&**name, cells)).collect()
}

/// The counts of all threads for one answerer or one route.
pub struct Answers {
    /// Answers by status class.
    pub classes: [(&'static str, u64); 5],
    /// Their durations.
    pub durations: Histogram,
}

impl Answers {
    fn sum(cells: &PerThread<Cells>) -> Self {
        Self {
            classes: Classes::sum(cells.all().map(|thread| &thread.classes)),
            durations: Durations::sum(cells.all().map(|thread| &thread.durations)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn counts_continue_by_name_and_end_with_it() {
        let first = ResponseCounts::new(1).of(
            ["a", "b"].into_iter(),
            ["u"].into_iter(),
            ["routes"].into_iter(),
        );
        let add = |counts: &ResponseCounts, answerer| {
            let cells = counts.cells(answerer).unwrap().of(0).unwrap();
            cells.classes.add(200);
        };
        add(&first, Answerer::Application(1));
        add(&first, Answerer::Upstream(0));
        add(&first, Answerer::Share);
        let took = Measured::from(Duration::from_millis(3));
        first.note_route(0, 0, 204, took);
        first.note_route(0, 0, 101, took);
        // `b` has another number now, and a request that began before continues.
        let second = first.of(
            ["b"].into_iter(),
            ["u", "u"].into_iter(),
            ["routes/x", "routes"].into_iter(),
        );
        add(&first, Answerer::Application(1));
        add(&second, Answerer::Upstream(1));
        first.note_route(0, 0, 200, took);
        second.note_route(0, 1, 200, took);
        second.note_route(0, 2, 200, took);
        let counted = |counts: &ResponseCounts| {
            let mut lines = Vec::new();
            counts.each(|labels, answers| {
                lines.push((labels.join(" "), answers.classes[1].1));
            });
            lines
        };
        let expected = [
            ("none  ", 0),
            ("share  ", 1),
            ("return  ", 0),
            ("metrics  ", 0),
            ("spooler  ", 0),
            ("maintenance  ", 0),
            ("cache  ", 0),
            ("application b ", 2),
            ("upstream  u", 2),
        ];
        assert_eq!(
            counted(&second),
            expected.map(|(name, n)| (name.to_owned(), n))
        );
        let third = second.of(["a"].into_iter(), [].into_iter(), [].into_iter());
        assert_eq!(counted(&third)[7], ("application a ".to_owned(), 0));
        let mut routes = Vec::new();
        second.each_route(|name, answers| {
            let succeeded = answers.classes[1].1;
            routes.push((name.to_owned(), succeeded, answers.durations.count()));
        });
        // A connection that switched protocols has no duration.
        assert_eq!(
            routes,
            [("routes".to_owned(), 3, 3), ("routes/x".to_owned(), 0, 0)]
        );
        third.each_route(|name, _| panic!("{name} is not there any more"));
    }
}
