//! The page of a local plan, of a solve or of a comparison.

use std::io::{self, Write};

use stagewright_core::document::LocalPlanDocument;
use stagewright_core::ids::Keyed;
use stagewright_llamacpp::Setting;
use stagewright_llamacpp::speed::{Reads, Work, decode};
use stagewright_local::Plan;
use stagewright_report::comparison::{Comparison, Planned};
use stagewright_report::convergence::Convergence;
use stagewright_report::html;
use stagewright_report::html::local::LocalPage;
use stagewright_report::local::LocalTimes;

use super::question::{Fixed, Local};
use super::text;
use crate::failure::Result;
use crate::tasks::Document;
use crate::tasks::answer::Sheet;

/// How a plan is shown, with the seconds of its token.
pub(super) struct LocalSheet(pub(super) Option<LocalTimes>);

impl Sheet for LocalSheet {
    fn text(&self, document: &Document, width: Option<u16>) -> String {
        match document {
            Document::Local(plan) => text::plan(plan, width),
            _ => String::new(),
        }
    }

    fn html(
        &self,
        document: &Document,
        _cluster: Option<&str>,
        _convergence: &Convergence,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        let Document::Local(plan) = document else { return Ok(Ok(())) };
        Ok(html::local::write(&LocalPage { document: plan, times: self.0.as_ref(), comparison: None }, out))
    }
}

/// Writes a page of the best plan, with the comparison.
///
/// # Errors
/// If the line of the plan cannot be read (L007, L008), or its memory is not followed (L009).
pub(super) fn page(task: &Local, comparison: &Comparison, out: &mut dyn Write) -> Result<io::Result<()>> {
    let Some((row, Planned::Local(plan))) = comparison.leader() else { return Ok(Ok(())) };
    let times = times_of(task, &row.name, plan)?;
    let page = LocalPage { document: plan, times: times.as_ref(), comparison: Some(comparison) };
    Ok(html::local::write(&page, out))
}

/// Seconds of a token of the plan of a document; `None` without a plan.
fn times_of(task: &Local, label: &str, plan: &LocalPlanDocument) -> Result<Option<LocalTimes>> {
    let Some(setting) = &plan.setting else { return Ok(None) };
    let (fixed, judged) = task.given_line(label, &setting.flags)?;
    Ok(Some(of_plan(task, &fixed, &judged)))
}

/// Seconds of a token of a plan.
pub(super) fn of_plan(task: &Local, fixed: &Fixed, plan: &Plan) -> LocalTimes {
    let (_, tokens) = fixed.goal.generated();
    let work = Work::of(&task.structure, &plan.setting, &plan.placement, tokens);
    times(task, &plan.setting, &work)
}

/// Seconds of a token by where they pass.
fn times(task: &Local, setting: &Setting, work: &Work) -> LocalTimes {
    let host = task.machine.host;
    let none = || Keyed::filled(Reads::default(), setting.devices.len());
    let only = |devices, host_reads| Work { devices, host: host_reads, hops: 0, crossings: 0 };
    let of_device = |id| {
        let mut devices = none();
        devices[id] = work.devices[id];
        decode(&only(devices, Reads::default()), setting, host)
    };
    let ways = Work { devices: none(), host: Reads::default(), ..work.clone() };
    LocalTimes {
        host: decode(&only(none(), work.host), setting, host),
        devices: setting.devices.ids().map(of_device).collect(),
        ways: decode(&ways, setting, host),
    }
}
