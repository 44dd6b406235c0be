//! Rows of servers and packing against brute force.

use stagewright_core::document::ServingRole;

use super::super::program::{powers, room, slots};
use super::super::servers::pack;
use super::super::space::Size;
use super::Random;
use crate::device::Device;
use crate::fleet::FleetKind;

/// Whether groups of descending sizes fit into servers with free devices.
fn fits(free: &mut Vec<u64>, server: u64, groups: &[u64]) -> bool {
    let Some((&devices, rest)) = groups.split_first() else { return true };
    if devices > server {
        let empty: Vec<usize> = (0..free.len()).filter(|&index| free[index] == server).collect();
        let needed = (devices / server) as usize;
        if empty.len() < needed {
            return false;
        }
        empty[..needed].iter().for_each(|&index| free[index] = 0);
        let found = fits(free, server, rest);
        empty[..needed].iter().for_each(|&index| free[index] = server);
        return found;
    }
    (0..free.len()).any(|index| {
        free[index] >= devices && {
            free[index] -= devices;
            let found = fits(free, server, rest);
            free[index] += devices;
            found
        }
    })
}

#[test]
fn rows_of_servers_hold_exactly_if_brute_force_packs_the_groups() {
    let mut random = Random(11);
    let (mut packed, cases) = (0, 3000);
    for _ in 0..cases {
        let server = random.range(2, 10);
        let count = random.range(server + 1, 3 * server + 1);
        let device = Device { server, ..Device::named("", "h100").unwrap() };
        let kind = FleetKind { name: "kind".into(), device, count };
        let mut groups = Vec::new();
        let mut free = count;
        for _ in 0..random.range(1, 9) {
            let devices: u64 = 1 << random.range(0, 4);
            if free >= devices && (devices <= server || devices.is_multiple_of(server)) {
                groups.push(devices);
                free -= devices;
            }
        }
        groups.sort_unstable();
        let own = groups.iter().map(|&devices| (0, devices, 1)).collect();
        let (role, columns) = (ServingRole::Decode, Vec::new());
        let size = Size { role, class: 0, groups: own, kept: None, most: 1, columns };
        let holds = powers(&kind).iter().all(|&power| slots(&kind, 0, &size, power) <= room(&kind, power));
        let mut servers = vec![server; (count / server) as usize];
        servers.push(count % server);
        groups.reverse();
        let found = fits(&mut servers, server, &groups);
        let pairs: Vec<(u64, u64)> = groups.iter().map(|&devices| (devices, 1)).collect();
        assert_eq!(holds, found, "{groups:?} on {count} devices in servers of {server}");
        assert_eq!(pack(count, server, &pairs), found, "{groups:?} on {count} in servers of {server}");
        packed += usize::from(found);
    }
    assert!(packed > cases / 4 && packed < cases - 100, "{packed} of {cases} fit");
}
