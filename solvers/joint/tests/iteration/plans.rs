//! All plans of a tiny case.

use stagewright_core::document::{
    ContextExchange, JointExecutionDocument, JointLayerDocument, JointPlanDocument, JointStageDocument,
    KindDocument, Parallelism, Pass, Role, Schedule, role,
};

use super::Case;

/// Copies of a stage on a kind.
fn copies_on(stage: &JointStageDocument, kind: &str) -> u32 {
    match stage.kind.as_deref() {
        Some(of_stage) if of_stage == kind => stage.data,
        _ => stage.mixed.get(kind).copied().unwrap_or(0),
    }
}

impl Case {
    /// Minimum value over all plans by `value`, infinite if there is none, and the plan of maximum value.
    pub(super) fn brute_force(
        &self,
        value: impl Fn(&JointPlanDocument) -> Option<f64>,
    ) -> (f64, Option<(f64, JointPlanDocument)>) {
        let mut names: Vec<String> = Vec::new();
        for operator in &self.graph.operators {
            let layer = operator.layer.clone().expect("a layer");
            if !names.contains(&layer) {
                names.push(layer);
            }
        }
        let (mut best, mut worst) = (f64::INFINITY, None::<(f64, JointPlanDocument)>);
        let mut each = |plan: &JointPlanDocument| {
            if let Some(value) = value(plan) {
                best = best.min(value);
                if worst.as_ref().is_none_or(|worst| value > worst.0) {
                    worst = Some((value, plan.clone()));
                }
            }
        };
        let offload = self.request.parallel.get(&Parallelism::Offload).copied();
        let configurations: &[&str] = match self.request.parallel.get(&Parallelism::Recompute) {
            Some(Some(3)) => &["offload"],
            Some(_) if offload == Some(None) => &["none", "selective", "full", "offload"],
            Some(_) => &["none", "selective", "full"],
            None => &["none"],
        };
        for execution in self.executions() {
            let interleaved = [(2, 2), (2, 3), (3, 2)].map(Some);
            let folded = [(2, 2), (3, 2)].map(Some);
            let shapes: &[Option<(usize, usize)>] = match execution.schedule {
                Schedule::Interleaved => &interleaved,
                Schedule::DualPipeV => &folded,
                _ => &[None],
            };
            for &shape in shapes {
                let chunks = shape.map_or(1, |(_, chunks)| chunks as u32);
                let execution = JointExecutionDocument { chunks, ..execution.clone() };
                self.stages(&names, &execution, configurations, shape, &mut Vec::new(), &mut |stages| {
                    if self.is_cut(stages) {
                        each(&self.plan(execution.clone(), stages.to_vec()));
                    }
                });
            }
        }
        (best, worst)
    }

    /// Whether a number is one that the request allows: `without` if it lacks the parallelism.
    fn allows(&self, parallelism: Parallelism, without: u32, number: u32) -> bool {
        let given = self.request.parallel.get(&parallelism).copied();
        given.unwrap_or(Some(without)).is_none_or(|given| given == number)
    }

    /// All degrees of plans other than the tensor-parallel ones, and numbers of chunks.
    fn executions(&self) -> Vec<JointExecutionDocument> {
        let batch = self.request.global_batch as u32;
        let devices: u32 = self.cluster.kinds.iter().map(|kind| kind.count).sum();
        let schedules = &self.request.schedules;
        let ways: Vec<(Schedule, bool)> = [false, true]
            .into_iter()
            .filter(|&offload| self.allows(Parallelism::Offload, 0, offload.into()))
            .flat_map(|offload| schedules.iter().map(move |&schedule| (schedule, offload)))
            .collect();
        let mut found = Vec::new();
        let copies =
            (1..=batch.min(devices)).flat_map(|data| (1..=devices).map(move |context| (data, context)));
        for (data, context) in copies {
            let exchanges: &[Option<ContextExchange>] = match context {
                1 => &[None],
                _ => &[Some(ContextExchange::Ring), Some(ContextExchange::AllToAll)],
            };
            let is_allowed = self.allows(Parallelism::Dp, 1, data)
                && self.allows(Parallelism::Cp, 1, context)
                && (context == 1 || self.divides_tokens(context));
            for microbatch in (1..=batch).filter(|_| is_allowed) {
                let is_given = self.request.microbatch.is_none_or(|given| given == microbatch);
                if !is_given || !batch.is_multiple_of(data * microbatch) {
                    continue;
                }
                let microbatches = batch / data / microbatch;
                for (expert, zero) in
                    [1, 2, 4].into_iter().flat_map(|expert| (0..4).map(move |zero| (expert, zero)))
                {
                    // A single copy has nothing to shard.
                    if (zero > 0 && data * context == 1)
                        || !(data * context).is_multiple_of(expert)
                        || !self.allows(Parallelism::Ep, 1, expert)
                        || !self.allows(Parallelism::Zero, 0, zero)
                    {
                        continue;
                    }
                    for (shards, &exchange) in self
                        .shards(data * context, expert, zero)
                        .into_iter()
                        .flat_map(|shards| exchanges.iter().map(move |exchange| (shards, exchange)))
                    {
                        let with = |&(schedule, offload)| JointExecutionDocument {
                            microbatch,
                            microbatches,
                            data,
                            context,
                            exchange,
                            expert,
                            zero,
                            shards,
                            offload,
                            schedule,
                            chunks: 1,
                        };
                        found.extend(ways.iter().map(with));
                    }
                }
            }
        }
        found
    }

