//! Transfers between partial repositories that store different parts of one history.

use super::*;
use dmv_core::reach::{Detail, Filter, Reach, ReachedObject};
use dmv_core::subset::{Subset, Union};

/// A repository of the world: its objects, its slice, and the branches it works on.
struct Part {
    objects: MemObjects,
    filter: Filter,
    /// The depth of its first transfer, in commits back from the tips; 0: everything.
    depth: u32,
    refs: BTreeMap<String, (ObjectId, Files)>,
}

/// All repositories. The first one is full.
struct World {
    seed: u64,
    dice: Rng,
    /// All objects that were ever made.
    all: MemObjects,
    parts: Vec<Part>,
    commits: u64,
}

fn subset(dirs: impl IntoIterator<Item = u64>) -> Subset {
    let patterns: Vec<String> = dirs.into_iter().map(|dir| format!("{dir:05}")).collect();
    Subset::new(patterns.iter().map(|p| p.as_bytes())).expect("sound patterns")
}

const DIRS: u64 = 6;

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Rng::new(seed | 1);
        let mut parts = Vec::new();
        for n in 0..2 + dice.below(4) {
            let mut filter = Filter::default();
            let mut depth = 0;
            if n > 0 {
                let mut some = || subset((0..DIRS).filter(|_| dice.below(3) == 0));
                filter.paths = match n % 2 {
                    0 => Union::of([some()]),
                    _ => Union::of([some(), some()]),
                };
                filter.metadata_only = dice.below(4) == 0;
                depth = dice.below(3) as u32;
            }
            parts.push(Part {
                objects: MemObjects::new(),
                filter,
                depth,
                refs: BTreeMap::new(),
            });
        }
        World {
            seed,
            dice,
            all: MemObjects::new(),
            parts,
            commits: 0,
        }
    }

    /// Commits a change of `me` within its part. The new objects, chunks included, are stored in
    /// `me`.
    fn commit(&mut self, me: usize) -> Outcome {
        let name = format!("b{me}");
        let part = &mut self.parts[me];
        let start = part.refs.get(&name).or(part.refs.values().next()).cloned();
        let (parents, mut files) = match start {
            Some((id, files)) => (vec![id], files),
            None if me == 0 => (Vec::new(), Files::new()),
            None => return Ok(()),
        };
        let changes = self.dice.below(20) + if parents.is_empty() { 200 } else { 1 };
        for _ in 0..changes {
            let at = (self.dice.below(DIRS), self.dice.below(300));
            let path = format!("{:05}/{:08}", at.0, at.1);
            if part.filter.paths.includes(path.as_bytes(), false) {
                files.insert(at, self.dice.below(90));
            }
        }
        self.commits += 1;
        let message = format!("{name} {}", self.commits);
        let id = put_commit(&self.all, &parents, &files, &message)?;
        let made = Filter {
            metadata_only: false,
            ..part.filter.clone()
        };
        let mut reach = Reach::filtered([id], parents, Detail::All, made);
        while let Some(ReachedObject { ty, id, .. }) = reach.next(&self.all)? {
            part.objects.insert(ty, &self.all.require(ty, &id)?);
        }
        part.refs.insert(name, (id, files));
        Ok(())
    }

    /// Transfers to `to` what `from` has, unless `from` lacks something that `to` needs. Returns
    /// whether the transfer was complete.
    fn exchange(&mut self, from: usize, to: usize, trouble: Trouble) -> Result<bool, SyncError> {
        self.exchange_some(from, to, trouble, |_| true)
    }

    /// Does the same for the branches whose names `offers` accepts.
    fn exchange_some(
        &mut self,
        from: usize,
        to: usize,
        trouble: Trouble,
        offers: impl Fn(&str) -> bool,
    ) -> Result<bool, SyncError> {
        let own = format!("b{to}");
        let newer: Vec<_> = (self.parts[from].refs.iter())
            .filter(|(name, _)| **name != own && offers(name))
            .filter(|(name, (id, _))| {
                let ours = self.parts[to].refs.get(*name);
                ours.is_none_or(|(ours, _)| ours != id)
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if newer.is_empty() {
            return Ok(true);
        }
        let part = &self.parts[to];
        let tips: Vec<ObjectId> = newer.iter().map(|(_, (id, _))| *id).collect();
        let complete: Vec<ObjectId> = part.refs.values().map(|(id, _)| *id).collect();
        let filter = Filter {
            depth: if complete.is_empty() { part.depth } else { 0 },
            ..part.filter.clone()
        };
        let goal = Goal {
            tips: tips.clone(),
            complete: complete.clone(),
            empty: part.objects.is_empty(),
            filter: filter.clone(),
        };
        let (give, take) = (&self.parts[from].objects, &part.objects);
        let run = match transfer(give, take, goal, trouble, &mut self.dice) {
            Ok(run) => run,
            Err(SyncError::Absent { id, ty, .. }) => {
                assert!(!give.holds(ty, &id)?, "seed {}: it has it", self.seed);
                assert_ne!(from, 0, "seed {}: the whole one has everything", self.seed);
                return Ok(false);
            }
            Err(e) => return Err(e),
        };
        if run.done {
            // Where history ends depends on what the receiver has after the transfer.
            let mut reach = Reach::filtered(tips, complete, Detail::All, filter);
            while let Some(found) = reach.next(take)? {
                assert!(found.here, "seed {}: {found:?}", self.seed);
            }
            let ends = reach.boundary();
            self.parts[to].filter.shallow.extend(ends);
            self.parts[to].refs.extend(newer);
            self.check(to)?;
        }
        Ok(run.done)
    }

    /// Checks that a repository stores everything in its slice.
    fn check(&self, n: usize) -> Outcome {
        let part = &self.parts[n];
        let mut seen = BTreeSet::new();
        let mut stack: Vec<ObjectId> = part.refs.values().map(|(id, _)| *id).collect();
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            let commit = dmv_core::history::load_commit(&part.objects, &id)?;
            let one = Filter {
                depth: 1,
                shallow: BTreeSet::new(),
                ..part.filter.clone()
            };
            let mut reach = Reach::filtered([id], [], Detail::All, one);
            while let Some(found) = reach.next(&self.all)? {
                let (ty, id) = (found.ty, found.id);
                assert!(
                    part.objects.holds(ty, &id)?,
                    "seed {}: {found:?}",
                    self.seed
                );
            }
            if !part.filter.shallow.contains(&id) {
                stack.extend(commit.parents);
            }
        }
        Ok(())
    }
}

