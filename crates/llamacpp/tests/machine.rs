//! Machines from built-in clusters and from clusters of users.

use stagewright_core::document::{ClassDocument, ClusterDocument, devices};
use stagewright_formats::clusters::{self, Role};
use stagewright_llamacpp::{Class, Location, Machine, SYSTEM_BYTES, Setting, memory, place};

use crate::fixture::{GIB, dense};

fn machine(cluster: &str) -> (Machine, Vec<String>) {
    let cluster = clusters::find(cluster).unwrap_or_else(|error| panic!("{cluster}: {error}"));
    Machine::of("--cluster", &cluster).unwrap_or_else(|error| panic!("{error}"))
}

fn error(cluster: &ClusterDocument) -> String {
    Machine::of("--cluster", cluster).expect_err("no machine").to_string()
}

#[test]
fn cards_and_a_processor_of_a_shorthand() {
    let (machine, notes) = machine("1xrtx-3090+2xrtx-3060:12GiB+1xryzen-7950x:64GiB");
    let figures =
        machine.devices.iter().map(|device| (device.name.as_str(), device.memory, device.bandwidth / 1e9));
    let expected = [("CUDA0", 24576 << 20, 936.0), ("CUDA1", 12 * GIB, 360.0), ("CUDA2", 12 * GIB, 360.0)];
    assert_eq!(figures.collect::<Vec<_>>(), expected);
    assert!(machine.devices.iter().all(|device| device.class == Class::Cuda && !device.shares_ram));
    assert_eq!((machine.devices[0].peak, machine.devices[1].peak), (71e12, 25.475e12));
    assert_eq!((machine.devices[0].vector_peak, machine.devices[1].vector_peak), (35.6e12, 12.74e12));
    assert_eq!((machine.host.memory, machine.host.bandwidth), (64 * GIB - SYSTEM_BYTES, 83.2e9));
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn backends_have_numbers_of_their_own_and_sockets_add_up() {
    let (machine, notes) = machine("1xrx-7900-xtx+2xp40+2xxeon-6248:96GiB");
    let names: Vec<_> = machine.devices.iter().map(|device| (device.name.as_str(), device.class)).collect();
    assert_eq!(names, [("ROCm0", Class::Rocm), ("CUDA0", Class::Pascal), ("CUDA1", Class::Pascal)]);
    assert_eq!((machine.host.memory, machine.host.bandwidth), (190 * GIB, 281.568e9));
    assert!(notes.iter().any(|note| note.contains("both backends")), "{notes:?}");
    assert_eq!(machine.devices[1].peak, 11.76e12, "single precision, as it has no fast half precision");
}

/// Servers are numbered together, and each numbers its own devices.
#[test]
fn servers_are_kinds_with_an_address() {
    let mut cluster = clusters::find("1xrtx-3090+2xrtx-3060:12GiB+1xryzen-7950x:64GiB").expect("a cluster");
    let (first, second) = ("rpc://127.0.0.1:50052", "rpc://node-2.local:50053");
    (cluster.kinds[0].name, cluster.kinds[1].name) = (first.into(), second.into());
    let (machine, notes) = Machine::of("--cluster", &cluster).expect("a machine");
    let names = machine.devices.iter().map(|device| (device.name.as_str(), device.buffer.as_str()));
    let expected = [
        ("RPC0", "RPC0[127.0.0.1:50052]"),
        ("RPC1", "RPC0[node-2.local:50053]"),
        ("RPC2", "RPC1[node-2.local:50053]"),
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    assert!(notes.len() == 1 && notes[0].contains("the network is not part of times"), "{notes:?}");
    for name in ["rpc://", "rpc://host", "rpc://host:port", "rpc://a,b:50052", "rpc://a[0]:50052"] {
        cluster.kinds[0].name = name.into();
        assert!(error(&cluster).contains("is no address of a server"), "{name}");
    }
}

/// Cards for work have twice the 16-bit peak of cards for games, for the same integers.
#[test]
fn a_quarter_of_the_integers_bounds_the_peak() {
    for (cluster, peak) in [("1xrtx-a6000+1xepyc-7742:256GiB", 77.425e12), ("1xgb10", 62.5e12)] {
        assert_eq!(machine(cluster).0.devices[0].peak, peak, "{cluster}");
    }
}

#[test]
fn a_precision_in_the_name_of_a_class_changes_no_class() {
    let (machine, _) = machine("1xa100:fp32+1xepyc-7742:256GiB");
    assert_eq!((machine.devices[0].class, machine.devices[0].bandwidth), (Class::Hbm, 2039e9));
}

/// A chip of Apple has one memory: what fits the device and the host each alone must fit RAM together.
#[test]
fn shared_memory_holds_device_and_host_together() {
    for chip in ["gb10", "strix-halo", "jetson-agx-orin"] {
        assert!(machine(&format!("1x{chip}")).0.devices[0].shares_ram, "{chip}");
    }
    let (machine, notes) = machine("1xapple-m2-ultra");
    assert_eq!((machine.devices[0].name.as_str(), notes.len()), ("MTL0", 0));
    assert!(machine.devices[0].shares_ram && machine.host.memory == machine.devices[0].memory);
    let structure = dense();
    let mut setting = Setting::new(machine.devices);
    setting.context = Some(4096);
    let placement = place(&structure, &setting);
    let needed = memory::Memory::of("m", &structure, &setting, &placement).expect("bytes");
    let [on_device, on_host] = [needed.devices.iter().next().expect("a device").total(), needed.host.total()];
    let mut host = machine.host;
    host.memory = on_device + on_host + memory::MARGIN;
    assert_eq!(needed.shortfalls(&setting, host), []);
    host.memory -= 1;
    assert_eq!(needed.shortfalls(&setting, host), [(Location::Host, 1)]);
    for device in setting.devices.iter_mut() {
        device.shares_ram = false;
    }
    assert_eq!(needed.shortfalls(&setting, host), []);
}

#[test]
fn reserves_are_left_free() {
    let mut cluster = clusters::find("1xrtx-4090+1xryzen-7950x:64GiB").expect("a cluster");
    cluster.kinds[0].reserve_bytes = Some(GIB as f64);
    cluster.kinds[1].reserve_bytes = Some(8.0 * GIB as f64);
    let (machine, _) = Machine::of("--cluster", &cluster).expect("a machine");
    assert_eq!((machine.devices[0].memory, machine.host.memory), ((24564 << 20) - GIB, 56 * GIB));
}

#[test]
fn missing_figures_are_named() {
    let find = |text: &str| clusters::find(text).expect("a cluster");
    assert!(error(&find("2xrtx-3090")).contains("no processor"));
    assert!(error(&find("1xrtx-3090+1xryzen-7950x")).contains("kinds[1].memory_bytes"));
    assert!(error(&find("jetson-pair")).contains("several machines"));
    assert!(error(&find("1xtpu-v4+1xryzen-7950x:64GiB")).contains("not known"));
    assert!(error(&find("two-dgx-h100-ndr")).contains("kinds[1].group"));
    assert!(error(&find("16xh100+1xepyc-7742:64GiB")).contains("servers of 8"));
    let mut cluster = find("1xryzen-7950x:64GiB");
    cluster.kinds[0].host = false;
    assert!(error(&cluster).contains("`host = true`"));
}

#[test]
fn a_class_of_a_user_counts_as_cuda_if_it_has_a_bandwidth() {
    let mut cluster = clusters::find("1xryzen-7950x:64GiB").expect("a cluster");
    cluster.kinds.push(devices("card", 1).memory(8e9));
    assert!(error(&cluster).contains("classes.card.memory_bandwidth"));
    let class = ClassDocument { memory_bandwidth: Some(300e9), ..ClassDocument::default() };
    cluster.classes.insert("card".into(), class);
    let (machine, notes) = Machine::of("--cluster", &cluster).expect("a machine");
    assert_eq!((machine.devices[0].class, machine.devices[0].rates.products), (Class::Cuda, None));
    assert!(notes[0].contains("no built-in device") && notes[1].contains("no peak"), "{notes:?}");
}

/// Every built-in device is a device, a processor, or refused by name.
#[test]
fn built_in_devices_have_classes() {
    let refused = ["arc-", "gaudi-", "tpu-", "edge-tpu"];
    for known in clusters::devices().iter().filter(|device| device.role != Role::Cpu) {
        let cluster = clusters::find(&format!("1x{}+1xepyc-7742:64GiB", known.name)).expect("a cluster");
        let is_refused = refused.iter().any(|name| known.name.starts_with(name));
        assert_eq!(Machine::of("", &cluster).is_err(), is_refused, "{}", known.name);
    }
    let class = |name: &str| machine(&format!("1x{name}+1xepyc-7742:64GiB")).0.devices[0].class;
    let classes =
        ["l40s", "h20", "l20", "gh200", "mi300x", "rtx-pro-6000", "p100", "apple-m1", "t4"].map(class);
    let [l40s, h20, gb10, gh200, mi300x, pro, p100, m1, t4] = classes;
    assert_eq!([l40s, gb10, pro, t4], [Class::Cuda; 4]);
    assert_eq!([h20, gh200], [Class::Hbm; 2]);
    assert_eq!([mi300x, p100, m1], [Class::Rocm, Class::Pascal, Class::Metal]);
}
