//! Command lines: read, written, read back, and refused.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagewright_llamacpp::setting::Pattern;
use stagewright_llamacpp::{Location, Override, Setting};
use stagewright_structure::Encoding;

use crate::fixture::{device, devices, on, parse};

#[test]
fn options_are_read() {
    let line = "-ngl 40 -ts 3/1 -ot 'blk\\.[0-3]\\.ffn_.*=CPU,attn=CUDA1' -ncmoe 5 -cmoe -c 8192 -np 2 -b 4096 -ub 1024 \
                -ctk q8_0 --cache-type-v q4_0 -fa off --no-mmap --no-repack -nkvo --swa-full -sm layer";
    let setting = parse(2, line);
    assert_eq!(setting.layers, Some(40));
    assert_eq!(setting.shares, [3.0, 1.0]);
    let pattern = |text: &str| Pattern::new(text).expect("a pattern");
    let expected = [
        Override::Tensors { pattern: pattern(r"blk\.[0-3]\.ffn_.*"), target: Location::Host },
        Override::Tensors { pattern: pattern("attn"), target: on(1) },
        Override::FirstExperts(5),
        Override::AllExperts,
    ];
    assert_eq!(setting.overrides, expected);
    assert_eq!((setting.context, setting.sequences, setting.unified), (Some(8192), 2, false));
    assert_eq!((setting.batch, setting.micro_batch), (4096, 1024));
    assert_eq!((setting.keys.name(), setting.values.name()), ("q8_0".into(), "q4_0".into()));
    assert!(!setting.flash_attention && !setting.mmap && !setting.repack);
    assert!(!setting.cache_on_devices && setting.whole_windows);
}

/// llama.cpp 0c1e57098 refuses `--no-mmap`, which builds before it had for `--load-mode none`.
#[test]
fn weights_are_read_by_the_load_mode() {
    for (mode, mmap) in [
        ("auto", true),
        ("mmap", true),
        ("mmap+mlock", true),
        ("none", false),
        ("mlock", false),
        ("dio", false),
    ] {
        assert_eq!(parse(1, &format!("-lm {mode}")).mmap, mmap, "{mode}");
    }
    assert_eq!(parse(1, "--no-mmap").line(), "-dev CUDA0 --load-mode none");
    assert_eq!(parse(1, "--no-mmap --load-mode mmap").line(), "-dev CUDA0");
    let error = Setting::parse("--flags", "-lm disk", &devices(1)).expect_err("no way of loading");
    assert_eq!(error.code, "L007");
}

/// Without `-np` the server takes four sequences in one cache; with it, each has a cache unless `-kvu` is given.
#[test]
fn sequences_share_a_cache_by_default_only() {
    let read = |line: &str| {
        let setting = parse(1, line);
        (setting.sequences, setting.unified)
    };
    assert_eq!(read(""), (4, true));
    assert_eq!(read("-np -1"), (4, true));
    assert_eq!(read("-np 4"), (4, false));
    assert_eq!(read("-kvu -np 2"), (2, true));
    assert_eq!(read("-no-kvu"), (4, false));
}

#[test]
fn devices_are_chosen_and_ordered() {
    let names = |line: &str| {
        let setting = parse(3, line);
        setting.devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["CUDA0", "CUDA1", "CUDA2"]);
    assert_eq!(names("-dev CUDA2,CUDA0"), ["CUDA2", "CUDA0"]);
    assert!(names("-dev none").is_empty());
    // A target is a device of the line, wherever the line names the devices.
    let setting = parse(2, "-ot x=CUDA0 -dev CUDA1,CUDA0");
    assert!(matches!(setting.overrides[..], [Override::Tensors { target, .. }] if target == on(1)));
}

/// A server's buffer type has its address, and the overrides name buffer types.
#[test]
fn overrides_name_buffer_types() {
    let mut server = device("RPC0");
    server.buffer = "RPC0[127.0.0.1:50052]".into();
    let machine = [device("CUDA0"), server];
    let line = "-ot 'ffn=RPC0[127.0.0.1:50052]'";
    let setting = Setting::parse("--flags", line, &machine).expect("a line");
    assert_eq!(setting.line(), format!("-dev CUDA0,RPC0 {line}"));
    let error = Setting::parse("--flags", "-ot ffn=RPC0", &machine).expect_err("no buffer type");
    assert_eq!(error.code, "L008");
}

/// Random settings, written and read back, are the same; so are the lines.
#[test]
fn a_line_reads_back() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..500 {
        let setting = arbitrary(&mut random);
        let line = setting.line();
        let again =
            Setting::parse("--flags", &line, &devices(3)).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(again, setting, "{line}");
        assert_eq!(again.line(), line);
    }
}

