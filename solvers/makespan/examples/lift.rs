#![allow(warnings)]
use std::time::{Duration, Instant};
use stagewright_core::cluster::Cluster;
use stagewright_core::document::*;
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::*;
use stagewright_makespan::*;
struct Loud(Instant);
impl Observer for Loud { fn event(&mut self, e: &Event) -> std::ops::ControlFlow<()> { if let Event::Incumbent { value } = e { println!("  {:?} {value:.5}", self.0.elapsed()); } std::ops::ControlFlow::Continue(()) } }
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let graph: GraphDocument = serde_json::from_str(&std::fs::read_to_string(&args[0]).unwrap()).unwrap();
    let cluster: ClusterDocument = serde_json::from_str(&std::fs::read_to_string(&args[1]).unwrap()).unwrap();
    let problem = Problem::new(Graph::from_document(graph).unwrap(), Cluster::from_document(cluster).unwrap(), Objective::Makespan { execution: Execution::Ports }).unwrap();
    for name in args[2].split(',') {
        let solver = SOLVERS.iter().find(|s| s.name() == name).unwrap();
        for time in args[3].split(',') {
            let seconds: f64 = time.parse().unwrap();
            let t = Instant::now();
            let mut loud = Loud(t);
            let mut context = Context::new(Settings { limits: Limits { time: Some(Duration::from_secs_f64(seconds)), ..Limits::default() }, threads: 2, ..Settings::default() }, &mut loud);
            let s = solver.solve(&problem, &mut context).unwrap();
            println!("{} {name} {seconds}: {:?} bound {:.5} {} in {:?} {:?}", args[0], s.plan.as_ref().map(|p| p.value()), s.bound.value, s.bound.source, t.elapsed(), s.reason);
        }
    }
}
