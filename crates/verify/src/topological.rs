//! Topological order of a directed graph, or a cycle if there is none (Kahn, 1962), and longest paths along
//! it.

/// Heads of the arcs out of each node, in the order of the arcs.
struct Heads {
    first: Vec<usize>,
    heads: Vec<usize>,
}

impl Heads {
    fn new(nodes: usize, arcs: &[(usize, usize)]) -> Heads {
        let mut first = vec![0usize; nodes + 1];
        for &(from, _) in arcs {
            first[from + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let mut next = first.clone();
        let mut heads = vec![0usize; arcs.len()];
        for &(from, to) in arcs {
            heads[next[from]] = to;
            next[from] += 1;
        }
        Heads { first, heads }
    }

    fn of(&self, node: usize) -> &[usize] {
        &self.heads[self.first[node]..self.first[node + 1]]
    }
}

/// Orders `0..nodes` so that every arc goes forward.
///
/// Returns the order, or the nodes of one cycle in the direction of its arcs. Arcs may repeat; an arc from a
/// node to itself is a cycle. O(nodes + arcs).
pub(crate) fn sort(nodes: usize, arcs: &[(usize, usize)]) -> Result<Vec<usize>, Vec<usize>> {
    let heads = Heads::new(nodes, arcs);
    let mut waiting = vec![0usize; nodes];
    for &(_, to) in arcs {
        waiting[to] += 1;
    }
    let mut order: Vec<usize> = (0..nodes).filter(|&node| waiting[node] == 0).collect();
    let mut done = 0;
    while done < order.len() {
        let node = order[done];
        done += 1;
        for &head in heads.of(node) {
            waiting[head] -= 1;
            if waiting[head] == 0 {
                order.push(head);
            }
        }
    }
    if order.len() == nodes { Ok(order) } else { Err(cycle(arcs, &waiting)) }
}

/// Length in seconds of the longest path that ends with each node, its own seconds included. `order` is a
/// topological order of all nodes; the seconds are not negative. O(nodes + arcs).
pub(crate) fn longest(order: &[usize], arcs: &[(usize, usize)], seconds: &[f64]) -> Vec<f64> {
    let heads = Heads::new(seconds.len(), arcs);
    let mut ends = vec![0.0f64; seconds.len()];
    for &node in order {
        // So far `ends[node]` is the longest path that ends before the node.
        ends[node] += seconds[node];
        for &head in heads.of(node) {
            ends[head] = ends[head].max(ends[node]);
        }
    }
    ends
}

/// Returns a cycle among the waiting nodes. Each of them has a waiting predecessor, so a walk from
/// predecessor to predecessor returns to a visited node.
fn cycle(arcs: &[(usize, usize)], waiting: &[usize]) -> Vec<usize> {
    let mut before = vec![None; waiting.len()];
    for &(from, to) in arcs {
        if waiting[from] > 0 && waiting[to] > 0 {
            before[to] = Some(from);
        }
    }
    let mut seen = vec![None; waiting.len()];
    let mut walk = Vec::new();
    let mut node = waiting.iter().position(|&count| count > 0);
    while let Some(here) = node {
        if let Some(start) = seen[here] {
            walk.drain(..start);
            break;
        }
        seen[here] = Some(walk.len());
        walk.push(here);
        node = before[here];
    }
    walk.reverse();
    walk
}

#[cfg(test)]
mod tests {
    use super::{longest, sort};

    #[test]
    fn arcs_go_forward() {
        assert_eq!(sort(4, &[(3, 1), (1, 0), (3, 0), (3, 0), (0, 2)]), Ok(vec![3, 1, 0, 2]));
        assert_eq!(sort(0, &[]), Ok(vec![]));
    }

    #[test]
    fn a_cycle_is_named_in_the_direction_of_its_arcs() {
        // 0 → 1 → 2 → 3 → 1, and 3 → 4: only 1, 2, 3 are on a cycle.
        let mut found = sort(5, &[(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)]).unwrap_err();
        let smallest = found.iter().position(|&node| node == 1).unwrap();
        found.rotate_left(smallest);
        assert_eq!(found, vec![1, 2, 3]);
        assert_eq!(sort(1, &[(0, 0)]), Err(vec![0]));
    }

    #[test]
    fn the_longest_path_counts_its_last_node() {
        // 3 → 1 → 0 → 2 and 3 → 0: 0 waits for 1 until 3 + 1, and ends at 3 + 1 + 5.
        let arcs = [(3, 1), (1, 0), (3, 0), (3, 0), (0, 2)];
        assert_eq!(longest(&[3, 1, 0, 2], &arcs, &[5.0, 1.0, 0.5, 3.0]), vec![9.0, 4.0, 9.5, 3.0]);
        assert_eq!(longest(&[], &[], &[]), Vec::<f64>::new());
    }
}
