//! The order in which rules run: each after those whose facts it reads.

use super::machine::Rule;

/// Rules that run together.
#[derive(Debug)]
pub struct Stratum {
    /// By number.
    pub rules: Vec<usize>,
    /// Whether they read their own facts, so that they run until nothing is new.
    pub recursive: bool,
    /// The relations that their bodies read.
    pub reads: Vec<usize>,
    /// The relations that their heads write.
    pub writes: Vec<usize>,
}

/// Groups rules by the strongly connected components of what reads what (Tarjan's algorithm, which gives
/// them in the order in which they can run).
pub fn stratify(rules: &[Rule], relations: usize) -> Vec<Stratum> {
    let mut reads: Vec<Vec<usize>> = vec![Vec::new(); relations];
    for rule in rules {
        if let Some(list) = reads.get_mut(rule.head) {
            list.extend(rule.body.rels.iter().copied());
        }
    }
    let mut of_head: Vec<Vec<usize>> = vec![Vec::new(); relations];
    for (index, rule) in rules.iter().enumerate() {
        if let Some(list) = of_head.get_mut(rule.head) {
            list.push(index);
        }
    }
    let group = |component: Vec<usize>| {
        let mut members: Vec<usize> = component.iter().filter_map(|rel| of_head.get(*rel)).flatten().copied().collect();
        members.sort_unstable();
        let bodies = || members.iter().filter_map(|index| rules.get(*index)).flat_map(|rule| rule.body.rels.iter());
        let recursive = bodies().any(|rel| component.contains(rel));
        let mut reads: Vec<usize> = bodies().copied().collect();
        reads.sort_unstable();
        reads.dedup();
        (!members.is_empty()).then_some(Stratum { rules: members, recursive, reads, writes: component })
    };
    components(&reads).into_iter().filter_map(group).collect()
}

/// Strongly connected components, dependencies first. With a stack of its own: a token may chain
/// hundreds of rules.
fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let count = edges.len();
    let mut index = vec![UNSEEN; count];
    let mut low = vec![0; count];
    let mut on_stack = vec![false; count];
    let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0);
    let get = |list: &[usize], node: usize| list.get(node).copied().unwrap_or(UNSEEN);
    let set = |list: &mut [usize], node: usize, value: usize| {
        if let Some(slot) = list.get_mut(node) {
            *slot = value;
        }
    };
    for root in 0..count {
        if get(&index, root) != UNSEEN {
            continue;
        }
        let mut work = vec![(root, 0)];
        while let Some((node, edge)) = work.pop() {
            if edge == 0 {
                set(&mut index, node, next);
                set(&mut low, node, next);
                next += 1;
                stack.push(node);
                if let Some(flag) = on_stack.get_mut(node) {
                    *flag = true;
                }
            }
            if let Some(&target) = edges.get(node).and_then(|list| list.get(edge)) {
                work.push((node, edge + 1));
                if get(&index, target) == UNSEEN {
                    work.push((target, 0));
                } else if on_stack.get(target).copied().unwrap_or(false) {
                    let lower = get(&low, node).min(get(&index, target));
                    set(&mut low, node, lower);
                }
                continue;
            }
            if get(&low, node) == get(&index, node) {
                let mut component = Vec::new();
                while let Some(member) = stack.pop() {
                    if let Some(flag) = on_stack.get_mut(member) {
                        *flag = false;
                    }
                    component.push(member);
                    if member == node {
                        break;
                    }
                }
                found.push(component);
            }
            if let Some(&(parent, _)) = work.last() {
                let lower = get(&low, parent).min(get(&low, node));
                set(&mut low, parent, lower);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_comes_first_and_cycles_stay_together() {
        // 0 reads 1, 1 reads 2 and 3, 2 reads 1, 4 reads nothing
        let found = components(&[vec![1], vec![2, 3], vec![1], vec![], vec![]]);
        let place = |node: usize| found.iter().position(|component| component.contains(&node)).unwrap();
        assert_eq!(place(1), place(2));
        assert!(place(3) < place(1) && place(1) < place(0));
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn a_long_chain_does_not_exhaust_the_stack() {
        let edges: Vec<Vec<usize>> = (0..200_000).map(|i| if i < 199_999 { vec![i + 1] } else { vec![] }).collect();
        assert_eq!(components(&edges).len(), 200_000);
    }
}
