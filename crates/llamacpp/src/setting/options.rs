//! Options of llama.cpp by name.
//!
//! Source: `common/arg.cpp` of llama.cpp 0c1e57098.

use stagewright_core::ids::Keyed;
use stagewright_formats::code::L;
use stagewright_formats::nearest::{instead, nearest};
use stagewright_formats::{At, InputError, Result};
use stagewright_structure::Encoding;

use super::words::{Word, split};
use super::{Override, Pattern, Setting};
use crate::device::{Device, DeviceId, Location};

/// Buffer type of the host.
pub(super) const HOST_BUFFER: &str = "CPU";

/// Sequences that `llama-server` has if the line gives none; they share one cache.
pub(super) const AUTOMATIC_SEQUENCES: u64 = 4;

/// Largest number of an option, which llama.cpp reads into 32 bits with a sign.
const LARGEST: u64 = i32::MAX as u64;

/// Encodings of a cache.
pub(super) const CACHE_TYPES: &[&str] =
    &["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"];

/// An option: its names, and what it does with its value, which is the option itself if it takes none.
struct Known {
    names: &'static [&'static str],
    takes_value: bool,
    apply: fn(&mut Reader, &Word) -> Result<()>,
}

const fn valued(names: &'static [&'static str], apply: fn(&mut Reader, &Word) -> Result<()>) -> Known {
    Known { names, takes_value: true, apply }
}

const fn bare(names: &'static [&'static str], apply: fn(&mut Reader, &Word) -> Result<()>) -> Known {
    Known { names, takes_value: false, apply }
}

const OPTIONS: &[Known] = &[
    valued(&["-dev", "--device"], |reader, value| reader.devices(value)),
    valued(&["-ngl", "--gpu-layers", "--n-gpu-layers"], |reader, value| {
        let is_all = matches!(value.text.as_str(), "all" | "auto" | "-1");
        reader.setting.layers = if is_all { None } else { Some(reader.number(value, 0)?) };
        Ok(())
    }),
    valued(&["-ts", "--tensor-split"], |reader, value| reader.shares(value)),
    valued(&["-ot", "--override-tensor"], |reader, value| {
        reader.patterns.push((reader.setting.overrides.len(), value.clone()));
        Ok(())
    }),
    valued(&["-ncmoe", "--n-cpu-moe"], |reader, value| {
        let layers = reader.number(value, 0)?;
        reader.setting.overrides.push(Override::FirstExperts(layers));
        Ok(())
    }),
    bare(&["-cmoe", "--cpu-moe"], |reader, _| {
        reader.setting.overrides.push(Override::AllExperts);
        Ok(())
    }),
    valued(&["-c", "--ctx-size"], |reader, value| {
        reader.setting.context = Some(reader.number(value, 0)?).filter(|&context| context > 0);
        Ok(())
    }),
    valued(&["-np", "--parallel"], |reader, value| {
        let is_automatic = value.text == "-1";
        reader.setting.sequences =
            if is_automatic { AUTOMATIC_SEQUENCES } else { reader.number(value, 1)? };
        reader.unified_by_default = is_automatic;
        Ok(())
    }),
    bare(&["-kvu", "--kv-unified"], |reader, _| reader.set(|reader| reader.unified = Some(true))),
    bare(&["-no-kvu", "--no-kv-unified"], |reader, _| reader.set(|reader| reader.unified = Some(false))),
    valued(&["-b", "--batch-size"], |reader, value| {
        reader.setting.batch = reader.number(value, 1)?;
        Ok(())
    }),
    valued(&["-ub", "--ubatch-size"], |reader, value| {
        reader.setting.micro_batch = reader.number(value, 1)?;
        Ok(())
    }),
    valued(&["-ctk", "--cache-type-k"], |reader, value| {
        reader.setting.keys = reader.cache_type(value)?;
        Ok(())
    }),
    valued(&["-ctv", "--cache-type-v"], |reader, value| {
        reader.setting.values = reader.cache_type(value)?;
        Ok(())
    }),
    valued(&["-fa", "--flash-attn"], |reader, value| {
        const STATES: &[(&str, bool)] = &[
            ("on", true),
            ("off", false),
            ("auto", true),
            ("1", true),
            ("0", false),
            ("enabled", true),
            ("disabled", false),
        ];
        let state = STATES.iter().find(|state| state.0 == value.text);
        let state = state.ok_or_else(|| reader.malformed(value, "is neither on, off nor auto"))?;
        reader.setting.flash_attention = state.1;
        Ok(())
    }),
    valued(&["-lm", "--load-mode"], |reader, value| {
        reader.setting.mmap = match value.text.as_str() {
            "auto" | "mmap" | "mmap+mlock" => true,
            "none" | "mlock" | "dio" => false,
            _ => return Err(reader.malformed(value, "is no way of loading, such as `mmap` or `none`")),
        };
        Ok(())
    }),
    // Builds before `--load-mode`.
    bare(&["--mmap"], |reader, _| reader.set(|reader| reader.setting.mmap = true)),
    bare(&["--no-mmap"], |reader, _| reader.set(|reader| reader.setting.mmap = false)),
    bare(&["--repack"], |reader, _| reader.set(|reader| reader.setting.repack = true)),
    bare(&["--no-repack", "-nr"], |reader, _| reader.set(|reader| reader.setting.repack = false)),
    bare(&["--kv-offload", "-kvo"], |reader, _| reader.set(|reader| reader.setting.cache_on_devices = true)),
    bare(&["--no-kv-offload", "-nkvo"], |reader, _| {
        reader.set(|reader| reader.setting.cache_on_devices = false)
    }),
    bare(&["--swa-full"], |reader, _| reader.set(|reader| reader.setting.whole_windows = true)),
    valued(&["-sm", "--split-mode"], |reader, value| match value.text.as_str() {
        "layer" => Ok(()),
        _ => Err(reader.not_followed(value, "only `--split-mode layer` puts each tensor on one device")),
    }),
    valued(&["--spec-type"], |reader, value| {
        Err(reader.not_followed(value, "the context of a draft is not part of the memory here"))
    }),
    valued(&["-md", "--model-draft", "--spec-draft-model"], |reader, value| {
        Err(reader.not_followed(value, "the draft model is not part of the memory here"))
    }),
    valued(&["-mm", "--mmproj"], |reader, value| {
        Err(reader.not_followed(value, "the encoder of images is not part of the memory here"))
    }),
];

