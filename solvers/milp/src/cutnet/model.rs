//! The cut-net model in variables and rows.
//!
//! Each unit has a domain of devices. A unit whose domain is one device is a constant, and so is every net and load
//! that depends on such units alone: the same code builds the model of a whole problem and of a neighbourhood in which
//! all but a few units are fixed.
//!
//! `duplex` counts sent transfers, x_sd − lo for producer s, separately from received transfers, hi − x_sd. `separate`
//! training has a T for each pass and minimises the sum of both. The uplink of a group of devices is a resource like a
//! device, with the sum of x over its devices in place of x.
//!
//! `convex` splits have a variable left_vd for every forward operator v and device d, which is 1 once a path has left
//! d: left_wd ≥ left_vd and left_wd ≥ x_vd − x_wd along every edge from v to w, and x_vd + left_vd ≤ 1.

use good_lp::solvers::highs::{HighsProblem, highs};
use good_lp::{Constraint, Expression, ProblemVariables, SolverModel, Variable, constraint, variable};
use rustc_hash::{FxHashMap, FxHashSet};
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{Communication, Split};
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::MEMORY_RELATIVE;

use crate::choice::{Choices, Term};
use crate::cutnet::cover::Cover;
use crate::run::Model;

/// Value in the model to which the known value is scaled, and capacity to which the memory of a device is scaled,
/// because the tolerances of HiGHS are absolute.
const SCALE: f64 = 100.0;
const MEMORY_SCALE: f64 = 1e4;
/// Cap on a cost, as a multiple of the known value: a device with such a cost makes a plan worse than the known one
/// anyway.
const CEILING: f64 = 2.0;

/// Range of the value, known before the model is solved.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// A lower bound on the value, in seconds.
    pub low: f64,
    /// Value of a plan; infinite if none is known.
    pub high: f64,
}

/// Devices that each unit may be on; never empty.
pub type Domains = Keyed<UnitId, Vec<DeviceId>>;

/// Devices that can run each unit; `None` if some unit has no such device.
pub fn domains(problem: &Problem, units: &Units) -> Option<Domains> {
    let of_unit = |unit| {
        let pools = problem.pools().iter().enumerate();
        let capable = pools.filter(|&(pool, _)| units.supported(unit, pool));
        let domain: Vec<DeviceId> = capable.flat_map(|(_, pool)| pool.devices.iter().copied()).collect();
        (!domain.is_empty()).then_some(domain)
    };
    units.ids().map(of_unit).collect()
}

/// Device of every unit in a placement that does not split units.
pub fn devices_of_units(units: &Units, placement: &Placement) -> Keyed<UnitId, DeviceId> {
    units.ids().map(|unit| placement.device_of(units.members(unit)[0])).collect()
}

/// Loads whose maximum the model minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Minimise {
    /// Loads of all devices and uplinks, whose maximum is the value of the plan.
    All,
    /// Loads of the devices whose units may change.
    Changing,
}

/// The program of a problem.
pub struct CutNetModel {
    variables: ProblemVariables,
    rows: Vec<Constraint>,
    objective: Expression,
    /// Choice of a device for each unit.
    choices: Choices<DeviceId>,
    /// Seconds per unit of the model's time.
    unit_seconds: f64,
}

/// Key by which nets are merged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NetKey<'a> {
    pins: &'a [UnitId],
    pass: u8,
    /// Producer of the net, if it affects the loads.
    producer: Option<UnitId>,
    /// Whether the net is the gradient of a shared parameter, if that affects the loads.
    is_gradient: bool,
}

/// Merged nets that no resource distinguishes.
struct Net<'a> {
    key: NetKey<'a>,
    seconds: Vec<f64>,
    uplink: Vec<f64>,
}

impl CutNetModel {
    /// Builds the model; `None` on stop. O(devices · (units + pins)), for a convex split also devices · edges.
    ///
    /// # Panics
    /// If a domain is empty or the lower end of the range is not finite.
    pub fn new(
        problem: &Problem,
        units: &Units,
        domains: &Domains,
        covers: &[Cover],
        range: Range,
        minimise: Minimise,
        stop: &Stop,
    ) -> Option<CutNetModel> {
        Writer::new(problem, units, domains, covers, range).write(minimise, stop)
    }