    /// Whether the tokens can be divided over `context` devices, and attentions exchange them.
    fn divides_tokens(&self, context: u32) -> bool {
        let tokens = self.graph.batch.and_then(|batch| batch.tokens).map(std::num::NonZeroU64::get);
        let products = self.graph.operators.iter().filter(|operator| {
            let kind = operator.kind.as_deref().expect("a kind");
            operator.pass == Pass::Forward && role(kind) == Role::Product && operator.parameter_bytes == 0.0
        });
        let mut is_attention = products.map(|product| !product.name.ends_with(".active")).peekable();
        tokens.is_some_and(|tokens| tokens.is_multiple_of(2 * u64::from(context)))
            && self.request.runtime.as_ref().is_none_or(|runtime| runtime.fused_attention)
            && is_attention.peek().is_some()
            && is_attention.all(|is_attention| is_attention)
    }

    /// Numbers of copies that may divide states, with `None` for all.
    fn shards(&self, copies: u32, expert: u32, zero: u32) -> Vec<Option<u32>> {
        match self.request.parallel.get(&Parallelism::Shard) {
            Some(&given) if zero > 0 && expert == 1 => match given {
                Some(given) if given >= copies => vec![None],
                Some(given) => {
                    (given..=given).filter(|&shards| copies.is_multiple_of(shards)).map(Some).collect()
                }
                None => {
                    let groups = (2..copies).filter(|&shards| copies.is_multiple_of(shards));
                    groups.map(Some).chain([None]).collect()
                }
            },
            _ => vec![None],
        }
    }

    /// Whether the layers of the stages are those of the cut, if the request gives one.
    fn is_cut(&self, stages: &[JointStageDocument]) -> bool {
        let Some(cut) = &self.request.cut else { return true };
        let is_numbered = |layer: &&JointLayerDocument| layer.layer.starts_with("layer.");
        let counts = stages.iter().map(|stage| stage.layers.iter().filter(is_numbered).count() as u32);
        // A stage other than the first begins with a numbered layer, or behind all of them.
        let begins = |(index, stage): (usize, &JointStageDocument)| {
            index == 0
                || is_numbered(&&stage.layers[0])
                || (index + 1 == stages.len() && cut[index] == 0 && cut[..index].iter().sum::<u32>() > 0)
        };
        counts.eq(cut.iter().copied()) && stages.iter().enumerate().all(begins)
    }

    /// Whether a plan keeps the limits of degrees that do not depend on memory.
    pub(super) fn is_possible(&self, plan: &JointPlanDocument) -> bool {
        let execution = plan.execution.as_ref().expect("an execution");
        let JointExecutionDocument { context, exchange, expert, schedule, chunks, microbatches, .. } =
            *execution;
        let devices = plan.stages.len() as u32 / chunks;
        let is_ideal = self.request.runtime.is_none();
        let divides_heads = |parts: u32| self.heads.is_none_or(|heads| heads.is_multiple_of(parts));
        let tensor = |stage: &JointStageDocument| {
            let mut kinds = self.cluster.kinds.iter().filter(|kind| copies_on(stage, &kind.name) > 0);
            let is_inside = kinds.all(|kind| {
                let server = kind.server.map_or(kind.count, |server| server.devices);
                server.is_multiple_of(stage.tensor)
                    || (!is_ideal && stage.tensor.is_multiple_of(server) && stage.tensor <= kind.count)
            });
            let exchanged = if exchange == Some(ContextExchange::AllToAll) { context } else { 1 };
            is_inside
                && self.allows(Parallelism::Tp, 1, stage.tensor)
                && divides_heads(stage.tensor)
                && divides_heads(stage.tensor * exchanged)
        };
        let dispatches =
            self.graph.operators.iter().filter(|operator| operator.kind.as_deref() == Some("dispatch"));
        let mut experts =
            dispatches.map(|dispatch| dispatch.experts.map_or(2, std::num::NonZeroU32::get)).peekable();
        let divides_experts =
            expert == 1 || (experts.peek().is_some() && experts.all(|count| count.is_multiple_of(expert)));
        let is_alike = |key: fn(&JointStageDocument) -> &Option<String>| {
            plan.stages.iter().all(|stage| key(stage) == key(&plan.stages[0]))
        };
        let one_degree = plan.stages.iter().all(|stage| {
            plan.stages.iter().all(|other| other.kind != stage.kind || other.tensor == stage.tensor)
        });
        let has_devices = self.cluster.kinds.iter().all(|kind| {
            let of_stage = |stage: &JointStageDocument| stage.tensor * context * copies_on(stage, &kind.name);
            plan.stages.iter().take(devices as usize).map(of_stage).sum::<u32>() <= kind.count
        });
        let has_microbatches = match schedule {
            Schedule::DualPipeV => microbatches >= 2 * devices,
            _ => microbatches.is_multiple_of(devices),
        };
        let fits_schedule = !schedule.has_chunks()
            || (devices > 1
                && has_microbatches
                && is_alike(|stage| &stage.kind)
                && self.request.chunks.is_none_or(|given| given == chunks));
        self.allows(Parallelism::Pp, 1, devices)
            && plan.stages.iter().all(tensor)
            && divides_experts
            && one_degree
            && has_devices
            && fits_schedule
    }

