//! Slots, overrides and copies.

use stagewright_llamacpp::place::slot_count;
use stagewright_llamacpp::{Location, Placement, Setting, place};
use stagewright_structure::Structure;

use crate::fixture::{GIB, dense, devices, experts, on, parse};
use crate::models;

fn of(structure: &Structure, placement: &Placement, name: &str) -> Option<Location> {
    let index = structure.tensors.iter().position(|tensor| tensor.name == name);
    placement.tensors[index.unwrap_or_else(|| panic!("{name} is a tensor"))]
}

/// Slots on the host, and on each device in order.
fn counts(count: usize, line: &str) -> Vec<usize> {
    let placement = place(&dense(), &parse(count, line));
    assert!(placement.slots.is_sorted(), "slots are contiguous in the order of devices");
    let locations = [Location::Host].into_iter().chain((0..count as u32).map(on));
    locations.map(|location| placement.slots.iter().filter(|&&slot| slot == location).count()).collect()
}

#[test]
fn slots_are_the_blocks_and_one_for_the_output() {
    assert_eq!(counts(1, ""), [0, 9]);
    assert_eq!(counts(1, "-ngl 99"), [0, 9]);
    assert_eq!(counts(1, "-ngl 9"), [0, 9]);
    assert_eq!(counts(1, "-ngl 8"), [1, 8]);
    assert_eq!(counts(1, "-ngl 1"), [8, 1]);
    assert_eq!(counts(1, "-ngl 0"), [9, 0]);
    assert_eq!(counts(1, "-dev none"), [9, 0]);
}

#[test]
fn shares_divide_the_slots() {
    assert_eq!(counts(2, "-ts 5,4"), [0, 5, 4]);
    assert_eq!(counts(2, "-ts 1,1"), [0, 5, 4]);
    assert_eq!(counts(2, "-ts 1,0"), [0, 9, 0]);
    assert_eq!(counts(2, "-ts 0,1"), [0, 0, 9]);
    assert_eq!(counts(2, "-ts 3"), [0, 9, 0]);
    assert_eq!(counts(2, "-ts 0,0"), [0, 5, 4]);
    assert_eq!(counts(3, "-ts 3,0,3 -ngl 6"), [3, 3, 0, 3]);
    assert_eq!(counts(3, "-ts 1,1,1"), [0, 3, 3, 3]);
}

/// A boundary at a third belongs to the second device in 64 bits as well as in 32, but sums of tenths differ: in 32 bits
/// 0.1 + 0.2 + 0.3 is 0.6 and a little more, and six tenths of ten slots are then seven.
#[test]
fn prefix_shares_are_sums_of_32_bits() {
    let shares = [0.1_f32, 0.2, 0.3, 0.4];
    let sum = |count: usize| shares[..count].iter().fold(0.0_f32, |sum, share| sum + share);
    let mut setting = Setting::new(devices(4));
    setting.shares = shares.to_vec();
    let structure = models::llama(
        &models::Widths {
            layers: 9,
            hidden: 256,
            heads: 4,
            kv_heads: 2,
            head: 64,
            inner: 512,
            vocabulary: 512,
        },
        false,
    )
    .structure();
    let placement = place(&structure, &setting);
    for (slot, &location) in placement.slots.iter().enumerate() {
        let position = slot as f32 / 10.0;
        let expected = (1..=4).find(|&count| sum(count) / sum(4) > position).expect("a device") as u32 - 1;
        assert_eq!(location, on(expected), "slot {slot}");
    }
    let in_64_bits = (0.1_f64 + 0.2 + 0.3) / (0.1 + 0.2 + 0.3 + 0.4);
    assert_ne!(in_64_bits > 0.6, sum(3) / sum(4) > 6.0_f32 / 10.0, "the case tells 32 bits from 64");
}

/// Free memory after the contexts: 24 and 8 GiB less half a GiB each are 23.5 to 7.5.
#[test]
fn free_memory_is_the_default_share() {
    let mut machine = devices(2);
    machine[1].memory = 8 * GIB;
    let placement = place(&dense(), &Setting::new(machine));
    let first = placement.slots.iter().filter(|&&slot| slot == on(0)).count();
    // 9 · 23.5 / 31 = 6.8: slots 0 to 6 are below.
    assert_eq!(first, 7);
}

#[test]
fn the_table_of_tokens_is_on_the_host_and_the_output_in_the_last_slot() {
    let structure = dense();
    let placement = place(&structure, &parse(2, "-ts 1,1"));
    assert_eq!(of(&structure, &placement, "token_embd.weight"), Some(Location::Host));
    assert_eq!(of(&structure, &placement, "output.weight"), Some(on(1)));
    assert_eq!(of(&structure, &placement, "output_norm.weight"), Some(on(1)));
    assert_eq!(of(&structure, &placement, "blk.0.attn_q.weight"), Some(on(0)));
    assert!(placement.copies.is_empty());
}

