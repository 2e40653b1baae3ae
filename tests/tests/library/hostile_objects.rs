//! Hostile peers: objects that are invalid, too many, or without end.

use crate::formats::nasty;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::codec::put_varint;
use dmv_core::object::commit::Commit;
use dmv_core::object::mem::MemObjects;
use dmv_core::object::tree::empty_tree_id;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::reach::{Detail, Reach};
use dmv_core::store::CheckedRecord;
use dmv_net::session::{Client, Link, NetError};
use dmv_net::sync::SyncError;
use dmv_net::wire::{Code, Frame, LITTLE_BYTES, MAX_FRAME_BYTES, Message, Update};
use dmv_tests::evil::{
    a_commit, client_hello, frames, is_left_by, is_protocol, meets, offering, one_object, record,
    served, with, zeros,
};
use dmv_tests::peers::{Done, Place, note};
use dmv_tests::scratch::files_of;

/// Returns more content than may come with metadata. The receiver requests the rest.
fn too_much_content() -> Frame {
    one_object(ObjectType::Chunk, &vec![0; LITTLE_BYTES as usize + 1])
}

#[test]
fn objects_that_are_not_what_they_should_be_leave_no_trace() -> Done {
    let good = a_commit(empty_tree_id(), Vec::new(), 1);
    let tip = ObjectType::Commit.id_of(&good);
    let offer = frames(&offering(tip));
    let nasty = {
        // A tree with the name "..": one entry, level 0.
        let mut bytes = vec![3, 1, 0, 1, 2];
        bytes.extend(b"..");
        bytes.extend([1, 0]);
        bytes.extend([0; 32]);
        bytes.push(0);
        bytes
    };
    let bad: Vec<Frame> = vec![
        one_object(ObjectType::Tree, &nasty),
        one_object(ObjectType::Commit, b"no commit"),
        too_much_content(),
        Frame::Objects(vec![9, 1, 0]),
        Frame::Objects(vec![1, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        Frame::Record(vec![0; 64]),
        Frame::Record(b"DMVr".repeat(20)),
    ];
    for frame in bad {
        meets(&with(offer.clone(), [frame]), is_protocol)?;
    }
    // The server leaves before it has sent what it offered.
    let end = Message::End.frame();
    is_left_by(&offer)?;
    is_left_by(&with(offer.clone(), [end.clone()]))?;
    // An answer to a request that was not made yet.
    let absent = Message::Absent(vec![(5, *tip.as_bytes())]).frame();
    meets(&with(offer, [end, absent]), is_protocol)
}

#[test]
fn a_history_that_cannot_be_is_not_believed() -> Done {
    // A generation that does not follow from the parent's, a parent that never arrives, and totals
    // that differ from the tree's.
    let first = a_commit(empty_tree_id(), Vec::new(), 1);
    let wrong = a_commit(empty_tree_id(), vec![ObjectType::Commit.id_of(&first)], 9);
    let ours = Place::with_files(10, 3, 100)?;
    let tip = ObjectType::Commit.id_of(&wrong);
    let (link, mut evil) = Link::pair();
    for frame in frames(&offering(tip)) {
        evil.send(frame)?;
    }
    evil.send(one_object(ObjectType::Commit, &wrong))?;
    evil.send(one_object(ObjectType::Commit, &first))?;
    evil.send(Message::End.frame())?;
    let job = Job::default();
    let mut session = Client::connect(&ours.repo, link, &job)?;
    let fetched = session.fetch(&[tip]);
    assert!(
        matches!(fetched, Err(NetError::Sync(SyncError::Unfit(_)))),
        "{fetched:?}"
    );
    assert!(ours.repo.refs().with_prefix("remote/")?.is_empty());
    ours.is_sound()
}

#[test]
fn a_push_without_its_objects_moves_nothing() -> Done {
    let good = a_commit(empty_tree_id(), Vec::new(), 1);
    let push = Message::Push(vec![Update {
        key: "branch/other".into(),
        old: None,
        new: Some(*ObjectType::Commit.id_of(&good).as_bytes()),
        force: true,
    }]);
    let begin = with(
        client_hello(),
        [push.frame(), Message::Common(Vec::new(), true).frame()],
    );
    // The objects that the commit needs never arrive, or a chunk arrives instead, or bytes that are
    // no object.
    let absent = Message::Absent(vec![(5, *ObjectType::Commit.id_of(&good).as_bytes())]);
    let lacking = [
        Message::End.frame(),
        absent.frame(),
        Message::NeedEnd.frame(),
    ];
    let endings: Vec<Vec<Frame>> = vec![
        lacking.to_vec(),
        vec![too_much_content()],
        vec![one_object(ObjectType::Tree, b"no tree")],
        vec![Message::Push(Vec::new()).frame()],
    ];
    for ending in endings {
        let answers = served(&with(begin.clone(), ending))?;
        let told = answers.last();
        assert!(
            matches!(told, Some(Message::Failed(Code::Protocol, _))),
            "{answers:?}"
        );
    }
    Ok(())
}

/// Returns a tree with one entry of this name, valid or not.
fn tree_of(name: &[u8], kind: u8, id: ObjectId, size: u64) -> Vec<u8> {
    let mut bytes = vec![3, 1, 0, 1];
    put_varint(&mut bytes, name.len() as u64);
    bytes.extend(name);
    bytes.extend([kind, 0]);
    bytes.extend(id.as_bytes());
    put_varint(&mut bytes, size);
    if kind == 4 {
        bytes.push(0);
    }
    bytes
}

#[test]
fn no_name_that_could_harm_comes_in_with_a_tree() -> Done {
    let chunk = ObjectType::Chunk.id_of(b"");
    let mut refused = 0;
    for [id, literal, verdict, class] in nasty::lines() {
        if verdict != "REJECT" || class == "pair" || class == "tree" {
            continue;
        }
        let tree = tree_of(&nasty::parse(literal), 1, chunk, 0);
        let commit = a_commit(ObjectType::Tree.id_of(&tree), Vec::new(), 1);
        let offer = frames(&offering(ObjectType::Commit.id_of(&commit)));
        let objects = [
            one_object(ObjectType::Commit, &commit),
            one_object(ObjectType::Tree, &tree),
        ];
        meets(&with(offer, objects), is_protocol).map_err(|e| format!("{id}: {e}"))?;
        refused += 1;
    }
    assert!(refused > 20, "{refused}");
    Ok(())
}

/// Connects an empty client, which everything is sent to unasked. The server sends `says` after a
/// Hello and an offer of `tip`. Checks the client's error.
fn clones(tip: ObjectId, says: Vec<Frame>, check: impl Fn(&NetError) -> bool) -> Done {
    let ours = Place::new()?;
    let (link, mut evil) = Link::pair();
    let offer = frames(&offering(tip));
    let saying = std::thread::spawn(move || {
        let said = with(offer, says).into_iter().try_for_each(|f| evil.send(f));
        let job = Job::default();
        while said.is_ok() && evil.receive(&job).is_ok() {}
    });
    let job = Job::default();
    let met = Client::connect(&ours.repo, link, &job).and_then(|mut s| s.fetch(&[tip]));
    saying.join().map_err(|_| "the server panicked")?;
    let Err(e) = met else {
        return Err("a bad server was believed".into());
    };
    assert!(check(&e), "{e:?}");
    assert!(ours.repo.offered()?.refs.is_empty());
    assert!(ours.repo.refs().with_prefix("remote/")?.is_empty());
    ours.is_sound()
}

fn is_unfit(e: &NetError) -> bool {
    matches!(e, NetError::Sync(SyncError::Unfit(_)))
}

#[test]
fn a_record_that_unpacks_to_something_else_than_it_says_is_refused() -> Done {
    const MIB: u32 = 1 << 20;
    let tip = ObjectId::from_bytes([7; 32]);
    let chunk = ObjectType::Chunk;
    let honest = zeros(8, MIB);
    assert!(honest.len() < 64);
    // The first record is valid. So a refused record is refused for its own fault, not for one of
    // the test kit.
    let Frame::Record(good) = record(1, &[(chunk, MIB)], MIB, &honest) else {
        return Err("it is a record".into());
    };
    assert!(CheckedRecord::new(good.clone()).is_ok());
    let longer = [good.clone(), vec![0]].concat();
    for (what, bad) in [
        (
            "says little, unpacks to much",
            record(1, &[(chunk, 100)], 100, &zeros(8, MIB)),
        ),
        (
            "the same, also within",
            record(1, &[(chunk, 100)], 100, &zeros(8, 100)),
        ),
        (
            "says much, unpacks to little",
            record(1, &[(chunk, MIB)], MIB, &zeros(1, MIB)),
        ),
        (
            "unpacks beyond every limit",
            record(1, &[(chunk, MIB)], MIB, &zeros(40_000, MIB)),
        ),
        (
            "says more than a frame may hold",
            record(1, &[(chunk, MIB); 3], 3 * MIB, &zeros(24, 3 * MIB)),
        ),
        (
            "an object beyond its limit",
            record(1, &[(chunk, MIB + 1)], MIB + 1, &zeros(9, MIB + 1)),
        ),
        (
            "objects that do not fill it",
            record(1, &[(chunk, 5)], MIB, &honest),
        ),
        (
            "objects that overflow it",
            record(1, &[(chunk, MIB), (chunk, 1)], MIB, &honest),
        ),
        ("no objects", record(1, &[], 0, &zeros(0, 0))),
        ("not zstd", record(1, &[(chunk, 8)], 8, b"nonsense")),
        ("needs a base", record(2, &[(chunk, MIB)], MIB, &honest)),
        (
            "an unknown encoding",
            record(3, &[(chunk, MIB)], MIB, &honest),
        ),
        (
            "chunks with a tree",
            record(0, &[(chunk, 1), (ObjectType::Tree, 4)], 5, &[7, 3, 1, 0, 0]),
        ),
        (
            "a tree that is none",
            record(0, &[(ObjectType::Tree, 4)], 4, b"tree"),
        ),
        ("more bytes than it says", Frame::Record(longer)),
        ("less", Frame::Record(good[..good.len() - 1].to_vec())),
        (
            "as long as a frame may be",
            Frame::Record(vec![0; MAX_FRAME_BYTES - 1]),
        ),
    ] {
        clones(tip, vec![bad], is_protocol).map_err(|e| format!("{what}: {e}"))?;
    }
    Ok(())
}

#[test]
fn the_same_over_and_over_ends() -> Done {
    const MIB: u32 = 1 << 20;
    let tip = ObjectId::from_bytes([7; 32]);
    let chunk = ObjectType::Chunk;
    let same = record(
        1,
        &[(chunk, MIB), (chunk, MIB)],
        2 * MIB,
        &zeros(16, 2 * MIB),
    );
    clones(tip, vec![same; 200], is_protocol)?;
    // One new byte in each record does not make the record new.
    let almost = |n: u8| {
        let raw = [&[n, n ^ 1, 3][..], &vec![0; (1 << 20) - 3]].concat();
        record(0, &[(chunk, 3), (chunk, MIB - 3)], MIB, &raw)
    };
    let all = (0..=255).chain(0..100).map(almost);
    clones(tip, all.collect(), is_protocol)?;
    // Objects without a byte count as well.
    let empty = Frame::Objects([1, 0].repeat(1 << 20));
    clones(tip, vec![empty; 6], is_protocol)
}

/// Objects with the right ids that contradict the object above them.
#[test]
fn what_does_not_fit_together_is_not_believed() -> Done {
    let empty = empty_tree_id();
    let file = b"content";
    let chunk = ObjectType::Chunk.id_of(file);
    let commit_of = |tree: &[u8], bytes: u64, files: u64| {
        let commit = a_commit(ObjectType::Tree.id_of(tree), Vec::new(), 1);
        let mut commit = Commit::decode(&commit).expect("it is a commit");
        (commit.tree_bytes, commit.tree_files) = (bytes, files);
        commit.encode().expect("it can be written")
    };
    let sends = |commit: &[u8], trees: &[Vec<u8>]| -> Vec<Frame> {
        let mut out = vec![one_object(ObjectType::Commit, commit)];
        out.extend(trees.iter().map(|tree| one_object(ObjectType::Tree, tree)));
        out.extend([one_object(ObjectType::Chunk, file), Message::End.frame()]);
        out
    };
    let tree = tree_of(b"a", 1, chunk, 7);
    let cases = [
        (
            "a commit that counts wrongly",
            commit_of(&tree, 8, 1),
            vec![tree.clone()],
        ),
        (
            "a commit with files that are not there",
            commit_of(&tree, 7, 2),
            vec![tree.clone()],
        ),
    ];
    for (what, commit, trees) in cases {
        let tip = ObjectType::Commit.id_of(&commit);
        clones(tip, sends(&commit, &trees), is_unfit).map_err(|e| format!("{what}: {e}"))?;
    }
    // Directories in directories, deeper than any path may be.
    let (mut trees, mut inner) = (Vec::new(), empty);
    trees.push(vec![3, 1, 0, 0]);
    for _ in 0..1100 {
        let tree = tree_of(b"d", 4, inner, 0);
        inner = ObjectType::Tree.id_of(&tree);
        trees.push(tree);
    }
    let deep = a_commit(inner, Vec::new(), 1);
    let tip = ObjectType::Commit.id_of(&deep);
    clones(tip, sends(&deep, &trees), is_unfit)
}

/// A server sends what it is asked for, one object at a time, and lacks one object.
#[test]
fn one_object_that_never_comes_keeps_the_refs_where_they_are() -> Done {
    let theirs = Place::with_files(12, 30, 3000)?;
    let tip = theirs.tip()?;
    let mem = everything(&theirs)?;
    for missing in mem.ids() {
        if missing.0 == ObjectType::Commit {
            continue;
        }
        let says: Vec<Frame> = mem
            .ids()
            .into_iter()
            .filter(|object| *object != missing)
            .map(|(ty, id)| Ok(one_object(ty, &mem.require(ty, &id)?)))
            .collect::<Done<_>>()?;
        let absent = Message::Absent(vec![(missing.0 as u8, *missing.1.as_bytes())]);
        let more = [Message::End, absent, Message::NeedEnd];
        let is_absent = |e: &NetError| matches!(e, NetError::Sync(SyncError::Absent { .. }));
        // An absent tree hides further objects. The client requests them, and the answer names too
        // few.
        let check = |e: &NetError| is_absent(e) || is_protocol(e);
        clones(tip, with(says, frames(&more)), check)?;
    }
    Ok(())
}

/// Returns every object that the branch needs.
fn everything(place: &Place) -> Done<MemObjects> {
    let mem = MemObjects::new();
    let mut reach = Reach::new([place.tip()?], [], Detail::All);
    while let Some(found) = reach.next(place.repo.objects())? {
        let bytes = place.repo.objects().require(found.ty, &found.id)?;
        mem.insert(found.ty, &bytes);
    }
    Ok(mem)
}

#[test]
fn answers_may_come_in_any_order_but_not_before_they_are_asked_for() -> Done {
    let theirs = Place::with_files(13, 10, 2000)?;
    let (tip, mem) = (theirs.tip()?, everything(&theirs)?);
    let objects = |ids: &[(ObjectType, ObjectId)]| -> Done<Vec<Frame>> {
        let one = |(ty, id): &(ObjectType, ObjectId)| Ok(one_object(*ty, &mem.require(*ty, id)?));
        ids.iter().map(one).collect()
    };
    let ours = Place::with_files(14, 2, 10)?;
    let (link, mut evil) = Link::pair();
    let all: Vec<_> = mem.ids();
    let of = |chunks: bool| -> Vec<(ObjectType, ObjectId)> {
        let is = |(ty, _): &&(ObjectType, ObjectId)| (*ty == ObjectType::Chunk) == chunks;
        all.iter().filter(is).copied().collect()
    };
    let (mut chunks, metadata) = (of(true), of(false));
    let unasked = objects(&metadata)?;
    chunks.reverse();
    let mut says = with(frames(&offering(tip)), unasked);
    says.push(Message::End.frame());
    // Before the request, or a second time, these objects are no answer.
    meets(&with(says.clone(), objects(&chunks[..1])?), is_protocol)?;
    let answers = objects(&chunks)?;
    let saying = std::thread::spawn(move || {
        let job = Job::default();
        says.into_iter().try_for_each(|frame| evil.send(frame))?;
        while !matches!(evil.hear(&job)?, Message::Need(_)) {}
        answers.into_iter().try_for_each(|frame| evil.send(frame))?;
        evil.say(&Message::NeedEnd)?;
        while evil.receive(&job).is_ok() {}
        Ok::<_, NetError>(())
    });
    let job = Job::default();
    let mut session = Client::connect(&ours.repo, link, &job)?;
    session.fetch(&[tip])?;
    note(&ours.repo, &session.offered)?;
    session.finish(Vec::new());
    saying.join().map_err(|_| "the server panicked")??;
    assert_eq!(files_of(&ours.repo, &tip)?, files_of(&theirs.repo, &tip)?);
    ours.is_sound()
}

/// A history without end, made up while the client requests it. The received objects stay
/// invisible.
#[test]
fn a_history_without_end_is_cut_and_leaves_no_ref() -> Done {
    let mut commits = Vec::new();
    let mut parents = Vec::new();
    for generation in 1..400 {
        let commit = a_commit(empty_tree_id(), std::mem::take(&mut parents), generation);
        parents.push(ObjectType::Commit.id_of(&commit));
        commits.push(commit);
    }
    let tip = parents[0];
    let ours = Place::with_files(15, 2, 10)?;
    let (link, mut evil) = Link::pair();
    let serving = std::thread::spawn(move || -> Result<usize, NetError> {
        frames(&offering(tip))
            .into_iter()
            .try_for_each(|f| evil.send(f))?;
        evil.say(&Message::End)?;
        let job = Job::default();
        let mut request = 0;
        // The server sends 300 commits and leaves.
        while request < 300 {
            let Message::Need(need) = evil.hear(&job)? else {
                continue;
            };
            for (_, id) in need {
                let is_it = |c: &&Vec<u8>| ObjectType::Commit.id_of(c).as_bytes() == &id;
                if let Some(commit) = commits.iter().find(is_it) {
                    request += 1;
                    evil.send(one_object(ObjectType::Commit, commit))?;
                } else {
                    let tree = [3, 1, 0, 0];
                    evil.send(one_object(ObjectType::Tree, &tree))?;
                }
            }
            evil.say(&Message::NeedEnd)?;
        }
        Ok(request)
    });
    let job = Job::default();
    let mut session = Client::connect(&ours.repo, link, &job)?;
    let fetched = session.fetch(&[tip]);
    assert!(matches!(fetched, Err(NetError::Closed)), "{fetched:?}");
    let given = serving.join().map_err(|_| "the server panicked")??;
    assert!(given >= 300);
    assert!(ours.repo.refs().with_prefix("remote/")?.is_empty());
    ours.is_sound()
}
