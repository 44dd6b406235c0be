//! Groups on servers, largest first.

use std::collections::BTreeMap;

use crate::fleet::{Fleet, FleetKind};

/// Kinds, by number, whose groups find no servers. `groups` are kinds, devices of a group, and numbers of groups.
///
/// Takes time proportional to the product of the sizes of groups and their number, however many groups are equal.
pub(super) fn crowded(fleet: &Fleet, groups: &[(u32, u64, u64)]) -> Vec<usize> {
    let is_crowded = |(index, kind): &(usize, &FleetKind)| {
        let own = groups.iter().filter(|group| group.0 as usize == *index);
        !kind.is_one_server()
            && !pack(kind.count, kind.device.server, &own.map(|group| (group.1, group.2)).collect::<Vec<_>>())
    };
    fleet.kinds.iter().enumerate().filter(is_crowded).map(|(index, _)| index).collect()
}

/// Whether groups, given as devices and numbers, fit on `count` devices in servers of `server`, where the last server may have
/// fewer. Groups of more than a server take whole ones.
pub(super) fn pack(count: u64, server: u64, groups: &[(u64, u64)]) -> bool {
    let server = server.max(1);
    // Servers by their free devices.
    let mut free = BTreeMap::from([(count % server, 1)]);
    *free.entry(server).or_insert(0) += count / server;
    let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
    for &(devices, number) in groups {
        let known = numbers.entry(devices).or_insert(0);
        *known = known.saturating_add(number);
    }
    numbers.iter().rev().all(|(&devices, &number)| place(&mut free, server, devices, number))
}

/// Puts equal groups on the fullest servers with room; whether all find one.
fn place(free: &mut BTreeMap<u64, u64>, server: u64, devices: u64, mut number: u64) -> bool {
    if devices == 0 {
        return true;
    }
    if devices > server {
        let needed = devices.div_ceil(server).saturating_mul(number);
        let empty = free.get_mut(&server).filter(|servers| **servers >= needed);
        return empty.map(|servers| *servers -= needed).is_some();
    }
    let rooms: Vec<(u64, u64)> = free.range(devices..).map(|(&room, &servers)| (room, servers)).collect();
    for (room, servers) in rooms {
        let each = room / devices;
        let full = servers.min(number / each);
        number -= full * each;
        // If servers remain, the rest of the groups fits on one of them.
        let last = if full < servers { number } else { 0 };
        number -= last;
        let touched = full + u64::from(last > 0);
        free.entry(room).and_modify(|servers| *servers -= touched);
        *free.entry(room - each * devices).or_insert(0) += full;
        if last > 0 {
            *free.entry(room - last * devices).or_insert(0) += 1;
        }
    }
    number == 0
}
