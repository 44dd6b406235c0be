//! The bounds compared with the makespans of HEFT that GiPH publishes, for task graphs on heterogeneous devices.
//!
//! GiPH's execution model has no ports: transfers do not contend. All bounds hold for it as well.

use stagewright_core::bound::{CLOSED_FORMS, strongest};

use super::heterogeneous;

#[test]
fn heft_takes_no_less_than_the_bounds() {
    let Some(tasks) = heterogeneous::tasks() else { return };
    let mut ratios = 0.0;
    for (index, task) in tasks.iter().enumerate() {
        let problem = task.problem();
        for bound in CLOSED_FORMS {
            let value = bound.compute(&problem).expect("every task can run").value;
            assert!(value <= task.heft_makespan, "task {index}: {} says {value}", bound.name());
        }
        ratios += task.heft_makespan / strongest(&problem).value;
    }
    // HEFT is within 6% of the bounds on average. If the bounds ignored communication, it would be within 31%.
    assert!(ratios / 48.0 < 1.06, "{}", ratios / 48.0);
}
