//! Bytes by device against sums by hand, in the rules of llama.cpp 0c1e57098.

use stagewright_llamacpp::memory::{CUDA_CONTEXT, Cells, MARGIN, Memory};
use stagewright_llamacpp::{Class, DeviceId, Host, Location, Setting, place};
use stagewright_structure::Structure;

use crate::fixture::{dense, experts, on, parse, windows};
use crate::models;
use crate::writer::{F32, Model};

fn memory(structure: &Structure, setting: &Setting) -> Memory {
    let placement = place(structure, setting);
    Memory::of("--flags", structure, setting, &placement)
        .unwrap_or_else(|error| panic!("{error}: {}", error.help))
}

/// Bytes of the cache on the host and on each device.
fn caches(structure: &Structure, count: usize, line: &str) -> Vec<u64> {
    let memory = memory(structure, &parse(count, line));
    [memory.host.cache].into_iter().chain(memory.devices.iter().map(|bytes| bytes.cache)).collect()
}

const FIRST: DeviceId = DeviceId(0);

/// Numbers of a token's key and value in a layer: 2 heads of 64 each.
const ENTRY: u64 = 2 * 2 * 64;

#[test]
fn every_byte_of_the_file_is_somewhere_once() {
    for structure in [dense(), experts(), windows()] {
        for line in ["", "-ngl 4 -ts 1,2", "-ngl 0", "-ncmoe 3", "-ot 'attn=CPU,ffn=CUDA1'"] {
            let memory = memory(&structure, &parse(2, line));
            let total: u64 =
                memory.host.weights + memory.devices.iter().map(|bytes| bytes.weights).sum::<u64>();
            assert_eq!(total, structure.weight_bytes(), "{line}");
        }
    }
}

#[test]
fn a_tied_output_is_counted_twice() {
    let mut model = models::small();
    model.tensors.retain(|tensor| tensor.name != "output.weight");
    let structure = model.structure();
    let table = structure.tensors[0].bytes;
    let total = |line: &str| {
        let memory = memory(&structure, &parse(1, line));
        memory.host.weights + memory.devices.iter().map(|bytes| bytes.weights).sum::<u64>()
    };
    assert_eq!(total(""), structure.weight_bytes() + table);
    assert_eq!(total("-ngl 0"), structure.weight_bytes());
}

/// Of 9 slots, 5 and 4, so that blocks 5 to 7 are on the second device; the output keeps nothing.
#[test]
fn a_cache_is_with_its_layer() {
    let structure = dense();
    let layer = 4096 * ENTRY * 2;
    assert_eq!(caches(&structure, 2, "-c 4096"), [0, 5 * layer, 3 * layer]);
    assert_eq!(caches(&structure, 2, "-c 4096 -ngl 4 -ts 1,1"), [5 * layer, 2 * layer, layer]);
    assert_eq!(caches(&structure, 2, "-c 4096 -nkvo"), [8 * layer, 0, 0]);
    assert_eq!(
        caches(&structure, 2, "-c 4096 -ot blk=CPU"),
        [0, 5 * layer, 3 * layer],
        "overrides move no cache"
    );
}

#[test]
fn contexts_are_padded_and_divided_among_sequences() {
    let structure = dense();
    let cells = |line: &str| Cells::of("--flags", &structure, &parse(1, line)).expect("cells");
    let expected = |context: u64, cells: u64, streams: u64| Cells { cells, streams, context };
    assert_eq!(cells("-c 1000 -np 1"), expected(1000, 1024, 1));
    assert_eq!(cells("-c 1024 -np 1"), expected(1024, 1024, 1));
    assert_eq!(cells("-c 1025"), expected(1025, 1280, 1));
    assert_eq!(cells("-c 4096 -np 3"), expected(4096, 1536, 3));
    assert_eq!(cells("-c 4096 -np 3 -kvu"), expected(4096, 4096, 1));
    assert_eq!(cells("-c 1 -np 4"), expected(1, 256, 4));
    // The context of the model.
    assert_eq!(cells("-c 0"), expected(131_072, 131_072, 1));
    assert_eq!(caches(&structure, 1, "-c 4096 -np 3")[1], 8 * 3 * 1536 * ENTRY * 2);
}

/// 34 bytes for 32 numbers, and 18.
#[test]
fn cache_types_have_the_bytes_of_their_blocks() {
    let structure = dense();
    let half = 8 * 1024 * (ENTRY / 2);
    let bytes = |line: &str| caches(&structure, 1, &format!("-c 1024 {line}"))[1];
    assert_eq!(bytes("-ctk q8_0"), half / 32 * 34 + half * 2);
    assert_eq!(bytes("-ctk q4_0 -ctv q4_0"), 2 * (half / 32 * 18));
    assert_eq!(bytes("-ctv f32"), half * 2 + half * 4);
}