/// Options that have been read so far.
struct Reader<'a> {
    label: &'a str,
    machine: &'a [Device],
    setting: Setting,
    /// Values of `--override-tensor` with the overrides before them: their targets depend on the devices, which may follow.
    patterns: Vec<(usize, Word)>,
    shares: Option<Word>,
    unified: Option<bool>,
    unified_by_default: bool,
}

pub(super) fn parse(label: &str, text: &str, machine: &[Device]) -> Result<Setting> {
    let setting = Setting::new(machine.to_vec());
    let (patterns, shares) = (Vec::new(), None);
    let mut reader =
        Reader { label, machine, setting, patterns, shares, unified: None, unified_by_default: true };
    let words = split(label, text)?;
    let mut words = words.iter();
    while let Some(option) = words.next() {
        let known = OPTIONS.iter().find(|known| known.names.contains(&option.text.as_str()));
        let known = known.ok_or_else(|| reader.unknown(option))?;
        let value = match known.takes_value {
            true => words.next().ok_or_else(|| reader.malformed(option, "has no value after it"))?,
            false => option,
        };
        (known.apply)(&mut reader, value)?;
    }
    reader.finish()
}

impl Reader<'_> {
    /// Resolves what depends on several options.
    fn finish(mut self) -> Result<Setting> {
        self.setting.unified = self.unified.unwrap_or(self.unified_by_default);
        let devices = self.setting.devices.len();
        if let Some(word) = self.shares.as_ref().filter(|_| self.setting.shares.len() > devices) {
            let message =
                format!("has {} shares, and there are {devices} devices", self.setting.shares.len());
            return Err(self.malformed(word, &message));
        }
        // From the last, so that positions before it stay.
        for (position, word) in std::mem::take(&mut self.patterns).iter().rev() {
            let found = word.text.split(',').map(|part| self.exception(word, part));
            let found = found.collect::<Result<Vec<Override>>>()?;
            self.setting.overrides.splice(position..position, found);
        }
        Ok(self.setting)
    }

    fn set(&mut self, change: impl FnOnce(&mut Self)) -> Result<()> {
        change(self);
        Ok(())
    }

    fn number(&self, value: &Word, least: u64) -> Result<u64> {
        let number = value.text.parse().ok().filter(|number| (least..=LARGEST).contains(number));
        number.ok_or_else(|| {
            self.malformed(value, &format!("is no whole number between {least} and {LARGEST}"))
        })
    }

    fn devices(&mut self, value: &Word) -> Result<()> {
        if value.text == "none" {
            self.setting.devices = Keyed::new();
            return Ok(());
        }
        let mut devices: Keyed<DeviceId, Device> = Keyed::new();
        for name in value.text.split(',') {
            let Some(device) = self.machine.iter().find(|device| device.name == name) else {
                let help = instead(name, self.machine.iter().map(|device| device.name.as_str()));
                return Err(self.error(
                    L::L007,
                    value,
                    format!("`{name}` is no device of the machine"),
                    help,
                ));
            };
            if devices.iter().any(|earlier| earlier.name == name) {
                return Err(self.malformed(value, &format!("has the device `{name}` twice")));
            }
            devices.push(device.clone());
        }
        self.setting.devices = devices;
        Ok(())
    }

    fn shares(&mut self, value: &Word) -> Result<()> {
        let share = |text: &str| text.parse().ok().filter(|share: &f32| share.is_finite() && *share >= 0.0);
        let shares = value.text.split([',', '/']).map(share).collect::<Option<Vec<f32>>>();
        self.setting.shares = shares
            .ok_or_else(|| self.malformed(value, "is no list of shares of at least 0, such as `3,1`"))?;
        self.shares = Some(value.clone());
        Ok(())
    }

    fn cache_type(&self, value: &Word) -> Result<Encoding> {
        let known =
            CACHE_TYPES.contains(&value.text.as_str()).then(|| Encoding::named(&value.text)).flatten();
        known.ok_or_else(|| {
            let help = instead(&value.text, CACHE_TYPES.iter().copied());
            self.error(L::L007, value, format!("`{}` is no type of a cache", value.text), help)
        })
    }

    /// One part of `--override-tensor`: a pattern and the buffer type that its tensors go to.
    fn exception(&self, word: &Word, part: &str) -> Result<Override> {
        let wrong = |message: String, help: String| self.error(L::L008, word, message, help);
        let Some((pattern, name)) = part.split_once('=') else {
            let help = "give PATTERN=TARGET, as in `blk\\.3\\.ffn_.*=CPU`, several of them divided by commas";
            return Err(wrong(format!("`{part}` has no target"), help.to_owned()));
        };
        let buffers = self.setting.devices.enumerate();
        let mut buffers = buffers.map(|(id, device)| (device.buffer.as_str(), Location::Device(id)));
        let target = match name {
            HOST_BUFFER => Location::Host,
            _ => match buffers.find(|buffer| buffer.0 == name) {
                Some((_, target)) => target,
                None => {
                    let names = self.setting.devices.iter().map(|device| device.buffer.as_str());
                    let help = instead(name, [HOST_BUFFER].into_iter().chain(names));
                    return Err(wrong(format!("`{name}` is no buffer type of the devices"), help));
                }
            },
        };
        let pattern = Pattern::new(pattern).map_err(|cause| {
            let help = "write a regular expression without commas, references to groups and conditions on \
                        what is around a match";
            wrong(format!("`{pattern}` is no pattern of names: {cause}"), help.to_owned())
        })?;
        Ok(Override::Tensors { pattern, target })
    }

    fn unknown(&self, option: &Word) -> InputError {
        let names = OPTIONS.iter().flat_map(|known| known.names.iter().copied());
        let help = match nearest(&option.text, names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "give only options that decide where tensors go and what memory they take: leave out \
                     the model, the address and sampling"
                .to_owned(),
        };
        self.error(L::L007, option, format!("`{}` is no option of placement or memory", option.text), help)
    }

    fn malformed(&self, value: &Word, problem: &str) -> InputError {
        let help = "llama-server --help describes the options";
        self.error(L::L007, value, format!("`{}` {problem}", value.text), help.to_owned())
    }

    fn not_followed(&self, value: &Word, reason: &str) -> InputError {
        let help = "leave the option out, and check its memory with the tool itself";
        self.error(L::L009, value, format!("`{}`: {reason}", value.text), help.to_owned())
    }

    fn error(&self, code: L, word: &Word, message: String, help: String) -> InputError {
        InputError::new(code, self.label, At::Line { line: 1, column: word.column }, message, help)
    }
}
