//! What a device tells of an operation whose answers are lost, late or refused, in every order.
//!
//! The simulation knows the truth: [`World`] finds a hole if an operation is published after its writer
//! has heard that it was not, if it is published twice, or if a writer claims what is not.

use super::*;

/// What may become of a request to replace the root.
const FATES: [Option<Trouble>; 6] = [
    None,
    Some(Trouble::Lost),
    Some(Trouble::AnswerLost),
    Some(Trouble::Late),
    Some(Trouble::Refused),
    Some(Trouble::NotSent),
];

/// What may become of another request.
const OTHERS: [Option<Trouble>; 2] = [None, Some(Trouble::Lost)];

/// A world with one device at work, and the troubles that may still come.
#[derive(Clone)]
struct Case {
    world: World,
    actor: usize,
    troubles: u32,
    /// What has become of its requests, in order.
    story: Vec<Option<Trouble>>,
    /// Whether the device may be told to go on after an end without an answer.
    may_go_on: bool,
}

/// Counts of ends.
#[derive(Debug, Default)]
struct Ends {
    clear: u32,
    unknown: u32,
    resumed: u32,
}

/// Runs a device in all orders of troubles.
fn all_orders(case: Case, ends: &mut Ends) -> Result<(), Hole> {
    let mut open = vec![case];
    while let Some(case) = open.pop() {
        let at = |hole: Hole| format!("{:?}: {hole}", case.story);
        if case.world.actors[case.actor].is_idle() {
            ended(case.clone(), ends, &mut open).map_err(at)?;
            continue;
        }
        let fates: &[Option<Trouble>] = if case.world.is_publishing(case.actor) {
            &FATES
        } else {
            &OTHERS
        };
        for fate in fates {
            if fate.is_some() && case.troubles == 0 {
                continue;
            }
            let mut next = case.clone();
            next.story.push(*fate);
            next.troubles -= u32::from(fate.is_some());
            let told = |hole: Hole| format!("{:?} {fate:?}: {hole}", case.story);
            next.world.step(case.actor, *fate).map_err(told)?;
            // What is late comes at once, after the next request, or later.
            if !next.world.late.is_empty() {
                let mut arrived = next.clone();
                arrived.world.arrive(0).map_err(at)?;
                open.push(arrived);
            }
            open.push(next);
        }
    }
    Ok(())
}

/// Checks an end, and runs a push again that does not know how it ended.
fn ended(mut case: Case, ends: &mut Ends, open: &mut Vec<Case>) -> Result<(), Hole> {
    let is_unknown = case.world.actors[case.actor].open.is_some();
    if is_unknown && case.may_go_on {
        ends.resumed += 1;
        let mut next = case.clone();
        next.may_go_on = false;
        next.world.push_again(case.actor)?;
        open.push(next);
    }
    ends.clear += u32::from(!is_unknown);
    ends.unknown += u32::from(is_unknown);
    let was_unclear = case
        .story
        .iter()
        .flatten()
        .any(|trouble| matches!(trouble, Trouble::Lost | Trouble::AnswerLost | Trouble::Late));
    if is_unknown && !was_unclear {
        return Err("everything was answered, and the end is said to be unknown".to_owned());
    }
    while !case.world.late.is_empty() {
        case.world.arrive(0)?;
    }
    if case.world.times_landed(case.actor) > 1 {
        return Err("it was published twice".to_owned());
    }
    Ok(())
}

/// A push of a branch, one by force, the deletion of a branch, or an undo, all of which change refs.
fn pushes() -> [Change; 3] {
    [
        change("branch/b", None, Some(3)),
        change("branch/a", value(Some(1)), Some(4)),
        change("branch/a", value(Some(1)), None),
    ]
}

#[test]
fn a_push_tells_the_truth_whatever_becomes_of_its_requests() -> Result<(), Hole> {
    let mut ends = Ends::default();
    for limits in [LARGE, SMALL] {
        for change in pushes() {
            let mut world = small_world("", limits)?;
            world.push(1, vec![change], false)?;
            let case = Case {
                world,
                actor: 1,
                troubles: 4,
                story: Vec::new(),
                may_go_on: true,
            };
            all_orders(case, &mut ends)?;
        }
    }
    println!("{ends:?}");
    assert!(
        ends.clear > 500 && ends.unknown > 500 && ends.resumed > 100,
        "{ends:?}"
    );
    Ok(())
}

#[test]
fn gc_joins_and_purges_tell_the_truth_whatever_becomes_of_their_requests() -> Result<(), Hole> {
    let mut ends = Ends::default();
    for limits in [LARGE, SMALL] {
        for (cast, actor) in [("c", 2), ("j", 3), ("x", 2)] {
            let case = Case {
                world: small_world(cast, limits)?,
                actor,
                troubles: 3,
                story: Vec::new(),
                may_go_on: false,
            };
            all_orders(case, &mut ends)?;
        }
    }
    println!("{ends:?}");
    Ok(())
}

#[test]
fn a_push_beside_another_one_tells_the_truth_whatever_becomes_of_its_requests() -> Result<(), Hole>
{
    // The other one comes before each request in turn: then what was late is too late.
    let mut ends = Ends::default();
    for before in 0..8 {
        let mut world = small_world("", LARGE)?;
        world.push(1, vec![change("branch/b", None, Some(3))], false)?;
        let mut open = vec![(world, Vec::new(), 2_u32)];
        while let Some((mut world, story, troubles)) = open.pop() {
            if world.actors[1].is_idle() {
                let case = Case {
                    world,
                    actor: 1,
                    troubles: 0,
                    story,
                    may_go_on: true,
                };
                all_orders(case, &mut ends)?;
                continue;
            }
            if story.len() == before {
                world.push(0, vec![change("branch/c", None, Some(4))], false)?;
                finish(&mut world, 0)?;
            }
            let fates: &[Option<Trouble>] = if world.is_publishing(1) {
                &FATES
            } else {
                &OTHERS
            };
            for fate in fates.iter().filter(|fate| fate.is_none() || troubles > 0) {
                let (mut next, mut story) = (world.clone(), story.clone());
                let told = |hole: Hole| format!("{story:?} {fate:?}: {hole}");
                next.step(1, *fate).map_err(told)?;
                story.push(*fate);
                open.push((next, story, troubles - u32::from(fate.is_some())));
            }
        }
    }
    println!("{ends:?}");
    assert!(ends.clear > 100 && ends.unknown > 20, "{ends:?}");
    Ok(())
}
