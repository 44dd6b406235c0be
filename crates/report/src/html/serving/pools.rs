//! Requests a second and devices of every pool, as bars.

use std::fmt::Write;

use stagewright_core::document::{ServingPlanDocument, ServingRole};

use crate::html::bars::positive;
use crate::html::markup::{self, count, escape};
use crate::html::shell::Section;
use crate::serving::{devices, rate, several};
use crate::table::share;

/// The replicas of a class in a role.
struct Pool {
    role: ServingRole,
    class: u32,
    replicas: u64,
    rate: f64,
    devices: u64,
}

/// Colour of a role: none of the first kinds has it.
fn colour(role: ServingRole) -> &'static str {
    match role {
        ServingRole::Aggregated => "several",
        ServingRole::Prefill => "d6",
        ServingRole::Decode => "d7",
    }
}

/// Section of pools.
pub(super) fn section(plan: &ServingPlanDocument) -> Section {
    let pools = pools(plan);
    let most = pools.iter().map(|pool| pool.rate).fold(0.0, f64::max);
    let available: u64 =
        plan.cluster.kinds.iter().filter(|kind| !kind.host).map(|kind| u64::from(kind.count)).sum();
    let mut markup = String::from(
        "<h2 id=\"pools-title\">Pools</h2>\n<p class=\"lead\">Requests a second that replicas of one role could serve, and \
         their share of all devices. Prompts are read by one pool and decoded by another, the slower of which counts; \
         aggregated replicas do both.</p>\n<ul class=\"devices pools\">\n",
    );
    for pool in &pools {
        let class = if plan.question.classes.len() > 1 {
            format!(" <small>class {}</small>", pool.class)
        } else {
            String::new()
        };
        let (name, colour) = (pool.role.name(), colour(pool.role));
        // Writing to a string cannot fail.
        let _ = writeln!(
            markup,
            "<li><span class=\"device\"><i class=\"chip {colour}\"></i> {name}{class}</span>{}\
             <span class=\"figure\">{} <small>requests/s</small></span>{}<span class=\"figure\">{} <small>of {} devices{}\
             </small></span></li>",
            bar(colour, "", "requests a second", share(pool.rate, most)),
            escape(&rate(pool.rate)),
            bar(colour, " memory", "devices", share(pool.devices as f64, available as f64)),
            count(usize::try_from(pool.devices).unwrap_or(usize::MAX)),
            count(usize::try_from(available).unwrap_or(usize::MAX)),
            idle(pool, &pools)
        );
    }
    markup.push_str("</ul>\n");
    Section { id: "pools", title: "Pools", markup }
}

/// Pools in the order of classes and roles.
fn pools(plan: &ServingPlanDocument) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for replica in &plan.replicas {
        let (role, class) = (replica.role, replica.class);
        let rate = positive(replica.requests_per_s * replica.count as f64);
        let used = devices(replica).saturating_mul(replica.count);
        match pools.iter_mut().find(|pool| (pool.role, pool.class) == (role, class)) {
            Some(pool) => {
                pool.replicas = pool.replicas.saturating_add(replica.count);
                pool.rate += rate;
                pool.devices = pool.devices.saturating_add(used);
            }
            None => pools.push(Pool { role, class, replicas: replica.count, rate, devices: used }),
        }
    }
    pools.sort_by_key(|pool| (pool.class, pool.role));
    pools
}

/// Number of replicas, and the share of the pool that waits for the other pool of its class.
fn idle(pool: &Pool, pools: &[Pool]) -> String {
    let replicas = format!("; {}", several(pool.replicas, "replica"));
    let other = match pool.role {
        ServingRole::Aggregated => return replicas,
        ServingRole::Prefill => ServingRole::Decode,
        ServingRole::Decode => ServingRole::Prefill,
    };
    let other = pools.iter().find(|known| (known.role, known.class) == (other, pool.class));
    let idle = 1.0 - share(other.map_or(0.0, |other| other.rate), pool.rate).min(1.0);
    // Less would be shown as 0%.
    if idle > 5e-5 { format!("{replicas}, {} idle", markup::percent(idle)) } else { replicas }
}

fn bar(colour: &str, kind: &str, name: &str, part: f64) -> String {
    format!(
        "<svg class=\"bar{kind}\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{name}\">\
         <rect class=\"{colour}\" width=\"{:.1}\" height=\"10\"/></svg>",
        1000.0 * part
    )
}