fn simulate(seed: u64) -> Outcome {
    let mut world = World::new(seed);
    let n = world.parts.len() as u64;
    for _ in 0..3 {
        world.commit(0)?;
    }
    for _ in 0..40 {
        let me = world.dice.below(n) as usize;
        if world.dice.below(3) == 0 {
            world.commit(me)?;
            continue;
        }
        let other = world.dice.below(n) as usize;
        if other != me {
            let trouble = Trouble {
                cut_after: [0, world.dice.below(400) + 1][world.dice.below(2) as usize],
                crash: world.dice.below(2) == 0,
                lacks_bases: world.dice.below(3) == 0,
            };
            world.exchange(other, me, trouble)?;
        }
    }
    // Then, without cuts, the full repository gets each part's branch from that part: no part
    // changes files that it does not store. The full repository must first have the branch from
    // which the part's branch started, hence the rounds. After that each part gets everything from
    // the full repository.
    let n = world.parts.len();
    for round in 1..=n {
        for part in 1..n {
            let own = format!("b{part}");
            let none = Trouble::default();
            let done = world.exchange_some(part, 0, none, |name| name == own)?;
            assert!(done || round < n, "seed {seed}");
        }
    }
    for part in 1..n {
        assert!(world.exchange(0, part, Trouble::default())?, "seed {seed}");
        world.check(part)?;
        assert_eq!(world.parts[part].refs.len(), world.parts[0].refs.len());
    }
    let tips: Vec<ObjectId> = world.parts[0].refs.values().map(|(id, _)| *id).collect();
    closure(&world.parts[0].objects, &tips).map(drop)?;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(dmv_random::cases(4)))]

    #[test]
    fn parts_of_one_history_work_together(seed in 1u64..) {
        simulate(seed).expect("nobody breaks the protocol");
    }
}