    /// The devices that a stage may have: of each kind, or of two with every number of copies on the first.
    fn places(&self, execution: &JointExecutionDocument) -> Vec<JointStageDocument> {
        let data = execution.data;
        let place = JointStageDocument { data, ..JointStageDocument::default() };
        let on = |kind: &KindDocument| JointStageDocument { kind: Some(kind.name.clone()), ..place.clone() };
        let mut places: Vec<JointStageDocument> = self.cluster.kinds.iter().map(on).collect();
        let may_mix = self.request.parallel.contains_key(&Parallelism::Mixed);
        if let [first, second] = &self.cluster.kinds[..]
            && may_mix
            && !execution.schedule.has_chunks()
        {
            places.extend((1..data).map(|copies| JointStageDocument {
                mixed: [(first.name.clone(), copies), (second.name.clone(), data - copies)].into(),
                ..place.clone()
            }));
        }
        places
    }

    /// Calls `call` with every way to divide the remaining layers into stages, for the `shape` of devices and chunks
    /// if there is one.
    fn stages(
        &self,
        names: &[String],
        execution: &JointExecutionDocument,
        configurations: &[&str],
        shape: Option<(usize, usize)>,
        stages: &mut Vec<JointStageDocument>,
        call: &mut dyn FnMut(&[JointStageDocument]),
    ) {
        let placed: usize = stages.iter().map(|stage| stage.layers.len()).sum();
        let full = shape.is_some_and(|(devices, chunks)| stages.len() == devices * chunks);
        if placed == names.len() {
            if shape.is_some() && !full {
                return;
            }
            let mut stages = stages.clone();
            let count = stages.len() as u32;
            for (stage_index, stage) in stages.iter_mut().enumerate() {
                stage.in_flight = count - stage_index as u32;
            }
            call(&stages);
            return;
        }
        if full {
            return;
        }
        // The previous stage on the same device.
        let same = shape
            .and_then(|(devices, _)| stages.len().checked_sub(devices))
            .map(|index| stages[index].clone());
        for end in placed + 1..=names.len() {
            for place in self.places(execution) {
                for tensor in 1.. {
                    let place = JointStageDocument { tensor, ..place.clone() };
                    let is_full = self.cluster.kinds.iter().any(|kind| {
                        let used = |stage: &JointStageDocument| {
                            stage.tensor * execution.context * copies_on(stage, &kind.name)
                        };
                        // Later stages of a device use it again.
                        let others: u32 = if same.is_some() { 0 } else { stages.iter().map(used).sum() };
                        used(&place) > 0 && others + used(&place) > kind.count
                    });
                    if is_full {
                        break;
                    }
                    if same.as_ref().is_some_and(|same| (&same.kind, same.tensor) != (&place.kind, tensor)) {
                        continue;
                    }
                    let open: Vec<usize> =
                        (placed..end).filter(|&layer| names[layer].starts_with("layer.")).collect();
                    for number in 0..configurations.len().pow(open.len() as u32) {
                        let configuration = |layer: usize| {
                            let digit_place = open.iter().position(|&other| other == layer);
                            let digit = digit_place
                                .map_or(0, |place| number / configurations.len().pow(place as u32));
                            configurations[digit % configurations.len()].to_owned()
                        };
                        let layers = (placed..end).map(|layer| JointLayerDocument {
                            layer: names[layer].clone(),
                            configuration: configuration(layer),
                        });
                        stages.push(JointStageDocument { layers: layers.collect(), ..place.clone() });
                        self.stages(names, execution, configurations, shape, stages, call);
                        stages.pop();
                    }
                }
            }
        }
    }
}
