//! Training of the ensembles of all groups, in a folder that survives being killed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use candle_core::{Device, Tensor};
use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stagewright_core::seed;
use stagewright_learned::Ensemble;
use stagewright_learned::network::Network;
use stagewright_policy::checkpoint;
use stagewright_policy::learn::{AdamConfig, Descent, Parts, TrainError};
use stagewright_policy::weights::{Source, WeightsError};

use super::examples::Examples;
use super::net::{Batch, Net};
use crate::run::{Folder, Result, RunError};

/// Examples of a step.
const BATCH: usize = 1024;

/// Epochs between two states that are kept.
const KEEP: u64 = 2;

/// Settings of training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSettings {
    /// Networks of an ensemble.
    pub networks: usize,
    /// Widths of the hidden layers.
    pub widths: Vec<usize>,
    /// Passes over the examples.
    pub epochs: u64,
    /// Share of the examples of a step that do not know their class.
    pub masked: f32,
    /// Seed of all random draws.
    pub seed: u64,
    /// The optimiser.
    pub adam: AdamConfig,
}

impl Default for KernelSettings {
    fn default() -> Self {
        KernelSettings {
            networks: 3,
            widths: vec![64, 64],
            epochs: 24,
            masked: 0.3,
            seed: 0,
            adam: AdamConfig {
                learning_rate: 4e-3,
                warmup: 100,
                final_lr_fraction: 0.0005,
                weight_decay: 1e-4,
                max_grad_norm: 10.0,
            },
        }
    }
}

/// Receiver of the number of networks that are done, and of their total number.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Progress of one network, saved with its state.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    settings: KernelSettings,
    /// Digest of the examples.
    examples: String,
    /// Steps taken.
    steps: u64,
}

/// Trains an ensemble for each group of examples, on as many threads as given, each of which trains one network at a
/// time. With a folder, states are kept every two epochs, and a later call goes on from them. `None` if interrupted.
///
/// # Errors
/// If a state cannot be written or read, is of other settings or examples, or if gradients are not finite.
pub fn train(
    groups: &[Examples],
    settings: &KernelSettings,
    folder: Option<&Folder>,
    threads: usize,
    interrupt: &AtomicBool,
    progress: Progress<'_>,
) -> Result<Option<Vec<Ensemble>>> {
    let jobs: Vec<(usize, usize)> = (0..groups.len())
        .flat_map(|group| (0..settings.networks).map(move |number| (group, number)))
        .collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<Option<Result<Option<Network>>>>> =
        Mutex::new(jobs.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                while let Some(&(group, number)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let job = Job { examples: &groups[group], settings, folder, interrupt, number };
                    let result = job.run();
                    let is_over = !matches!(result, Ok(Some(_)));
                    let index = group * settings.networks + number;
                    results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
                    if is_over {
                        break;
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
                }
            });
        }
    });
    let mut networks = Vec::with_capacity(jobs.len());
    for result in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match result.transpose()?.flatten() {
            Some(network) => networks.push(network),
            None => return Ok(None),
        }
    }
    let mut networks = networks.into_iter();
    let ensemble = |examples: &Examples| Ensemble {
        group: examples.group,
        scales: examples.scales.clone(),
        classes: examples.classes.clone(),
        networks: networks.by_ref().take(settings.networks).collect(),
    };
    Ok(Some(groups.iter().map(ensemble).collect()))
}

/// One network.
struct Job<'a> {
    examples: &'a Examples,
    settings: &'a KernelSettings,
    folder: Option<&'a Folder>,
    interrupt: &'a AtomicBool,
    number: usize,
}

