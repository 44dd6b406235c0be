//! Rows of devices and of servers (`docs/serving.md`, section "The program").

use stagewright_serving::Problem;

use crate::space::Size;

/// Rows of devices and of servers.
pub(crate) struct Rows {
    pub(crate) limits: Vec<f64>,
    /// For every kind with several servers: the first of its rows.
    servers: Vec<Option<usize>>,
}

impl Rows {
    pub(crate) fn new(problem: &Problem) -> Rows {
        let kinds = &problem.fleet.kinds;
        let mut limits: Vec<f64> = kinds.iter().map(|kind| kind.count as f64).collect();
        let mut servers = Vec::with_capacity(kinds.len());
        for kind in kinds {
            if kind.is_one_server() {
                servers.push(None);
                continue;
            }
            servers.push(Some(limits.len()));
            let server = kind.device.server;
            let (whole, rest) = (kind.count / server, kind.count % server);
            for power in powers_below(server) {
                limits.push((whole * (server / power) + rest / power) as f64);
            }
            limits.push(whole as f64);
        }
        Rows { limits, servers }
    }

    /// Entries of the replicas of a size.
    pub(crate) fn of_size(&self, problem: &Problem, size: &Size) -> Vec<(usize, f64)> {
        let used = size.devices.iter().enumerate().filter(|(_, devices)| **devices > 0);
        let mut entries: Vec<(usize, f64)> = used.map(|(kind, &devices)| (kind, devices as f64)).collect();
        for &(kind, devices, count) in &size.key.groups {
            let Some(first) = self.servers[kind as usize] else { continue };
            let server = problem.fleet.kinds[kind as usize].device.server;
            let powers: Vec<u64> = powers_below(server).collect();
            let is_whole = devices >= server;
            let whole = devices / server;
            for (index, &power) in powers.iter().enumerate() {
                let pieces = if is_whole { whole * (server / power) } else { devices / power };
                add(&mut entries, first + index, (pieces * count) as f64);
            }
            if is_whole {
                add(&mut entries, first + powers.len(), (whole * count) as f64);
            }
        }
        entries
    }
}

/// Powers of two from 2 on that are less than a number.
fn powers_below(server: u64) -> impl Iterator<Item = u64> {
    (1..u64::BITS).map(|exponent| 1_u64 << exponent).take_while(move |&power| power < server)
}

/// Adds to the entry of a row.
fn add(entries: &mut Vec<(usize, f64)>, row: usize, entry: f64) {
    if entry <= 0.0 {
        return;
    }
    match entries.iter_mut().find(|(known, _)| *known == row) {
        Some((_, known)) => *known += entry,
        None => entries.push((row, entry)),
    }
}
