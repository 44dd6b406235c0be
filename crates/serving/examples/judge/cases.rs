//! Rows whose times can be predicted.

use stagewright_core::document::LinkDocument;
use stagewright_serving::{
    Device, Engine, Load, Parallel, Pools, Prediction, Replica, RequestClass, Worker, aggregated,
    disaggregated,
};

use super::models::{ModelId, Models};
use super::report::Errors;
use super::rows::{Role, Row};

/// Names of systems whose device has another name here.
const SYSTEMS: [(&str, &str); 4] = [
    ("a100_sxm", "a100-80gb"),
    ("a100_pcie", "a100-pcie-80gb"),
    ("h100_pcie", "h100-pcie"),
    ("rtx_pro_6000_server", "rtx-pro-6000"),
];

/// Workers of a row.
#[derive(Debug, Clone)]
enum Workers {
    Aggregated(Parallel),
    Disaggregated { prefill: Parallel, prefills: u64, decode: Parallel, decodes: u64 },
}

/// A row with its model and device.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) row: Row,
    pub(crate) model: ModelId,
    /// Number of the engine in the table of engines.
    pub(crate) engine: usize,
    pub(crate) device: Device,
    workers: Workers,
    class: RequestClass,
    load: Load,
    /// Measured seconds to the first token and between tokens.
    pub(crate) measured: [f64; 2],
}

/// The prediction of a case, or the reason why there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Outcome {
    Predicted(Prediction),
    OutOfMemory,
}

impl Case {
    /// The case of a row, or the reason that there is none.
    pub(crate) fn new(row: &Row, models: &mut Models, engines: &[Engine]) -> Result<Case, String> {
        let seconds = |value: Option<f64>| value.filter(|&value| value > 0.0).map(|value| value / 1e3);
        let measured = [row.silicon_ttft_ms, row.silicon_tpot_ms].map(seconds);
        let [Some(ttft), Some(tpot)] = measured else { return Err("a time was not measured".into()) };
        let model = models.find(&row.model_path, &row.precision)?;
        let device = device(&row.system)?;
        let name = stagewright_serving::engine("row", &row.backend).map_err(|error| error.message)?;
        let engine = engines.iter().position(|engine| engine.name == name.name).ok_or("no such engine")?;
        let length = |value: Option<f64>| value.filter(|&tokens| tokens >= 1.0).map(|tokens| tokens as u64);
        let (Some(input), Some(output)) = (length(row.isl), length(row.osl)) else {
            return Err("the lengths of requests are not given".into());
        };
        let batch = row.batch().ok_or("the batch is not given")?;
        let has_experts = models.get(model).kinds.iter().any(|kind| kind.experts.is_some());
        let degrees = |role| match row.parallel(role, has_experts) {
            Some((parallel, 1)) => Ok(parallel),
            Some((_, stages)) => Err(format!("{stages} stages, whose layers the row does not say")),
            None => Err("the degrees are not given".to_owned()),
        };
        let count = |value: Option<f64>| value.filter(|&count| count >= 1.0).map_or(1, |count| count as u64);
        let (workers, ranks) = if row.is_disaggregated() {
            let decode = degrees(Role::Decode)?;
            let decodes = count(row.decode_num_workers);
            let workers = Workers::Disaggregated {
                prefill: degrees(Role::Prefill)?,
                prefills: count(row.prefill_num_workers),
                decode,
                decodes,
            };
            (workers, decode.data * decodes)
        } else {
            let parallel = degrees(Role::Aggregated)?;
            (Workers::Aggregated(parallel), parallel.data)
        };
        let case = Case {
            row: row.clone(),
            model,
            engine,
            device,
            workers,
            class: RequestClass::new(input, output),
            load: Load::benchmark(batch * ranks as f64),
            measured: [ttft, tpot],
        };
        case.predict(models, engines)?;
        Ok(case)
    }

    /// The prediction with constants of engines.
    pub(crate) fn predict(&self, models: &Models, engines: &[Engine]) -> Result<Outcome, String> {
        let (model, engine) = (models.get(self.model), &engines[self.engine]);
        let replica = |parallel: Parallel| {
            let worker = Worker::new("row", model, engine, &self.device, parallel);
            let worker = worker.map_err(|error| error.message)?;
            Ok::<_, String>(Replica::single(match models.costs() {
                Some(costs) => worker.with_costs(costs),
                None => worker,
            }))
        };
        let prediction = match self.workers {
            Workers::Aggregated(parallel) => aggregated("row", &replica(parallel)?, &self.class, &self.load)
                .map_err(|error| error.message)?,
            Workers::Disaggregated { prefill, prefills, decode, decodes } => {
                let between = self.device.between;
                let transfer = LinkDocument { bandwidth: between.bandwidth * engine.link, ..between };
                let pools = Pools {
                    prefill: replica(prefill)?,
                    prefills,
                    decode: replica(decode)?,
                    decodes,
                    transfer,
                };
                disaggregated("row", &pools, &self.class, &self.load).map_err(|error| error.message)?
            }
        };
        Ok(prediction.map_or(Outcome::OutOfMemory, Outcome::Predicted))
    }

    /// Relative errors of predicted times, to the first token and between tokens; none if out of memory.
    pub(crate) fn errors(&self, models: &Models, engines: &[Engine]) -> Errors {
        match self.predict(models, engines) {
            Ok(Outcome::Predicted(prediction)) => [
                Some(prediction.ttft / self.measured[0] - 1.0),
                Some(prediction.tpot / self.measured[1] - 1.0),
            ],
            _ => [None; 2],
        }
    }

    /// Relative errors of the peer's predictions.
    pub(crate) fn peer_errors(&self) -> Errors {
        let error = |predicted: Option<f64>, measured: f64| {
            predicted.map(|predicted| predicted / 1e3 / measured - 1.0)
        };
        [error(self.row.peer_ttft_ms, self.measured[0]), error(self.row.peer_tpot_ms, self.measured[1])]
    }
}

fn device(system: &str) -> Result<Device, String> {
    let known = SYSTEMS.iter().find(|(name, _)| *name == system).map(|&(_, device)| device);
    let name = known.unwrap_or_else(|| system.strip_suffix("_sxm").unwrap_or(system));
    Device::named("system", name).map_err(|_| format!("system `{system}` is not known"))
}
