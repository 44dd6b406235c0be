//! Constants of runtimes and devices: those of `data/runtimes.toml`, and the shares of peaks that training reaches.

use stagewright_core::document::RuntimeDocument;
use stagewright_formats::runtimes::runtimes;

use super::case::Case;
use super::devices::Generation;
use super::rows::Kernel;

/// All constants.
#[derive(Debug, Clone)]
pub(crate) struct Constants {
    pub(crate) runtimes: Vec<RuntimeDocument>,
    /// Share of the peak of A100 and older in training.
    pub(crate) old: f64,
    /// Share of the peak of H100 and newer in training.
    pub(crate) new: f64,
    /// Share of the peak of cards of low power in training.
    pub(crate) low_power: f64,
    /// Rate of FlashAttention 1 over FlashAttention 2.
    pub(crate) flash1: f64,
    /// Rate of attention kernels that were written for A100 over those for H100, on H100 and newer (Shah et al. 2024,
    /// FlashAttention-3: 1.5 to 2 times as fast).
    pub(crate) older: f64,
    /// Traffic of a softmax of several operators over that of one.
    pub(crate) plain: f64,
}

impl Constants {
    /// The shipped constants.
    pub(crate) fn shipped() -> Constants {
        Constants {
            runtimes: runtimes().to_vec(),
            old: 0.69,
            new: 0.65,
            low_power: 0.35,
            flash1: 0.43,
            older: 0.6,
            plain: 1.9,
        }
    }

    /// Changes all runtimes.
    pub(crate) fn all(&mut self, change: impl Fn(&mut RuntimeDocument)) {
        self.runtimes.iter_mut().for_each(change);
    }

    /// Share of the peak that GPUs of a generation reach in training.
    pub(crate) fn efficiency(&self, generation: Generation) -> f64 {
        match generation {
            Generation::Old => self.old,
            Generation::New => self.new,
            Generation::LowPower => self.low_power,
        }
    }

    /// Constants of the runtime of a case, with what its row says.
    pub(crate) fn runtime(&self, case: &Case) -> RuntimeDocument {
        let run = &case.run;
        let profile = self.runtimes.iter().find(|runtime| runtime.name == case.runtime);
        let profile =
            profile.unwrap_or_else(|| panic!("data/runtimes.toml has no runtime `{}`", case.runtime));
        let is_new = case.machines.generations.contains(&Generation::New);
        let of_kernel = if run.kernel == Kernel::Flash1 { self.flash1 } else { 1.0 };
        let of_device = if is_new && run.kernel < Kernel::Flash3 { self.older } else { 1.0 };
        RuntimeDocument {
            sequence_parallel: run.sequence_parallel,
            fused_attention: run.kernel > Kernel::Unfused,
            scores: profile.scores * if run.kernel == Kernel::Plain { self.plain } else { 1.0 },
            attention: profile.attention * of_kernel * of_device,
            norms: if run.fused_norms && profile.name == "scaling" { 1.0 } else { profile.norms },
            reduction: if run.is_pure { 1.0 } else { profile.reduction },
            ..profile.clone()
        }
    }
}
