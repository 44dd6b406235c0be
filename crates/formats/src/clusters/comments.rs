//! Comments of the files of named clusters: the hardware and the sources of its figures, which documents do not contain.

use std::mem;

use serde::Serialize;

use super::named::file;

/// Comments of a cluster's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comments {
    /// The hardware, with its source: the first paragraph of the file's head.
    pub about: String,
    /// Further paragraphs of the head: how to use the cluster.
    pub remarks: Vec<String>,
    /// Sources of links, uplinks and other figures, in the order of the file.
    pub sources: Vec<Remark>,
}

/// A comment on a part of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// The part, such as `link of gpu`.
    pub subject: String,
    /// The comment.
    pub text: String,
}

/// The comments of a cluster, by name; case is ignored. `None` if no cluster has the name.
pub fn comments(name: &str) -> Option<Comments> {
    let (_, text) = file(name)?;
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    let mut paragraphs = head.split(|line| line.is_empty()).map(|lines| lines.join(" "));
    Some(Comments {
        about: paragraphs.next().unwrap_or_default(),
        remarks: paragraphs.collect(),
        sources: sources(text.lines().skip(head.len())),
    })
}

/// The comments below the head, each on the figure or the table after it.
fn sources<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let (mut pending, mut table, mut name) = (String::new(), "", "");
    for line in lines {
        if let Some(comment) = line.strip_prefix('#') {
            pending = format!("{pending} {}", comment.trim()).trim_start().to_owned();
            continue;
        }
        if line.starts_with('[') {
            (table, name) = (line.trim_matches(['[', ']']), "");
            continue;
        }
        let (key, value) = line.split_once(" = ").unwrap_or((line, ""));
        if key == "name" {
            name = value.trim_matches('"');
        }
        if pending.is_empty() {
            continue;
        }
        let subject = match (table, key) {
            // The only figure of a group is its uplink.
            ("groups", _) => format!("uplink of {name}"),
            ("kinds", "name") => name.to_owned(),
            ("kinds", key) => format!("{key} of {name}"),
            (table, _) => table.replace("classes.", "class "),
        };
        remarks.push(Remark { subject, text: mem::take(&mut pending) });
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::super::{named, names};
    use super::*;

    #[test]
    fn every_link_uplink_and_ram_of_every_cluster_has_a_source() {
        for name in names() {
            let Comments { about, sources, .. } = comments(name).unwrap();
            assert!(about.ends_with('.') && about.len() > 40, "{name}: {about}");
            let cluster = named(name).unwrap();
            let linked = cluster.kinds.iter().filter(|kind| kind.link.is_some());
            let links = linked.map(|kind| format!("link of {}", kind.name));
            let uplinks = cluster.groups.iter().map(|group| format!("uplink of {}", group.name));
            let with_ram = cluster.kinds.iter().filter(|kind| kind.ram.is_some());
            let rams = with_ram.map(|kind| format!("ram of {}", kind.name));
            for subject in links.chain(uplinks).chain(rams) {
                let found = sources.iter().filter(|remark| remark.subject == subject).count();
                assert_eq!(found, 1, "{name}: {subject} in {sources:?}");
            }
        }
    }

    #[test]
    fn the_head_is_no_source() {
        let Comments { about, remarks, sources } = comments("Workstation-RTX-4090").unwrap();
        assert_eq!(
            about,
            "A workstation with one GeForce RTX 4090 and a processor that can take operators as well."
        );
        assert_eq!(remarks, [""; 0]);
        assert_eq!((sources[0].subject.as_str(), sources[1].subject.as_str()), ("link of gpu", "cpu"));
        assert_eq!(sources[1].text, "The amount of installed memory, 256 GiB, is an arbitrary choice.");
        assert_eq!(comments("laptop"), None);
    }
}