/// A slice with a hundredth of a large repository needs little more than a hundredth of the objects
/// and reads.
#[test]
fn a_slice_moves_what_it_holds_and_reads_no_more() -> Outcome {
    let theirs = MemObjects::new();
    let mut files = Files::new();
    for n in 0..20_000 {
        files.insert((n / 100, n), n % 2 + 1);
    }
    let mut tip = Vec::new();
    for n in 0..3 {
        files.insert((n * 50, n * 50 * 100), 7);
        tip = vec![put_commit(&theirs, &tip, &files, "state")?];
    }
    let ours = MemObjects::new();
    let filter = Filter {
        paths: Union::of([subset([50, 51])]),
        ..Filter::default()
    };
    let goal = Goal {
        filter,
        ..goal(&tip, &[], &ours)
    };
    theirs.reset_reads();
    let mut dice = Rng::new(5);
    let run = transfer(&theirs, &ours, goal, Trouble::default(), &mut dice)?;
    assert!(run.done && run.round_trips == 1, "{run:?}");
    // Two directories of a hundred files, one of them in two states, and three roots of two nodes
    // each.
    assert!(run.objects < 240, "{run:?}");
    // Metadata is walked twice: once for itself, once for the chunks.
    assert!(
        theirs.reads() < 6 * run.objects as u64,
        "{} reads",
        theirs.reads()
    );
    Ok(())
}

/// A peer that diverged before the boundary sends its new commits, not all of the old ones.
#[test]
fn a_boundary_is_no_common_ground() -> Outcome {
    let (theirs, ours) = (MemObjects::new(), MemObjects::new());
    let mut tips = Vec::new();
    let mut files = Files::new();
    for n in 0..50 {
        files.insert((0, n), n + 1);
        let parents: Vec<ObjectId> = tips.last().copied().into_iter().collect();
        tips.push(put_commit(&theirs, &parents, &files, &n.to_string())?);
    }
    let mut dice = Rng::new(9);
    let none = Trouble::default();
    let limited = |depth| Filter {
        depth,
        ..Filter::default()
    };
    let first = Goal {
        filter: limited(3),
        ..goal(&tips[49..], &[], &ours)
    };
    assert!(transfer(&theirs, &ours, first, none, &mut dice)?.done);
    assert!(
        ours.holds(ObjectType::Commit, &tips[47])? && !ours.holds(ObjectType::Commit, &tips[46])?
    );
    let side = put_commit(&theirs, &tips[40..41], &files, "side")?;
    let with_boundary = |shallow: &[ObjectId]| Goal {
        filter: Filter {
            since: Some(1),
            shallow: shallow.iter().copied().collect(),
            ..Filter::default()
        },
        ..goal(&[side], &tips[49..], &ours)
    };
    // All commits have the same time, so history ends at the new one at once.
    let run = transfer(
        &theirs,
        &ours,
        with_boundary(&tips[47..48]),
        none,
        &mut dice,
    )?;
    assert!(run.done && run.round_trips <= 2, "{run:?}");
    assert!(!ours.holds(ObjectType::Commit, &tips[40])?);
    // A fetch back to the beginning of history gets all commits between in one go, since the sender
    // knows what the receiver lacks.
    let back = Goal {
        filter: Filter {
            shallow: tips[47..48].iter().copied().collect(),
            ..Filter::default()
        },
        ..goal(&[side], &tips[49..], &ours)
    };
    let run = transfer(&theirs, &ours, back, none, &mut dice)?;
    assert!(run.done && run.round_trips <= 3, "{run:?}");
    closure(&ours, &[side])?;
    Ok(())
}
