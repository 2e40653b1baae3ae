//! Transfers of objects that are requested by id.

use super::*;
use dmv_core::object::list::Blob;
use dmv_core::object::root::Root;

/// Makes a repository of one commit with `n` files. Returns its objects, the files' contents and
/// its tree.
fn made(n: u64) -> Result<(MemObjects, Vec<Blob>, Root), SyncError> {
    let mem = MemObjects::new();
    let files: Files = (0..n).map(|n| ((n % 5, n), n * 37 + 39)).collect();
    let tip = put_commit(&mem, &[], &files, "one")?;
    let commit = dmv_core::history::load_commit(&mem, &tip)?;
    let root = Root::Directory {
        tree: commit.tree,
        bytes: commit.tree_bytes,
        files: commit.tree_files,
    };
    let mut blobs = Vec::new();
    for ((_, name), content) in &files {
        let entry = put_file(&mem, *name, *content)?;
        blobs.push(Blob {
            id: entry.id,
            is_list: entry.is_list,
            size: entry.size,
        });
    }
    Ok((mem, blobs, root))
}

fn below(mem: &MemObjects, ty: ObjectType, id: ObjectId) -> Result<Objects, SyncError> {
    let mut seen = Objects::new();
    let mut stack = vec![(ty, id)];
    while let Some((ty, id)) = stack.pop() {
        if seen.insert((ty, id)) {
            stack.extend(ty.links(&mem.require(ty, &id)?).expect("it decodes"));
        }
    }
    Ok(seen)
}

fn copy(from: &MemObjects, to: &MemObjects, objects: &Objects) -> Outcome {
    for (ty, id) in objects {
        to.insert(*ty, &from.require(*ty, id)?);
    }
    Ok(())
}

fn pick(
    from: &MemObjects,
    to: &MemObjects,
    roots: Vec<Root>,
    seed: u64,
) -> Result<(Run, Objects), SyncError> {
    let mut receiver = Receiver::picking(roots, to)?;
    let mut sender = Sender::new([]);
    let none = Trouble::default();
    let run = run(
        from,
        to,
        &mut sender,
        &mut receiver,
        none,
        &mut Rng::new(seed),
    )?;
    Ok((run, receiver.absent().collect()))
}

#[test]
fn files_come_with_all_their_chunks_in_a_round_trip_for_each_level() -> Outcome {
    let (theirs, blobs, _) = made(300)?;
    let ours = MemObjects::new();
    let roots: Vec<Root> = blobs.iter().copied().map(Root::Blob).collect();
    let (run, absent) = pick(&theirs, &ours, roots, 5)?;
    assert!(run.done && absent.is_empty());
    assert_eq!(run.round_trips, 3, "two levels of lists, then chunks");
    for blob in &blobs {
        assert_eq!(
            below(&theirs, blob.ty(), blob.id)?,
            below(&ours, blob.ty(), blob.id)?
        );
    }
    Ok(())
}

#[test]
fn a_directory_comes_with_all_under_it() -> Outcome {
    let (theirs, _, root) = made(300)?;
    let ours = MemObjects::new();
    let (run, absent) = pick(&theirs, &ours, vec![root], 9)?;
    assert!(run.done && absent.is_empty());
    let all = below(&theirs, ObjectType::Tree, root.id())?;
    assert_eq!(below(&ours, ObjectType::Tree, root.id())?, all);
    assert_eq!(run.objects, all.len(), "nothing came twice");
    Ok(())
}

#[test]
fn an_object_alone_comes_without_what_is_under_it() -> Outcome {
    let (theirs, _, root) = made(30)?;
    let ours = MemObjects::new();
    let alone = Root::Object(ObjectType::Tree, root.id());
    let (run, _) = pick(&theirs, &ours, vec![alone], 3)?;
    assert_eq!((run.objects, run.round_trips), (1, 1));
    Ok(())
}

#[test]
fn what_the_sender_lacks_is_named_and_the_rest_comes() -> Outcome {
    for seed in 1..40 {
        let mut dice = Rng::new(seed);
        let (all, blobs, _) = made(60)?;
        let (first, second, ours) = (MemObjects::new(), MemObjects::new(), MemObjects::new());
        // Each file is complete in one of the two repositories, or spread over both, or in neither.
        let mut nowhere = Objects::new();
        for blob in &blobs {
            let objects = below(&all, blob.ty(), blob.id)?;
            let chunks = || objects.iter().filter(|(ty, _)| *ty == ObjectType::Chunk);
            let lists = objects.iter().filter(|(ty, _)| *ty == ObjectType::List);
            let lists: Objects = lists.copied().collect();
            match dice.below(4) {
                0 => copy(&all, &first, &objects)?,
                1 => copy(&all, &second, &objects)?,
                2 => {
                    copy(&all, &first, &lists)?;
                    copy(&all, &second, &lists)?;
                    let (one, other) = chunks().partition(|_| dice.below(2) == 0);
                    copy(&all, &first, &one)?;
                    copy(&all, &second, &other)?;
                }
                _ => {
                    nowhere.insert((blob.ty(), blob.id));
                }
            }
        }
        let roots: Vec<Root> = blobs.iter().copied().map(Root::Blob).collect();
        let (run, _) = pick(&first, &ours, roots.clone(), seed)?;
        assert!(run.done, "seed {seed}");
        let (run, absent) = pick(&second, &ours, roots, seed)?;
        assert!(run.done, "seed {seed}");
        // Some of these files share chunks.
        nowhere.retain(|(ty, id)| !matches!(ours.holds(*ty, id), Ok(true)));
        assert_eq!(absent, nowhere, "seed {seed}");
        for blob in &blobs {
            let is_lost = nowhere.contains(&(blob.ty(), blob.id));
            assert_eq!(
                below(&ours, blob.ty(), blob.id).is_err(),
                is_lost,
                "seed {seed}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_sender_that_answers_before_it_begins_is_noticed() -> Outcome {
    let ours = MemObjects::new();
    let id = ObjectId::from_bytes([7; 32]);
    let begin = || -> Result<Receiver, SyncError> {
        let alone = Root::Object(ObjectType::Chunk, id);
        let mut receiver = Receiver::picking([alone], &ours)?;
        while receiver.poll(&ours)?.is_some() {}
        Ok(receiver)
    };
    assert!(begin()?.handle(Message::NeedEnd, &ours).is_err());
    assert!(begin()?.handle(Message::End, &ours).is_err());
    assert!(begin()?.admit(ObjectType::Chunk, &id, 1).is_err());
    let common = Message::Common(Vec::new(), true);
    let mut receiver = begin()?;
    receiver.handle(common.clone(), &ours)?;
    assert!(receiver.handle(common, &ours).is_err());
    receiver.handle(Message::End, &ours)?;
    assert!(receiver.handle(Message::End, &ours).is_err());
    receiver.admit(ObjectType::Chunk, &id, 1)?;
    Ok(())
}