impl Job<'_> {
    /// Trains the network; `None` if interrupted.
    fn run(&self) -> Result<Option<Network>> {
        let Job { examples, settings, .. } = self;
        let device = stagewright_policy::solver::device().map_err(RunError::Device)?;
        let failed = |error: candle_core::Error| RunError::Train(TrainError::from(error));
        let seed = settings.seed.wrapping_add(self.number as u64);
        let (net, mut descent) = self.begin(seed, &device)?;
        let (count, batch) = (examples.len(), BATCH.min(examples.len().max(1)));
        let each = (count / batch) as u64;
        let total = each * settings.epochs;
        while descent.steps() < total {
            let epoch = descent.steps() / each;
            let mut order: Vec<usize> = (0..count).collect();
            order.shuffle(&mut seed::stream(seed, 1 + epoch));
            for chunk in order.chunks_exact(batch).skip((descent.steps() % each) as usize) {
                if self.interrupt.load(Ordering::Relaxed) {
                    self.keep(&net, &descent)?;
                    return Ok(None);
                }
                let mut rng = seed::stream(!seed, descent.steps());
                let knows = chunk.iter().map(|_| f32::from(rng.random::<f32>() >= settings.masked)).collect();
                let loss = self.batch(chunk, knows, &device).and_then(|batch| net.loss(&batch));
                let rate = settings.adam.rate_at(descent.steps(), total);
                descent.step(&net.weights, &loss.map_err(failed)?, rate)?;
            }
            if (epoch + 1).is_multiple_of(KEEP) || descent.steps() == total {
                self.keep(&net, &descent)?;
            }
        }
        net.network().map(Some).map_err(failed)
    }

    /// The network and its optimiser, from a kept state or from the seed.
    fn begin(&self, seed: u64, device: &Device) -> Result<(Net, Descent)> {
        let Job { examples, settings, .. } = self;
        let net = |source| {
            let (features, classes) = (examples.group.features(), examples.classes.len());
            Net::new(source, features, &settings.widths, classes, device)
        };
        let file = self.state();
        let wrong = |error| RunError::Checkpoint { file: self.name(), error };
        let built = |error: WeightsError| RunError::Checkpoint { file: self.name(), error: error.into() };
        if let Some(file) = &file
            && let Some(bytes) = Folder::read(file)?
        {
            let (tensors, text) = checkpoint::read(&bytes).map_err(wrong)?;
            let kept: Option<Kept> = serde_json::from_str(&text).ok();
            let kept = kept.filter(|kept| kept.settings == **settings && kept.examples == self.digest());
            let kept = kept.ok_or(RunError::OtherRun)?;
            let mut parts = Parts::from_tensors(tensors).map_err(wrong)?;
            let net = net(Source::Given(parts.take_weights())).map_err(built)?;
            let descent = Descent::restore(&net.weights, settings.adam, kept.steps, parts).map_err(wrong)?;
            return Ok((net, descent));
        }
        let net = net(Source::Seed(seed)).map_err(built)?;
        let descent = Descent::new(&net.weights, settings.adam)
            .map_err(|error| RunError::Train(TrainError::from(error)))?;
        Ok((net, descent))
    }

    fn keep(&self, net: &Net, descent: &Descent) -> Result<()> {
        let Some(file) = self.state() else { return Ok(()) };
        let kept = Kept { settings: self.settings.clone(), examples: self.digest(), steps: descent.steps() };
        let bytes = checkpoint::write(&descent.tensors(&net.weights), &kept)
            .map_err(|error| RunError::Train(TrainError::from(error)))?;
        Folder::write(&file, &bytes)
    }

    fn batch(&self, chunk: &[usize], knows: Vec<f32>, device: &Device) -> candle_core::Result<Batch> {
        let Job { examples, .. } = self;
        let (rows, features) = (chunk.len(), examples.group.features());
        let mut values = Vec::with_capacity(rows * features);
        for &index in chunk {
            values.extend_from_slice(&examples.features[index * features..][..features]);
        }
        let tensor = |numbers: Vec<f32>, shape: &[usize]| Tensor::from_vec(numbers, shape, device);
        Ok(Batch {
            features: tensor(values, &[rows, features])?,
            class: Tensor::from_vec(
                chunk.iter().map(|&index| examples.class[index]).collect(),
                rows,
                device,
            )?,
            knows: tensor(knows, &[rows, 1])?,
            kilocycles: tensor(
                chunk.iter().flat_map(|&index| examples.kilocycles[index]).collect(),
                &[rows, 2],
            )?,
            target: tensor(chunk.iter().map(|&index| examples.target[index]).collect(), &[rows])?,
        })
    }

    fn name(&self) -> String {
        format!("{}-{}.safetensors", self.examples.group.name(), self.number)
    }

    fn state(&self) -> Option<PathBuf> {
        Some(self.folder?.path().join(self.name()))
    }

    /// Digest of everything that the examples have.
    fn digest(&self) -> String {
        let Examples { features, kilocycles, class, target, classes, .. } = self.examples;
        let mut digest = Sha256::new();
        let numbers = features.iter().chain(kilocycles.iter().flatten()).chain(target);
        numbers.for_each(|number| digest.update(number.to_le_bytes()));
        class.iter().for_each(|index| digest.update(index.to_le_bytes()));
        classes.iter().for_each(|name| digest.update(name));
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stagewright_core::document::Precision;
    use stagewright_formats::clusters::device;
    use stagewright_learned::{Group, Rowwise, Shape};

    use super::super::Sample;
    use super::*;

    /// Sums on a T4 that take ten microseconds and the time of their bytes at four fifths of the bandwidth.
    fn examples() -> Examples {
        let t4 = device("t4").unwrap();
        let sample = |index: u32| {
            let (rows, columns) = (f64::from(1 + index * 37 % 997), f64::from(8 + index * 91 % 4001));
            let seconds = 1e-5 + 12.0 * rows * columns / (0.8 * 320e9);
            let shape = Shape::Rows { operation: Rowwise::Add, rows, columns };
            Sample { device: t4, shape, precision: Precision::Fp32, seconds, is_test: false }
        };
        let samples: Vec<Sample> = (0..600).map(sample).collect();
        Examples::new(Group::Rows, &samples)
    }

    #[test]
    fn a_run_that_is_stopped_again_and_again_makes_the_same_networks() {
        let groups = [examples()];
        let settings =
            KernelSettings { networks: 2, widths: vec![8], epochs: 60, ..KernelSettings::default() };
        let never = AtomicBool::new(false);
        let silent = |_: usize, _: usize| ();
        let whole = train(&groups, &settings, None, 2, &never, &silent).unwrap().unwrap();

        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path()).unwrap();
        let mut stops = 0;
        let resumed = loop {
            let interrupt = AtomicBool::new(false);
            let ensembles = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    interrupt.store(true, Ordering::Relaxed);
                });
                train(&groups, &settings, Some(&folder), 2, &interrupt, &silent).unwrap()
            });
            match ensembles {
                Some(ensembles) => break ensembles,
                None => stops += 1,
            }
            assert!(stops < 1000, "a run goes on");
        };
        assert_eq!(resumed, whole, "after {stops} stops");

        let other = KernelSettings { epochs: 61, ..settings };
        let refused = train(&groups, &other, Some(&folder), 1, &never, &silent);
        assert!(matches!(refused, Err(RunError::OtherRun)));
    }

    #[test]
    fn a_network_learns_a_launch_and_a_bandwidth() {
        let groups = [examples()];
        let settings =
            KernelSettings { networks: 1, widths: vec![8], epochs: 600, ..KernelSettings::default() };
        let never = AtomicBool::new(false);
        let ensembles = train(&groups, &settings, None, 1, &never, &|_, _| ()).unwrap().unwrap();
        let estimator = stagewright_learned::Estimator::new(ensembles);
        let shape = Shape::Rows { operation: Rowwise::Add, rows: 500.0, columns: 2000.0 };
        let seconds = estimator.seconds(device("t4").unwrap(), &shape, Precision::Fp32).unwrap().seconds;
        let expected = 1e-5 + 12.0 * 500.0 * 2000.0 / (0.8 * 320e9);
        assert!((seconds / expected - 1.0).abs() < 0.1, "{seconds}, {expected}");
    }
}
