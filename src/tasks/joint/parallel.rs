//! Lists of parallelism: `tp=8,dp,pp`.

use std::collections::BTreeMap;

use stagewright_core::document::{CONFIGURATIONS, Parallelism};

use crate::code::U001;
use crate::failure::{Failure, Result};
use crate::reading::Place;

/// Parses a list of kinds of parallelism, each with an optional degree.
pub(super) fn parallel(list: &str, place: &Place) -> Result<BTreeMap<Parallelism, Option<u32>>> {
    let wrong = |cause: String| {
        Failure::new(U001, cause)
            .at(place("parallel"))
            .help("give a list of tp, cp, dp, pp, ep, zero, shard, recompute, offload and mixed, such as tp=8,dp,pp")
    };
    let mut found = BTreeMap::new();
    for item in list.split(',') {
        let (name, degree) = match item.split_once('=') {
            Some((name, degree)) => (name.trim(), Some(degree.trim())),
            None => (item.trim(), None),
        };
        let parallelism = Parallelism::ALL
            .into_iter()
            .find(|parallelism| parallelism.name() == name)
            .ok_or_else(|| match name {
                "" => wrong("an item of the list is empty".into()),
                _ => wrong(format!("`{name}` is no kind of parallelism")),
            })?;
        let degree = match degree {
            None => None,
            Some(text) if parallelism == Parallelism::Recompute => {
                let index = CONFIGURATIONS.iter().position(|&name| name == text);
                let known = CONFIGURATIONS.join(", ");
                let index = index.ok_or_else(|| wrong(format!("`{text}` is not one of {known}")))?;
                Some(index as u32)
            }
            Some(text) => {
                let degree: Option<u32> = text.parse().ok();
                Some(degree.ok_or_else(|| wrong(format!("`{text}` is not a degree of {name}")))?)
            }
        };
        if found.insert(parallelism, degree).is_some() {
            return Err(wrong(format!("{name} is listed twice")));
        }
    }
    Ok(found)
}