    /// Approximate number of entries of the model's matrix, a measure of its memory and difficulty.
    pub fn size(problem: &Problem, units: &Units, domains: &Domains) -> usize {
        let devices: usize = problem.pools().iter().map(|pool| pool.devices.len()).sum();
        let free = |unit| domains[unit].len() > 1;
        let pins: usize =
            units.nets().ids().map(|net| units.pins(net).iter().filter(|&&pin| free(pin)).count()).sum();
        let places: usize = domains.iter().filter(|domain| domain.len() > 1).map(Vec::len).sum();
        let paths = match problem.objective().rules().split {
            Split::Convex => problem.graph().operators().map(|op| problem.graph().successors(op).len()).sum(),
            _ => 0,
        };
        4 * devices * (pins + 2 * paths) + 4 * places
    }

    /// Column values of a warm start with the given device for every unit.
    pub fn start(&self, device_of: &[DeviceId]) -> Vec<f64> {
        let mut columns = vec![0.0; self.variables.len()];
        self.choices.write(device_of, &mut columns);
        columns
    }
}

impl Model for CutNetModel {
    type Choice = DeviceId;

    fn into_highs(self) -> HighsProblem {
        let mut program = self.variables.minimise(self.objective).using(highs);
        for row in self.rows {
            program.add_constraint(row);
        }
        program
    }

    fn choices(&self) -> &Choices<DeviceId> {
        &self.choices
    }

    fn columns(&self) -> usize {
        self.variables.len()
    }

    fn unit_seconds(&self) -> f64 {
        self.unit_seconds
    }
}

struct Writer<'a> {
    problem: &'a Problem,
    units: &'a Units,
    domains: &'a Domains,
    covers: &'a [Cover],
    variables: ProblemVariables,
    rows: Vec<Constraint>,
    /// The variable of each unit on each device of its domain.
    places: Keyed<UnitId, Vec<(DeviceId, Variable)>>,
    /// T of each pass.
    bottleneck: Vec<Variable>,
    unit_seconds: f64,
    /// Maximum cost of one unit or net, in the model's unit.
    ceiling: f64,
}

