//! Task graphs with communication on identical, fully connected processors: the problem P | prec, c_jk | C_max of the
//! scheduling literature.
//!
//! A task takes the same time on every processor. An edge takes its communication time between two processors and no
//! time within one. In the literature transfers do not contend, so the execution is contention-free. Every plan then
//! gives a schedule of the published model, but not every schedule of that model has a plan: here a processor never
//! waits while one of its tasks is ready, and a tensor that arrives at the instant at which its device becomes free may
//! be too late to be considered.

use stagewright_core::cluster::ClusterBuilder;
use stagewright_core::document::{Execution, KindDocument, OperatorDocument, TensorDocument};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;

/// The device class of the processors.
const CLASS: &str = "processor";

/// A task graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskGraph {
    /// Seconds of every task.
    pub seconds: Vec<u32>,
    /// Producer, consumer and seconds of communication of every edge.
    pub edges: Vec<(usize, usize, u32)>,
}

/// Seconds of the optimal schedule of an instance of Davidović and Crainic with a known optimum: 600 for 50 tasks, and
/// 200 more for every 50 further tasks, with any number of processors.
pub fn known_length(tasks: usize) -> u32 {
    400 + 4 * tasks as u32
}

impl TaskGraph {
    /// Reads a file of Davidović and Crainic, "Benchmark-problem instances for static scheduling of task graphs with
    /// communication delays on homogeneous multiprocessor systems", Computers & Operations Research 2006. It has the
    /// number of tasks, then for every task its number, counted from one, its seconds and the number of its successors,
    /// and for each successor its number and the seconds of communication. `None` if the text does not have this form.
    pub fn from_td(text: &str) -> Option<TaskGraph> {
        let mut words = text.split_whitespace().map(|word| word.parse::<u32>().ok());
        let mut next = || words.next().flatten();
        let mut graph = TaskGraph::default();
        for task in 0..next()? as usize {
            (next()? as usize == task + 1).then_some(())?;
            graph.seconds.push(next()?);
            for _ in 0..next()? {
                let successor = (next()? as usize).checked_sub(1)?;
                graph.edges.push((task, successor, next()?));
            }
        }
        words.next().is_none().then_some(graph)
    }

    /// The makespan problem of the graph on `processors` processors.
    ///
    /// # Panics
    /// If an edge names no task, or if there is a cycle.
    pub fn problem(&self, processors: u32, execution: Execution) -> Problem {
        let mut graph = GraphBuilder::new("tasks");
        let on_class = |seconds: u32| [(CLASS.to_owned(), f64::from(seconds))].into();
        for (task, &seconds) in self.seconds.iter().enumerate() {
            let named = OperatorDocument::named(format!("t{task}"));
            graph.operator(OperatorDocument { seconds: on_class(seconds), ..named });
        }
        for &(from, to, seconds) in &self.edges {
            graph.timed_tensor(TensorDocument {
                name: None,
                producer: format!("t{from}"),
                consumers: vec![format!("t{to}")],
                bytes: 1.0,
                seconds: on_class(seconds),
            });
        }
        let mut cluster = ClusterBuilder::new("processors");
        cluster.kind(KindDocument::named(CLASS, processors));
        let (graph, cluster) = (graph.build().expect("a task graph"), cluster.build().expect("a cluster"));
        let objective = Objective::Makespan { execution };
        Problem::new(graph, cluster, objective).expect("a sound problem")
    }
}