#[test]
fn a_tied_output_is_a_copy_unless_it_is_in_the_same_memory() {
    let mut model = models::small();
    model.tensors.retain(|tensor| tensor.name != "output.weight");
    let structure = model.structure();
    let copies = |line: &str| place(&structure, &parse(1, line)).copies;
    let table =
        structure.tensors.iter().position(|tensor| tensor.name == "token_embd.weight").expect("a table");
    assert_eq!(copies(""), [(table, on(0))]);
    assert_eq!(copies("-ngl 0"), []);
    assert_eq!(copies("-ot token_embd=CUDA0"), []);
    assert_eq!(copies("-ot token_embd=CPU"), []);
}

#[test]
fn factors_of_positions_are_wherever_blocks_are() {
    let mut model = models::small();
    model.tensor("rope_freqs.weight", &[32], crate::writer::F32);
    let structure = model.structure();
    let placement = place(&structure, &parse(2, "-ngl 2 -ts 1,1"));
    assert_eq!(placement.slots, [Location::Host, on(0), on(1)]);
    assert_eq!(of(&structure, &placement, "rope_freqs.weight"), Some(Location::Host));
    assert_eq!(placement.copies, [(structure.tensors.len() - 1, on(0))]);
}

/// Blocks that predict take slots at the end, which moves the boundary between devices, and have no tensors in memory.
#[test]
fn blocks_that_predict_take_slots_without_tensors() {
    let mut model = models::small();
    model.key("nextn_predict_layers", 1u32);
    let structure = model.structure();
    assert!(structure.layers[1].is_prediction);
    let placement = place(&structure, &parse(3, "-ts 1,1,1"));
    assert_eq!(placement.slots, [on(0), on(1), on(2)]);
    assert_eq!(of(&structure, &placement, "blk.0.attn_q.weight"), Some(on(0)));
    assert_eq!(of(&structure, &placement, "blk.1.attn_q.weight"), None);
    assert_eq!(place(&structure, &parse(3, "-ot blk=CPU")).tensors[placement.tensors.len() - 1], None);
    // So do those that a file counts and lacks.
    model.tensors.retain(|tensor| !tensor.name.starts_with("blk.1."));
    let structure = model.structure();
    assert_eq!((structure.layers.len(), slot_count(&structure)), (1, 3));
    assert_eq!(place(&structure, &parse(3, "-ts 1,1,1")).slots, [on(0), on(2)]);
    assert_eq!(place(&structure, &parse(1, "-ngl 2")).slots, [Location::Host, on(0)]);
}

#[test]
fn the_first_override_of_the_line_decides() {
    let structure = experts();
    let up = |line: &str| of(&structure, &place(&structure, &parse(2, line)), "blk.3.ffn_up_exps.weight");
    assert_eq!(up("-ts 1,0"), Some(on(0)));
    assert_eq!(up("-ts 1,0 -ot exps=CUDA1"), Some(on(1)));
    assert_eq!(up("-ts 1,0 -ot exps=CUDA1 -ncmoe 8"), Some(on(1)));
    assert_eq!(up("-ts 1,0 -ncmoe 8 -ot exps=CUDA1"), Some(Location::Host));
    assert_eq!(up("-ts 1,0 -ot 'exps=CUDA1,up=CPU'"), Some(on(1)));
    assert_eq!(up("-ts 1,0 -ot 'up=CPU,exps=CUDA1'"), Some(Location::Host));
    // A pattern is searched for, not compared, and dots match anything.
    assert_eq!(up("-ts 1,0 -ot lk.3.ffn_u=CUDA1"), Some(on(1)));
    assert_eq!(up("-ts 1,0 -ot '^ffn=CUDA1'"), Some(on(0)));
    assert_eq!(up("-ts 1,0 -ot 'blk\\.[4-7]\\.=CUDA1'"), Some(on(0)));
}

#[test]
fn experts_of_the_first_blocks_go_to_the_host_and_nothing_else_of_them() {
    let structure = experts();
    let placement = place(&structure, &parse(1, "-ncmoe 3"));
    for (tensor, location) in structure.tensors.iter().zip(&placement.tensors) {
        let is_moved = tensor.role.is_expert() && tensor.layer.is_some_and(|layer| layer < 3);
        let stays = tensor.name == "token_embd.weight";
        assert_eq!(*location == Some(Location::Host), is_moved || stays, "{}", tensor.name);
    }
    let all = place(&structure, &parse(1, "-cmoe"));
    assert_eq!(all, place(&structure, &parse(1, "-ncmoe 99")));
    assert_eq!(all.slots, placement.slots, "overrides move no slot");
}
