//! Closed forms of classes that were not measured, from those of the others.

use std::collections::BTreeMap;

use stagewright_core::document::{KernelDocument, KernelFitDocument, KernelKind, Precision};
use stagewright_core::kernel;
use stagewright_costs::fit::{fit, from_others};
use stagewright_formats::clusters::device;
use stagewright_learned::{Processor, Shape};
use stagewright_train::kernels::Sample;

/// Closed forms by device, kernel and precision.
pub(crate) type Forms = BTreeMap<(String, KernelKind, Precision), KernelFitDocument>;

/// The library kernel of a sample.
pub(crate) fn document(sample: &Sample) -> Option<&KernelDocument> {
    match &sample.shape {
        Shape::Library(document) => Some(document),
        _ => None,
    }
}

/// Fits a form to each device, kernel and precision; before, without the quantisation of rows.
pub(crate) fn forms<'s>(samples: impl IntoIterator<Item = &'s Sample>, is_before: bool) -> Forms {
    let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for sample in samples {
        let Some(document) = document(sample) else { continue };
        let key = (sample.device.name.clone(), kernel::kind(document), sample.precision);
        rows.entry(key).or_default().push((kernel::work(document, sample.precision), sample.seconds));
    }
    let form = |(key, rows): ((String, KernelKind, Precision), Vec<_>)| {
        let (_, kind, precision) = key;
        let form = match is_before {
            true => KernelFitDocument { precision, ..fit(kind, Precision::Bf16, &rows) },
            false => fit(kind, precision, &rows),
        };
        (key, form)
    };
    rows.into_iter().map(form).collect()
}

/// Seconds of a sample by the forms of other devices: all alike, with seconds of a launch, as costs were transferred
/// before, or by siblings and cycles.
pub(crate) fn seconds_by_others(forms: &Forms, sample: &Sample, is_before: bool) -> Option<f64> {
    let own = Processor::new(sample.device, sample.precision)?;
    let document = document(sample)?;
    let kind = kernel::kind(document);
    let others: Vec<(Processor, &KernelFitDocument)> = forms
        .iter()
        .filter(|((name, other, precision), _)| {
            *name != sample.device.name && *other == kind && *precision == sample.precision
        })
        .filter_map(|((name, ..), form)| Some((Processor::new(device(name)?, sample.precision)?, form)))
        .collect();
    let form = match is_before {
        true => alike(&others, &own)?,
        false => from_others(&others, &own, sample.precision)?,
    };
    Some(kernel::seconds(&form, kernel::work(document, sample.precision)))
}

/// Geometric means of the forms of other devices: shares of peak and bandwidth, and all other numbers as they are.
fn alike(others: &[(Processor, &KernelFitDocument)], own: &Processor) -> Option<KernelFitDocument> {
    let (_, first) = others.first()?;
    let mean = |figure: &dyn Fn(&(Processor, &KernelFitDocument)) -> f64| {
        let sum: f64 = others.iter().map(|other| figure(other).max(f64::MIN_POSITIVE).ln()).sum();
        (sum / others.len() as f64).exp()
    };
    Some(KernelFitDocument {
        launch_s: mean(&|(_, form)| form.launch_s),
        step_s: mean(&|(_, form)| form.step_s),
        flops: mean(&|(other, form)| form.flops / other.flops) * own.flops,
        bandwidth: mean(&|(other, form)| form.bandwidth / other.bandwidth) * own.bandwidth,
        sharpness: mean(&|(_, form)| form.sharpness).max(1.0),
        cache_bytes: mean(&|(_, form)| form.cache_bytes),
        row_s: mean(&|(_, form)| form.row_s),
        ..(*first).clone()
    })
}
