//! A local plan, as targets read it.

use stagewright_core::document::{LocalPlanDocument, LocalSettingDocument};
use stagewright_core::text::{quoted_word, visible};
use stagewright_llamacpp::{Class, Device, Override, Setting, server_address};

use crate::error::inconsistent;
use crate::{ExportError, Result};

/// Path of the command line in a plan.
pub(super) const FLAGS: &str = "setting.flags";

/// Advice for plans with an option that only llama.cpp has.
pub(super) const LLAMA: &str = "export to llama-server, which has the option";

/// Largest number of blocks that llama.cpp loads (`LLAMA_MAX_LAYERS`).
const LARGEST_BLOCKS: u64 = 512;

/// Pattern of the tensors that `--cpu-moe` and `--n-cpu-moe` move (`LLM_FFN_EXPS_REGEX` in `common/common.h`).
const EXPERTS: &str = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps";

/// A local plan with its options.
#[derive(Debug)]
pub struct Local<'a> {
    /// The document.
    pub document: &'a LocalPlanDocument,
    /// The setting of the document.
    pub setting: &'a LocalSettingDocument,
    /// The options of the setting.
    pub line: Setting,
}

impl<'a> Local<'a> {
    /// Reads a plan.
    ///
    /// # Errors
    /// If there is no setting (E002), or if its flags are no options of llama.cpp or differ from the document (E029).
    pub fn read(document: &'a LocalPlanDocument) -> Result<Local<'a>> {
        let Some(setting) = &document.setting else {
            return Err(ExportError::NoPlan { status: document.status.name() });
        };
        // A line names devices and their buffer types alone.
        let device = |name: &String| Device {
            buffer: buffer(name, &setting.flags),
            ..Device::new(name, Class::Cuda, 0, 0.0, 0.0)
        };
        let devices: Vec<Device> = setting.devices.iter().map(|device| &device.name).map(device).collect();
        let line = Setting::parse(FLAGS, &setting.flags, &devices)
            .map_err(|error| inconsistent(error.message.to_string(), FLAGS))?;
        let plan = Local { document, setting, line };
        plan.check()?;
        Ok(plan)
    }

    /// Compares the flags with the rest of the document.
    fn check(&self) -> Result<()> {
        let (setting, line) = (self.setting, &self.line);
        if setting.blocks > LARGEST_BLOCKS {
            let why = format!("{} blocks are more than the {LARGEST_BLOCKS} of llama.cpp", setting.blocks);
            return Err(inconsistent(why, "setting.blocks"));
        }
        let names = setting.devices.iter().map(|device| device.name.as_str());
        if !names.eq(line.devices.iter().map(|device| device.name.as_str())) {
            let why = "the flags name other devices, or name them in another order".to_owned();
            return Err(inconsistent(why, "setting.devices"));
        }
        for (index, device) in setting.devices.iter().enumerate() {
            if device.slots[0] > device.slots[1] || device.slots[1] > self.slots() {
                let why = format!("slots {} to {} are not in the model", device.slots[0], device.slots[1]);
                return Err(inconsistent(why, format!("setting.devices[{index}].slots")));
            }
        }
        let layers = setting.gpu_layers.min(self.slots());
        let layers_of_line = if line.devices.is_empty() { layers } else { self.layers() };
        let numbers = [
            ("gpu_layers", layers_of_line, layers),
            ("context", line.context.unwrap_or(setting.context), setting.context),
            ("sequences", line.sequences, setting.sequences),
            ("batch", line.batch, setting.batch),
            ("micro_batch", line.micro_batch, setting.micro_batch),
        ];
        if let Some((name, found, expected)) =
            numbers.into_iter().find(|(_, found, expected)| found != expected)
        {
            let why = format!("`{name}` is {expected}, and {found} by the flags");
            return Err(inconsistent(why, format!("setting.{name}")));
        }
        let types = [line.keys.name(), line.values.name()];
        if setting.cache.iter().ne(types.iter()) {
            let why = format!("the cache is {} and {} by the flags", types[0], types[1]);
            return Err(inconsistent(why, "setting.cache"));
        }
        Ok(())
    }

    /// Slots of the model: its blocks and its output.
    pub(super) fn slots(&self) -> u64 {
        self.setting.blocks + 1
    }

    /// Slots on devices, counted from the output; 0 without devices.
    pub(super) fn layers(&self) -> u64 {
        match self.line.devices.is_empty() {
            true => 0,
            false => self.line.layers.unwrap_or(u64::MAX).min(self.slots()),
        }
    }

    /// File of the model: its name if that is one, or a placeholder.
    pub(super) fn model(&self) -> &'a str {
        let name = self.document.model.as_str();
        let is_file = name.to_ascii_lowercase().ends_with(".gguf") && visible(name) == name;
        if is_file { name } else { "MODEL.gguf" }
    }

