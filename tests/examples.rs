//! Every example runs without an error.

#[path = "../examples/by_hand.rs"]
mod by_hand;
#[path = "../examples/onnx.rs"]
#[allow(dead_code, reason = "its arguments would be those of the test")]
mod onnx;
#[path = "../examples/own_bound.rs"]
mod own_bound;
#[path = "../examples/own_format.rs"]
mod own_format;
#[path = "../examples/own_solver.rs"]
mod own_solver;
#[path = "../examples/score.rs"]
mod score;

#[test]
fn a_graph_is_built_by_hand() {
    by_hand::main().expect("it ends well");
}

#[test]
fn a_model_is_read_from_a_file() {
    let model = format!("{}/data/demo/gpt2.onnx", crate::ROOT);
    onnx::plan(&model, "4xt4:fp32").expect("it ends well");
}

#[test]
fn a_bound_of_ones_own_holds() {
    own_bound::main().expect("it ends well");
}

#[test]
fn a_model_and_a_plan_have_a_notation_of_ones_own() {
    own_format::main().expect("it ends well");
}

#[test]
fn a_solver_of_ones_own_is_compared() {
    own_solver::main().expect("it ends well");
}

#[test]
fn placements_are_scored() {
    score::main().expect("it ends well");
}
