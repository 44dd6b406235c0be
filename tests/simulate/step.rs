//! The figures of a step are consistent with each other and with the evaluation.

use serde_json::Value;
use stagewright::report::steady::Steady;
use stagewright::report::step::document::{DeviceNames, StepDocument};
use stagewright::report::step::{Part, Step, text};
use stagewright_core::evaluate::evaluate;
use stagewright_core::tolerance;
use stagewright_testing::steps::{placed, problem};

fn close(left: f64, right: f64) -> bool {
    tolerance::same(left, right) || (left - right).abs() < 1e-12
}

#[test]
fn figures_are_those_of_the_evaluation_and_parts_add_up() {
    let mut seen = [0; 4];
    for number in 0..2_000 {
        let problem = problem(number);
        let chosen = placed(&problem, number);
        let evaluation = evaluate(&problem, &chosen);
        let step = Step::new(&problem, &chosen);
        assert_eq!(step.makespan(), evaluation.value, "{number}");
        let devices = step.devices();
        assert_eq!(devices.len(), evaluation.devices.len());
        for (figures, load) in devices.iter().zip(&evaluation.devices) {
            assert_eq!((figures.device, figures.peak_bytes), (load.device, load.memory_bytes), "{number}");
            assert_eq!(figures.compute, load.compute(), "{number}");
            assert!(close(figures.sent + figures.received, load.communication()), "{number}");
            assert!(close(figures.idle + figures.compute, step.makespan()), "{number}");
            assert!(close(figures.utilisation * step.makespan(), figures.compute), "{number}");
        }
        let operators: usize = devices.iter().map(|device| device.operators).sum();
        assert_eq!(operators, problem.graph().operator_count());
        for (figures, load) in step.uplinks().iter().zip(&evaluation.uplinks) {
            assert!(close(figures.busy, load[0]), "{number}");
        }
        let path = step.critical_path();
        let parts = Part::ALL.map(|part| path.seconds(part));
        let sum = parts.iter().sum::<f64>() + path.synchronisation;
        assert!(close(sum, step.makespan()), "{number}: {parts:?}");
        assert!(path.steps.windows(2).all(|two| two[0].span.end == two[1].span.start), "{number}");
        let longest = path.longest(3);
        assert!(longest.windows(2).all(|two| two[0].seconds() >= two[1].seconds()));
        assert_eq!(longest.len(), path.steps.len().min(3));
        for (seen, part) in seen.iter_mut().zip(parts) {
            *seen += u32::from(part > 0.0);
        }
    }
    assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
}

#[test]
fn the_document_is_the_whole_timeline() {
    for number in 0..300 {
        let problem = problem(number);
        let chosen = placed(&problem, number);
        let step = Step::new(&problem, &chosen);
        let names = DeviceNames::new(&step);
        let steady = Steady::new(&problem, &chosen);
        let document: Value =
            serde_json::to_value(StepDocument::new(&step, &names, &steady)).expect("a document");
        assert_eq!(document["steady_state"], Value::Null);
        assert_eq!(document["no_steady_state"], "a plan for makespan runs one batch at a time");
        let list = |field: &str| document[field].as_array().expect("a list").clone();
        assert_eq!(document["makespan_s"].as_f64(), Some(step.makespan()));
        assert_eq!(list("operators").len(), problem.graph().operator_count());
        assert_eq!(list("transfers").len(), step.flow().transfer_count());
        for (op, listed) in problem.graph().operators().zip(list("operators")) {
            assert_eq!(listed["operator"], problem.graph().operator(op).name.as_str());
            assert_eq!(listed["device"], problem.cluster().device_name(chosen.device_of(op)).as_str());
            assert_eq!(listed["end_s"].as_f64(), Some(step.timeline().operators()[op.index()].end));
        }
        let known: Vec<Value> = list("devices").iter().map(|device| device["name"].clone()).collect();
        for transfer in list("transfers") {
            assert_ne!(transfer["from"], transfer["to"]);
            assert!(known.contains(&transfer["from"]) && known.contains(&transfer["to"]));
        }
        let path = &document["critical_path"];
        let last = path["steps"].as_array().and_then(|steps| steps.last().cloned());
        let end = last.and_then(|last| last["end_s"].as_f64()).expect("an end");
        assert!(close(end + step.timeline().synchronisation(), step.makespan()), "{number}");
        assert!(text::step(&step, None).starts_with("makespan "));
    }
}