    /// Overrides in their order as patterns with their buffer types, those of experts too.
    pub(super) fn patterns(&self) -> Vec<String> {
        let pattern = |exception: &Override| match exception {
            Override::Tensors { pattern, target } => {
                Some(format!("{}={}", pattern.text(), self.line.buffer(*target)))
            }
            Override::AllExperts => Some(format!("{EXPERTS}=CPU")),
            Override::FirstExperts(0) => None,
            Override::FirstExperts(blocks) => {
                let blocks = 0..(*blocks).min(self.setting.blocks);
                let blocks: Vec<String> = blocks.map(|block| block.to_string()).collect();
                Some(format!(r"blk\.({}){EXPERTS}=CPU", blocks.join("|")))
            }
        };
        self.line.overrides.iter().filter_map(pattern).collect()
    }

    /// Whether a device of the line is one of a server.
    pub(super) fn is_remote(&self) -> bool {
        self.line.devices.iter().any(|device| numbered(&device.name).0 == "RPC")
    }

    /// The option that names all servers of the machine in their order, which numbers their devices; empty without such a
    /// device, or if the machine has no addresses.
    pub(super) fn servers(&self) -> String {
        let kinds = self.document.cluster.kinds.iter();
        let mut servers: Vec<&str> = Vec::new();
        for address in kinds.filter_map(|kind| server_address(&kind.name)) {
            if !servers.contains(&address) {
                servers.push(address);
            }
        }
        match self.is_remote() && !servers.is_empty() {
            true => format!(" --rpc {}", quoted_word(&servers.join(","))),
            false => String::new(),
        }
    }

    /// Refuses devices of other machines, which only llama.cpp uses.
    pub(super) fn check_own(&self, rule: &'static str) -> Result<()> {
        match self.line.devices.iter().find(|device| numbered(&device.name).0 == "RPC") {
            Some(device) => Err(ExportError::Devices { what: format!("`{}`", visible(&device.name)), rule }),
            None => Ok(()),
        }
    }
}

/// Name of a backend and number of its device in the name of a device: `CUDA` and 0.
pub(super) fn numbered(name: &str) -> (&str, Option<u32>) {
    let backend = name.trim_end_matches(|character: char| character.is_ascii_digit());
    (backend, name[backend.len()..].parse().ok())
}

/// An option that a program does not have.
pub(super) fn lacks(
    what: impl Into<String>,
    rule: &'static str,
    help: &'static str,
    at: &'static str,
) -> ExportError {
    ExportError::Setting { what: what.into(), rule, help, at }
}

/// Buffer type of a device: its name, which for that of a server is followed by the address, as in `RPC0[127.0.0.1:50052]`.
fn buffer(name: &str, flags: &str) -> String {
    let found = flags.split_once(&format!("={name}[")).and_then(|(_, rest)| rest.split_once(']'));
    found.map_or_else(|| name.to_owned(), |(address, _)| format!("{name}[{address}]"))
}
