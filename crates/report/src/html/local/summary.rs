//! The head of the page, and the command line.

use stagewright_core::document::LocalSettingDocument;
use stagewright_core::text;

use super::LocalPage;
use crate::html::markup::escape;
use crate::html::shell::Section;
use crate::html::summary::{Claims, facts, heading, is_given};
use crate::local;

/// Summary section: the figures of a plan, or the reason why there is none.
pub(super) fn section(page: &LocalPage) -> Section {
    let plan = page.document;
    let speed = plan.setting.as_ref().map(|setting| local::speed(plan, setting));
    let claims = Claims {
        status: plan.status,
        value: plan.objective.value_s.zip(Some(speed.unwrap_or_default())),
        bound: plan.bound.value_s.zip(Some(plan.bound.source.as_str())),
        gap: plan.gap,
        stop: plan.stop.as_deref(),
        reason: plan.reason.as_deref(),
        seconds: (!is_given(page.comparison)).then_some(plan.seconds),
        solver: &plan.solver,
    };
    let mut markup = heading(&local::objective(&plan.objective), &plan.model, Some(&plan.cluster.name));
    markup.push_str(&claims.markup());
    let Some(setting) = &plan.setting else { return Section { id: "summary", title: "Summary", markup } };
    let slots = setting.blocks.saturating_add(1);
    markup.push_str(&facts(&[
        ("context", escape(&local::context(setting))),
        ("sequences", setting.sequences.to_string()),
        ("layers on devices", format!("{} of {slots}, the output among them", setting.gpu_layers)),
    ]));
    if plan.bound.value_s.is_some() {
        markup.push_str(
            "<p class=\"note\">The bound holds for plans with this context, these sequences and this encoding of the \
             cache, wherever their projections are.</p>\n",
        );
    }
    Section { id: "summary", title: "Summary", markup }
}

/// Section of the command line.
pub(super) fn command(setting: &LocalSettingDocument) -> Section {
    // Not shortened, as names are: it is to be copied.
    let flags = escape(&text::visible(&setting.flags));
    let markup = format!(
        "<h2 id=\"command-title\">Command</h2>\n<p class=\"lead\">The options of llama.cpp; add <code>-m</code> with the \
         file. <code>stagewright export</code> writes them for other programs.</p>\n\
         <pre class=\"command\" id=\"line\"><code>llama-server {flags}</code></pre>\n"
    );
    Section { id: "command", title: "Command", markup }
}