fn arbitrary(random: &mut impl Rng) -> Setting {
    let mut machine = devices(3);
    machine.rotate_left(random.random_range(0..3));
    machine.truncate(random.random_range(0..=3));
    let count = machine.len();
    let mut setting = Setting::new(machine);
    setting.layers = random.random_bool(0.5).then(|| random.random_range(0..200));
    setting.shares = (0..random.random_range(0..=count)).map(|_| random.random_range(0.0_f32..9.0)).collect();
    setting.overrides = (0..random.random_range(0..4)).map(|_| exception(random, count as u32)).collect();
    setting.context = random.random_bool(0.5).then(|| random.random_range(1..100_000));
    setting.sequences = random.random_range(1..6);
    setting.unified = random.random_bool(0.5);
    setting.batch = random.random_range(1..5000);
    setting.micro_batch = random.random_range(1..5000);
    let types =
        ["f32", "f16", "bf16", "q8_0", "q4_0"].map(|name| Encoding::named(name).expect("an encoding"));
    setting.keys = types[random.random_range(0..5)];
    setting.values = types[random.random_range(0..5)];
    for flag in [
        &mut setting.flash_attention,
        &mut setting.mmap,
        &mut setting.repack,
        &mut setting.cache_on_devices,
        &mut setting.whole_windows,
    ] {
        *flag = random.random_bool(0.5);
    }
    setting
}

fn exception(random: &mut impl Rng, devices: u32) -> Override {
    const PATTERNS: [&str; 4] = [r"blk\.(3|5)\.ffn_.*", "it's", r"^output\.weight$", r"a b\d{2}"];
    match random.random_range(0..3) {
        0 => Override::FirstExperts(random.random_range(0..50)),
        1 => Override::AllExperts,
        _ => {
            let pattern = Pattern::new(PATTERNS[random.random_range(0..4)]).expect("a pattern");
            let target = match random.random_range(0..=devices) {
                0 => Location::Host,
                index => on(index - 1),
            };
            Override::Tensors { pattern, target }
        }
    }
}

/// Every refusal has a code, the column of the word, and help.
#[test]
fn wrong_lines_are_refused_with_their_place() {
    for (line, code, column, message) in [
        ("-nglx 3", "L007", 1, "`-nglx` is no option"),
        ("-c 8192 -ngl", "L007", 9, "`-ngl` has no value"),
        ("-ngl  four", "L007", 7, "`four` is no whole number"),
        ("-ngl 4294967296", "L007", 6, "no whole number"),
        ("-np 0", "L007", 5, "no whole number between 1"),
        ("-ts 1,-2", "L007", 5, "`1,-2` is no list of shares"),
        ("-ts 1,NaN", "L007", 5, "no list of shares"),
        ("-ts 1,2,3", "L007", 5, "3 shares, and there are 2 devices"),
        ("-ts 1,2 -dev CUDA1", "L007", 5, "2 shares, and there are 1 devices"),
        ("-dev CUDA7", "L007", 6, "`CUDA7` is no device"),
        ("-dev CUDA0,CUDA0", "L007", 6, "twice"),
        ("-ctk q6_k", "L007", 6, "`q6_k` is no type of a cache"),
        ("-fa maybe", "L007", 5, "neither on, off nor auto"),
        ("-c 1 'open", "L007", 6, "the quote has no end"),
        ("-c 1 open\\", "L007", 10, "the backslash has no end"),
        ("-ot ffn", "L008", 5, "`ffn` has no target"),
        ("-ot ffn=CUDA9", "L008", 5, "`CUDA9` is no buffer type"),
        ("-ot =CPU", "L008", 5, "the pattern is empty"),
        ("-ot 'x=CPU,(=CPU'", "L008", 5, "no pattern of names"),
        ("-ot '(?=x)=CPU'", "L008", 5, "no buffer type"),
        ("-ot '(?!x)y=CPU'", "L008", 5, "no pattern of names"),
        ("-ot x{1,2}=CPU", "L008", 5, "`x{1` has no target"),
        ("-sm row", "L009", 5, "one device"),
        ("--spec-type draft-mtp", "L009", 13, "draft"),
        ("-md small.gguf", "L009", 5, "draft model"),
    ] {
        let error = Setting::parse("--flags", line, &devices(2)).expect_err(line);
        assert_eq!(error.code, code, "{line}: {error}");
        assert_eq!(error.place.to_string(), format!("--flags:1:{column}"), "{line}");
        assert!(error.message.contains(message), "{line}: {}", error.message);
        assert!(!error.help.is_empty(), "{line}");
    }
    let error = Setting::parse("--flags", "--ctx-sise 3", &devices(1)).expect_err("a slip");
    assert!(error.help.contains("--ctx-size"), "{}", error.help);
}