impl<'a> Writer<'a> {
    fn new(
        problem: &'a Problem,
        units: &'a Units,
        domains: &'a Domains,
        covers: &'a [Cover],
        range: Range,
    ) -> Writer<'a> {
        assert!(range.low.is_finite(), "a bound is a number");
        let known = if range.high.is_finite() { range.high } else { range.low };
        let unit_seconds = Some(known / SCALE).filter(|unit| unit.is_normal()).unwrap_or(1.0);
        let mut variables = ProblemVariables::new();
        let mut places = Keyed::new();
        for domain in domains.iter() {
            assert!(!domain.is_empty(), "a unit must be somewhere");
            let of_unit = match domain.len() {
                1 => Vec::new(),
                _ => domain.iter().map(|&device| (device, variables.add(variable().binary()))).collect(),
            };
            places.push(of_unit);
        }
        // Rounding must not exclude the known plan, so the limit is slightly above its value.
        let limit = range.high / unit_seconds * (1.0 + 1e-9);
        let passes = problem.objective().passes();
        let bottleneck: Vec<Variable> =
            (0..passes).map(|_| variables.add(variable().min(0.0).max(limit))).collect();
        let mut writer = Writer {
            problem,
            units,
            domains,
            covers,
            variables,
            rows: Vec::new(),
            places,
            bottleneck,
            unit_seconds,
            ceiling: CEILING * range.high / unit_seconds,
        };
        let sum: Expression = writer.bottleneck.iter().sum();
        writer.rows.push(constraint!(sum >= range.low / unit_seconds * (1.0 - 1e-9)));
        writer
    }

    fn write(mut self, minimise: Minimise, stop: &Stop) -> Option<CutNetModel> {
        for places in self.places.iter() {
            if !places.is_empty() {
                let sum: Expression = places.iter().map(|&(_, place)| place).sum();
                self.rows.push(constraint!(sum == 1.0));
            }
        }
        let nets = self.merged_nets(stop)?;
        let changing: FxHashSet<DeviceId> = self.places.iter().flatten().map(|&(device, _)| device).collect();
        for (pool, spec) in self.problem.pools().iter().enumerate() {
            for &device in &spec.devices {
                // A device without changes keeps its memory use and stays convex.
                if minimise == Minimise::Changing && !changing.contains(&device) {
                    continue;
                }
                if stop.reason().is_some() {
                    return None;
                }
                self.load(pool, device, &nets);
                self.memory(pool, device);
                if self.problem.objective().rules().split == Split::Convex {
                    self.convex(device);
                }
            }
        }
        for group in 0..self.problem.cluster().group_count() {
            self.uplink(group, &nets);
        }
        let objective = self.bottleneck.iter().sum();
        // Columns are in the order in which variables were added, with the places first.
        let mut column = 0;
        let mut number = |(device, _): &(DeviceId, Variable)| {
            column += 1;
            (*device, column - 1)
        };
        let columns = self.places.iter().map(|places| places.iter().map(&mut number).collect()).collect();
        let first = self.domains.iter().map(|domain| domain[0]).collect();
        Some(CutNetModel {
            variables: self.variables,
            rows: self.rows,
            objective,
            choices: Choices { columns, first },
            unit_seconds: self.unit_seconds,
        })
    }

    /// The term x_ud.
    fn place(&self, unit: UnitId, device: DeviceId) -> Term {
        let (places, domain) = (&self.places[unit], &self.domains[unit]);
        match places.iter().find(|&&(own, _)| own == device) {
            Some(&(_, variable)) => Term::Variable(variable),
            None if places.is_empty() && domain[0] == device => Term::Constant(1.0),
            None => Term::Constant(0.0),
        }
    }

    /// Merges nets with equal keys; `None` on stop.
    fn merged_nets(&self, stop: &Stop) -> Option<Vec<Net<'a>>> {
        let units = self.units;
        let communication = self.problem.objective().rules().communication;
        let groups = self.problem.cluster().group_count();
        let mut at_key: FxHashMap<NetKey<'a>, usize> = FxHashMap::default();
        let mut nets: Vec<Net<'a>> = Vec::new();
        for (id, net) in units.nets().enumerate() {
            if stop.reason().is_some() {
                return None;
            }
            let key = NetKey {
                pins: units.pins(id),
                pass: net.pass,
                producer: (communication == Communication::Duplex).then_some(net.producer),
                // Serial communication adds all nets to the same sum.
                is_gradient: communication != Communication::Serial && net.is_gradient(),
            };
            let place = *at_key.entry(key.clone()).or_insert(nets.len());
            if place == nets.len() {
                nets.push(Net { key, seconds: vec![0.0; units.pools()], uplink: vec![0.0; groups] });
            }
            for pool in 0..units.pools() {
                nets[place].seconds[pool] += units.transfer(id, pool);
            }
            for group in 0..groups {
                nets[place].uplink[group] += units.uplink(id, group);
            }
        }
        Some(nets)
    }

    /// A new variable between 0 and 1.
    fn fraction(&mut self) -> Variable {
        self.variables.add(variable().min(0.0).max(1.0))
    }

    /// Maximum and minimum of terms between 0 and 1, exact if `largest − least` is minimised.
    fn spread(&mut self, terms: &[Term]) -> (Expression, Expression) {
        let constants = || {
            terms.iter().filter_map(|term| match term {
                Term::Constant(value) => Some(*value),
                Term::Variable(_) => None,
            })
        };
        let (some_out, some_in) =
            (constants().any(|value| value == 0.0), constants().any(|value| value == 1.0));
        let variables: Vec<Variable> = terms
            .iter()
            .filter_map(|term| match term {
                Term::Variable(variable) => Some(*variable),
                Term::Constant(_) => None,
            })
            .collect();
        let largest: Expression = match (some_in, variables.as_slice()) {
            (true, _) => 1.0.into(),
            (false, []) => 0.0.into(),
            (false, &[only]) => only.into(),
            (false, _) => {
                let largest = self.fraction();
                self.rows.extend(variables.iter().map(|&variable| constraint!(largest >= variable)));
                largest.into()
            }
        };
        let least: Expression = match (some_out, variables.as_slice()) {
            (true, _) => 0.0.into(),
            (false, []) => 1.0.into(),
            (false, &[only]) => only.into(),
            (false, _) => {
                let least = self.fraction();
                self.rows.extend(variables.iter().map(|&variable| constraint!(least <= variable)));
                least.into()
            }
        };
        (largest, least)
    }

    /// 1 if a resource has some of the terms but not all; exact if the result is minimised.
    fn cut(&mut self, terms: &[Term]) -> Expression {
        if let &[Term::Variable(left), Term::Variable(right)] = terms {
            let cut = self.fraction();
            self.rows.push(constraint!(cut >= left - right));
            self.rows.push(constraint!(cut >= right - left));
            return cut.into();
        }
        let (largest, least) = self.spread(terms);
        largest - least
    }

    /// Adds the rows of a load: T is at least the sum of compute, sent and received transfers, or at least each of
    /// them, in every case plus the gradients of shared parameters.
    fn load(&mut self, pool: usize, device: DeviceId, nets: &[Net<'a>]) {
        let host = self.problem.pools()[pool].host;
        for pass in 0..self.bottleneck.len() {
            let mut compute = Expression::from(0.0);
            for unit in self.units.ids() {
                let seconds = self.units.pass_seconds(unit, pool, pass) / self.unit_seconds;
                let seconds = seconds.min(self.ceiling);
                if seconds > 0.0 {
                    compute.add_mul(seconds, self.place(unit, device).expression());
                }
            }
            let [mut sent, mut received, mut synchronised] = [0.0; 3].map(Expression::from);
            for net in nets.iter().filter(|net| usize::from(net.key.pass) == pass && !host) {
                let seconds = (net.seconds[pool] / self.unit_seconds).min(self.ceiling);
                if seconds == 0.0 {
                    continue;
                }
                let terms: Vec<Term> = net.key.pins.iter().map(|&unit| self.place(unit, device)).collect();
                match net.key.producer {
                    _ if net.key.is_gradient => synchronised.add_mul(seconds, self.cut(&terms)),
                    None => sent.add_mul(seconds, self.cut(&terms)),
                    Some(producer) => {
                        let (largest, least) = self.spread(&terms);
                        let producer = self.place(producer, device).expression();
                        sent.add_mul(seconds, producer.clone() - least);
                        received.add_mul(seconds, largest - producer);
                    }
                }
            }
            let limit = self.bottleneck[pass];
            match self.problem.objective().rules().communication {
                Communication::Serial => self.rows.push(constraint!(compute + sent <= limit)),
                Communication::Overlap => {
                    for sum in [compute, sent] {
                        self.rows.push(constraint!(sum + synchronised.clone() <= limit));
                    }
                }
                Communication::Duplex => {
                    for sum in [compute, sent, received] {
                        self.rows.push(constraint!(sum + synchronised.clone() <= limit));
                    }
                }
            }
        }
    }

    /// Adds the rows of memory. For graphs of version 2 they are a relaxation without live tensors, for which covers
    /// account.
    fn memory(&mut self, pool: usize, device: DeviceId) {
        let capacity = self.problem.pools()[pool].memory;
        for cover in self.covers.iter().filter(|cover| capacity <= cover.memory) {
            let sum = cover.units.iter().fold(Expression::from(0.0), |mut sum, &unit| {
                sum += self.place(unit, device).expression();
                sum
            });
            self.rows.push(constraint!(sum <= cover.units.len() as f64 - 1.0));
        }
        let bytes = |unit: UnitId| self.units.bytes(unit, 1);
        let shared: f64 = self.units.shared().iter().map(|shared| shared.bytes).sum();
        let all: f64 = self.units.ids().map(bytes).sum();
        if all + shared <= capacity {
            return;
        }
        // Devices with no memory, or nearly none, hold units that take no memory.
        let scale = if capacity > 0.0 { capacity / MEMORY_SCALE } else { 1.0 };
        let mut sum = Expression::from(0.0);
        for unit in self.units.ids() {
            let share = bytes(unit) / scale;
            if share > 0.0 {
                sum.add_mul(share, self.place(unit, device).expression());
            }
        }
        let mut held = Keyed::filled(None, self.units.shared().len());
        for unit in self.units.ids() {
            for &shared in self.units.shared_of(unit) {
                let bytes = self.units.shared()[shared].bytes / scale;
                let here = *held[shared].get_or_insert_with(|| {
                    let here = self.variables.add(variable().min(0.0).max(1.0));
                    sum.add_mul(bytes, here);
                    here
                });
                let place = self.place(unit, device).expression();
                self.rows.push(constraint!(place <= here));
            }
        }
        let limit = capacity / scale * (1.0 + MEMORY_RELATIVE);
        self.rows.push(constraint!(sum <= limit));
    }

    fn uplink(&mut self, group: usize, nets: &[Net<'a>]) {
        let cluster = self.problem.cluster();
        let members: Vec<DeviceId> = cluster
            .devices()
            .filter(|&device| cluster.group_of_kind(cluster.kind_of(device)) == Some(group))
            .collect();
        // By unit: whether the unit is in the group; created on demand.
        let mut within: FxHashMap<UnitId, Term> = FxHashMap::default();
        for pass in 0..self.bottleneck.len() {
            let mut load = Expression::from(0.0);
            for net in nets.iter().filter(|net| usize::from(net.key.pass) == pass) {
                let seconds = (net.uplink[group] / self.unit_seconds).min(self.ceiling);
                if seconds == 0.0 {
                    continue;
                }
                let mut terms = Vec::with_capacity(net.key.pins.len());
                for &unit in net.key.pins {
                    let term = match within.get(&unit) {
                        Some(&term) => term,
                        None => self.within(unit, &members),
                    };
                    within.insert(unit, term);
                    terms.push(term);
                }
                load.add_mul(seconds, self.cut(&terms));
            }
            let limit = self.bottleneck[pass];
            self.rows.push(constraint!(load <= limit));
        }
    }

    /// Whether a unit is on one of the member devices.
    fn within(&mut self, unit: UnitId, members: &[DeviceId]) -> Term {
        let domain = &self.domains[unit];
        let inside = domain.iter().filter(|&device| members.contains(device)).count();
        if inside == 0 || inside == domain.len() {
            return Term::Constant(if inside == 0 { 0.0 } else { 1.0 });
        }
        let is_member = |(device, _): &&(DeviceId, Variable)| members.contains(device);
        let sum: Expression = self.places[unit].iter().filter(is_member).map(|&(_, place)| place).sum();
        let within = self.fraction();
        self.rows.push(constraint!(within == sum));
        Term::Variable(within)
    }

    fn convex(&mut self, device: DeviceId) {
        let graph = self.problem.graph();
        let forward: Vec<OpId> =
            graph.topological().iter().copied().filter(|&op| graph.is_forward(op)).collect();
        let mut left: Vec<Term> = vec![Term::Constant(0.0); graph.operator_count()];
        for &op in &forward {
            let before = graph.predecessors(op).iter().filter(|&&before| graph.is_forward(before));
            let before: Vec<OpId> = before.copied().collect();
            if before.is_empty() {
                continue;
            }
            let unit = self.units.unit_of(op);
            let here = self.place(unit, device).expression();
            let left_here = self.fraction();
            for before in before {
                let there = self.units.unit_of(before);
                if there != unit {
                    let coming = self.place(there, device).expression();
                    self.rows.push(constraint!(left_here >= coming - here.clone()));
                }
                if let Term::Variable(left_before) = left[before.index()] {
                    self.rows.push(constraint!(left_here >= left_before));
                }
            }
            self.rows.push(constraint!(here + left_here <= 1.0));
            left[op.index()] = Term::Variable(left_here);
        }
    }
}