/// 4 of 8 layers have a window of 128: with 512 tokens of a micro-batch they keep 640 cells, padded to 768.
#[test]
fn windows_bound_the_cells_of_their_layers() {
    let structure = windows();
    let bytes = |line: &str| caches(&structure, 1, line)[1] / (ENTRY * 2 * 4);
    assert_eq!(bytes("-c 8192 -np 1"), 8192 + 768);
    assert_eq!(bytes("-c 8192 -np 1 -ub 2048"), 8192 + 2304);
    assert_eq!(bytes("-c 512 -np 1"), 512 + 512);
    assert_eq!(bytes("-c 8192 -np 1 --swa-full"), 8192 + 8192);
    // Sequences in one cache have a window each; otherwise each has a cache.
    assert_eq!(bytes("-c 8192 -np 4 -kvu"), 8192 + 1024);
    assert_eq!(bytes("-c 8192 -np 4"), 4 * (2048 + 768));
}

/// Latent attention keeps 512 + 64 numbers as a key and no value; with keys and values projected by one tensor it keeps both.
#[test]
fn latent_attention_keeps_its_latent_alone() {
    let model = |is_fused: bool| {
        let mut model = Model::new("deepseek2", 1, 256, 512);
        model.key("attention.head_count", 4u32).key("attention.head_count_kv", 1u32);
        model.key("attention.key_length", 576u32).key("attention.value_length", 512u32);
        model.key("attention.key_length_mla", 192u32).key("attention.value_length_mla", 128u32);
        model.key("attention.kv_lora_rank", 512u32).key("rope.dimension_count", 64u32);
        model.key("feed_forward_length", 512u32).tensor("output.weight", &[256, 512], F32);
        let shapes: &[(&str, &[u64])] = &[
            ("attn_norm", &[256]),
            ("attn_q", &[256, 4 * 192]),
            ("attn_kv_a_mqa", &[256, 576]),
            ("attn_kv_a_norm", &[512]),
            ("attn_output", &[4 * 128, 256]),
            ("ffn_norm", &[256]),
            ("ffn_gate", &[256, 512]),
            ("ffn_up", &[256, 512]),
            ("ffn_down", &[512, 256]),
        ];
        model.layer(0, shapes);
        match is_fused {
            true => model.layer(0, &[("attn_kv_b", &[512, 4 * 256])]),
            false => model.layer(0, &[("attn_k_b", &[128, 512, 4]), ("attn_v_b", &[512, 128, 4])]),
        };
        model.structure()
    };
    assert_eq!(caches(&model(false), 1, "-c 1024")[1], 1024 * 576 * 2);
    assert_eq!(caches(&model(false), 1, "-c 1024 -ctk q8_0 -ctv q4_0")[1], 1024 * 576 / 32 * 34);
    assert_eq!(caches(&model(true), 1, "-c 1024")[1], 1024 * 4 * (192 + 128) * 2);
}

/// A state-space layer: 512 channels with 16 numbers each and 3 earlier tokens of 512 + 2 · 16, in 32 bits a sequence.
#[test]
fn a_state_is_in_32_bits_for_every_sequence() {
    let mut model = Model::new("mamba2", 1, 256, 512);
    model.key("ssm.inner_size", 512u32).key("ssm.state_size", 16u32).key("ssm.conv_kernel", 4u32);
    model.key("ssm.time_step_rank", 8u32).key("ssm.group_count", 1u32);
    model.tensor("output.weight", &[256, 512], F32);
    let shapes: &[(&str, &[u64])] = &[
        ("attn_norm", &[256]),
        ("ssm_in", &[256, 2 * 512 + 2 * 16 + 8]),
        ("ssm_conv1d", &[4, 512 + 2 * 16]),
        ("ssm_a", &[1, 8]),
        ("ssm_out", &[512, 256]),
    ];
    model.layer(0, shapes);
    let structure = model.structure();
    let state = 4 * (512 * 16 + 3 * (512 + 2 * 16));
    assert_eq!(caches(&structure, 1, "-c 4096 -np 1 -ctk q8_0")[1], state);
    assert_eq!(caches(&structure, 1, "-c 4096 -np 3")[1], 3 * state);
}

