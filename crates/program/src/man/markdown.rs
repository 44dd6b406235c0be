//! A page of the manual in Markdown: the usage of a command, its options by heading, and the commands below it.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Arg, Command};

/// The page of a command.
pub(super) fn page(command: &Command) -> String {
    let mut text = String::new();
    section(command, 1, &mut text);
    text
}

/// A section for a command under a heading of the given level, with sections for its subcommands one level deeper. The
/// subcommands of the program itself form a list instead, because each has a page of its own.
fn section(command: &Command, level: usize, text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let marks = "#".repeat(level);
    let _ = writeln!(text, "{marks} {name}\n");
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        let _ = writeln!(text, "{}\n", escaped(about));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let _ = writeln!(text, "```text\n{usage}\n```");
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .collect();
    let mut headings = Vec::new();
    for heading in arguments.iter().map(|argument| heading(argument)) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for title in headings {
        let _ = writeln!(text, "\n{marks}# {title}\n");
        for argument in arguments.iter().filter(|argument| heading(argument) == title) {
            let _ = writeln!(text, "- {}", entry(argument));
        }
    }
    let below: Vec<&Command> = command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    if level == 1 && command.get_display_name().is_none_or(|name| name == command.get_name()) {
        let _ = writeln!(text, "\n{marks}# Commands\n");
        for command in below {
            let page = command.get_display_name().unwrap_or_else(|| command.get_name());
            let about = command.get_about().map(escaped).unwrap_or_default();
            let _ = writeln!(text, "- [`{}`]({page}.md): {about}", command.get_name());
        }
    } else {
        for command in below {
            text.push('\n');
            section(command, level + 1, text);
        }
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        let _ = writeln!(text, "\n{}", escaped(after));
    }
}

/// The heading under which an argument is listed.
fn heading(argument: &Arg) -> &str {
    argument.get_help_heading().unwrap_or(if argument.is_positional() { "Arguments" } else { "Options" })
}

/// An argument with its help, its values and its default.
fn entry(argument: &Arg) -> String {
    let short = argument.get_short().filter(|_| argument.get_long().is_some());
    let mut text = match short {
        Some(short) => format!("`-{short}`, `{argument}`"),
        None => format!("`{argument}`"),
    };
    if let Some(help) = argument.get_long_help().or(argument.get_help()) {
        // Indented, so that further paragraphs belong to the list item.
        let _ = write!(text, ": {}", escaped(help).replace('\n', "\n  "));
    }
    if !argument.get_action().takes_values() {
        return text;
    }
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), escaped(help)),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !values.is_empty() && !argument.is_hide_possible_values_set() {
        let _ = write!(text, ". Values: {}", values.join(", "));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let _ = write!(text, ". Default: {}", defaults.join(", "));
    }
    text
}

/// Escapes a text so that only code spans in backticks are interpreted as Markdown.
fn escaped(text: &StyledStr) -> String {
    let text = text.to_string();
    let mut escaped = String::with_capacity(text.len());
    let mut is_code = false;
    for character in text.chars() {
        is_code ^= character == '`';
        if !is_code && matches!(character, '\\' | '<' | '>' | '*' | '_' | '[' | ']' | '|' | '#') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
