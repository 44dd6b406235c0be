//! Devices by the names that people give them: those of the built-in table without the vendor, dashes and the first words.

use stagewright_formats::clusters;
use stagewright_llamacpp::constants;
use stagewright_llamacpp::{Class, Device, Machine};

/// Words that some write before a name and others do not.
const VENDORS: [&str; 10] =
    ["nvidia", "geforce", "amd", "radeonaipro", "radeon", "apple", "tesla", "gtx", "rtx", "rx"];

/// A name in lower case without dashes and vendors: `RTX4000Ada` is `4000ada`.
fn plain(name: &str) -> String {
    let name: String = name.chars().filter(|symbol| symbol.is_ascii_alphanumeric()).collect();
    let mut rest = name.to_ascii_lowercase();
    while let Some(shorter) = VENDORS.iter().find_map(|vendor| rest.strip_prefix(vendor)) {
        rest = shorter.to_owned();
    }
    rest
}

/// Endings that data sheets write out, or that name the usual form.
const ENDINGS: [(&str, &str); 4] = [("tis", "tisuper"), ("s", "super"), ("sxm", ""), ("sxm4", "")];

/// The built-in device of a name; of several with different memory, the one whose name is the shortest.
fn built_in(name: &str) -> Option<&'static clusters::Device> {
    let exact = |name: &str| {
        let is_named = |device: &&clusters::Device| {
            plain(&device.name) == name || device.aliases.iter().any(|alias| plain(alias) == name)
        };
        clusters::devices().iter().find(is_named)
    };
    let name = plain(name);
    let ending = |(short, long): &(&str, &str)| exact(&format!("{}{long}", name.strip_suffix(short)?));
    let of_memory = || {
        let rest = |device: &clusters::Device| plain(&device.name).strip_prefix(&name).map(str::to_owned);
        let is_memory =
            |rest: &str| rest.ends_with("gb") && rest.starts_with(|digit: char| digit.is_ascii_digit());
        clusters::devices().iter().find(|device| rest(device).is_some_and(|rest| is_memory(&rest)))
    };
    exact(&name).or_else(|| ENDINGS.iter().find_map(ending)).or_else(of_memory)
}

/// A device by a name, with the speed of a class of `measured.csv`, or else of its own class in builds of 2026.
pub(crate) fn find(name: &str, class: &str) -> Result<Device, String> {
    let known = built_in(name).ok_or_else(|| format!("`{name}` is no built-in device"))?;
    let cluster = clusters::find(&format!("1x{}+1xryzen-7950x:64GiB", known.name))
        .map_err(|error| error.to_string())?;
    let (machine, _) = Machine::of(name, &cluster).map_err(|error| error.message)?;
    let device = machine.devices.into_iter().next().ok_or_else(|| format!("`{name}` is a processor"))?;
    let class = match (class.ends_with("24"), device.class) {
        (true, Class::Cuda) => Class::Cuda2024,
        (true, Class::Hbm) => Class::Hbm2024,
        (true, Class::Metal) => Class::Metal2024,
        (_, own) => own,
    };
    let rates = constants::rates(class, device.bandwidth, device.vector_peak);
    Ok(Device { name: name.into(), class, rates, ..device })
}