/// The formulas of the page, with d = 512, f = 1024, 8 heads of 64, 4 experts a token and V = 1024.
#[test]
fn buffers_follow_the_widest_layer() {
    let buffers = |structure: &Structure, line: &str| {
        let memory = memory(structure, &parse(2, &format!("-c 4096 -ot none=CPU {line}")));
        memory.devices.iter().map(|bytes| bytes.compute).collect::<Vec<_>>()
    };
    let mask = |micro_batch: u64| 8 * micro_batch * 4096;
    let plain = 512 * 4 * (3 * 1024 + 6 * 512 + 8 * 64) + mask(512);
    let last = 512 * 4 * (1024 + 9 * 512) + mask(512);
    assert_eq!(buffers(&dense(), ""), [plain, plain]);
    assert!(last < plain, "the widest layer of the last device decides");
    assert_eq!(buffers(&dense(), "-ts 8,1"), [plain, last]);
    let mut wide = dense();
    wide.vocabulary = 8192;
    assert_eq!(buffers(&wide, "")[1], 512 * 4 * (8192 + 9 * 512) + mask(512));
    assert_eq!(buffers(&dense(), "-ts 1,0"), [plain, 0]);
    let small = 128 * 4 * (3 * 1024 + 6 * 512 + 8 * 64) + mask(128);
    assert_eq!(buffers(&dense(), "-ub 128")[0], small);
    assert_eq!(buffers(&dense(), "-b 128")[0], small, "no micro-batch is larger than a batch");
    let on_device = 512 * 4 * (2 * 4 * 512 + 4 * 1024 + 6 * 512) + mask(512);
    assert_eq!(buffers(&experts(), "")[0], on_device);
    assert_eq!(buffers(&experts(), "-ncmoe 8")[0], 512 * 24 * 512 + mask(512));
    assert_eq!(buffers(&experts(), "-ncmoe 4")[0], on_device, "the fifth block has experts on the device");
}

/// Three further copies of the hidden state and the mask on both devices.
#[test]
fn pipelined_inputs_have_four_copies() {
    let structure = dense();
    let compute = |line: &str| memory(&structure, &parse(2, line)).devices[FIRST].compute;
    let inputs = 512 * 4 * 512 + 8 * 512 * 4096;
    assert_eq!(compute("-c 4096") - compute("-c 4096 -ot none=CPU"), 3 * inputs);
    assert_eq!(compute("-c 4096 -ngl 8"), compute("-c 4096 -ngl 8 -ot none=CPU"));
    assert_eq!(compute("-c 4096 -nkvo"), compute("-c 4096 -nkvo -ot none=CPU"));
}

/// The largest product tensor on the host, of whatever block, has room on the first device.
#[test]
fn the_first_device_has_room_for_the_largest_weight_of_the_host() {
    let structure = experts();
    let copies = |line: &str| {
        let memory = memory(&structure, &parse(2, line));
        memory.devices.iter().map(|bytes| bytes.copies).collect::<Vec<_>>()
    };
    let largest = structure.tensors.iter().filter(|tensor| tensor.role.is_expert());
    let largest = largest.map(|tensor| tensor.bytes).max().expect("experts");
    assert_eq!(copies("-cmoe"), [largest, 0]);
    assert_eq!(copies(""), [0, 0]);
    assert_eq!(copies("-cmoe -ub 16"), [0, 0]);
    let mut setting = parse(2, "-cmoe");
    for device in setting.devices.iter_mut() {
        device.class = Class::Rocm;
    }
    let memory = memory(&structure, &setting);
    assert!(memory.devices.iter().all(|bytes| bytes.copies == 0 && bytes.context == 0));
}

#[test]
fn a_device_fits_with_the_margin_alone() {
    let structure = dense();
    let mut setting = parse(1, "-c 4096");
    let bytes = memory(&structure, &setting);
    assert_eq!(bytes.devices[FIRST].context, CUDA_CONTEXT);
    let host = Host::new(bytes.host.total() + MARGIN, 50e9);
    setting.devices[FIRST].memory = bytes.devices[FIRST].total() + MARGIN;
    assert_eq!(bytes.shortfalls(&setting, host), []);
    setting.devices[FIRST].memory -= 1;
    assert_eq!(bytes.shortfalls(&setting, host), [(on(0), 1)]);
    let short = Host { memory: host.memory - 3, ..host };
    assert_eq!(bytes.shortfalls(&setting, short), [(on(0), 1), (Location::Host, 3)]);
}

#[test]
fn what_is_not_followed_is_refused() {
    let structure = dense();
    let refused = |structure: &Structure, line: &str| {
        let setting = parse(1, line);
        let error = Memory::of("--flags", structure, &setting, &place(structure, &setting)).expect_err(line);
        (error.code.name, error.place.to_string())
    };
    assert_eq!(refused(&structure, "-fa off"), ("L009", "--flags: --flash-attn".to_owned()));
    let mut bare = structure.clone();
    bare.context = None;
    assert_eq!(refused(&bare, ""), ("L007", "--flags: -c".to_owned()));
    let mut narrow = models::small();
    for (name, value) in &mut narrow.keys {
        if name.ends_with("_length") && name.contains("attention") {
            *value = 64u32.into();
        }
    }
    let mut odd = narrow.structure();
    if let stagewright_structure::Mixer::Attention(attention) = &mut odd.layers[0].mixer {
        attention.kv_heads = 1;
        attention.key = 40;
    }
    assert_eq!(refused(&odd, "-ctk q8_0"), ("L007", "--flags: -ctk".to_owned()));
}
