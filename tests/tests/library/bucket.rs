//! Reading a bucket: what arrives, with which requests, and what bad files do.

use dmv_bucket::format::{Name, Page, ROOT, Root, RowKind};
use dmv_bucket::peer::{BucketSource, serve_bucket};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::root::Root as Content;
use dmv_core::object::tree::lookup_path;
use dmv_core::repo::{Expiry, OwnBranches, Repo};
use dmv_core::subset::Subset;
use dmv_net::session::{Client, History, Link, NetError};
use dmv_net::trouble::{RootLoss, Trouble};
use dmv_tests::bucket::{BucketWriter, Memory, Packs};
use dmv_tests::peers::{Done, Place, tips};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::request;
use std::sync::Arc;

const ADDRESS: &str = "s3://studio/film";

/// Connects a repository to a bucket.
fn connect<'r>(repo: &'r Repo, files: &Memory, job: &'r Job) -> Result<Client<'r>, NetError> {
    let (ours, theirs) = Link::pair_with_clues();
    let source = BucketSource {
        place: ADDRESS.to_owned(),
        files: Arc::new(files.clone()),
        copies: Some(repo.dmv_dir().to_owned()),
        is_read_only: false,
        may_be_empty: false,
    };
    std::thread::spawn(move || serve_bucket(source, theirs));
    Client::connect(repo, ours, job)
}

/// Fetches everything, as the remote `origin`.
fn fetch_history(place: &Place, files: &Memory, history: History) -> Result<(), NetError> {
    let job = Job::default();
    let repo = place.again().expect("it opens");
    let mut client = connect(&repo, files, &job)?;
    client.fetch_history(&tips(&client.offered), history)?;
    let offered = client.offered.clone();
    let ours = OwnBranches::default();
    client.name(|| repo.note_remote("origin", &offered, &ours, &request("fetch")))?;
    client.finish(Vec::new());
    Ok(())
}

fn fetch(place: &Place, files: &Memory) -> Result<(), NetError> {
    fetch_history(place, files, History::New)
}

/// Fails unless a repository has everything of a commit.
fn is_complete(place: &Place, tip: ObjectId, of: &Place) -> Done {
    place.is_sound()?;
    let repo = place.again()?;
    assert_eq!(repo.resolve("origin/main")?, tip);
    let mut reach = dmv_core::reach::Reach::new([tip], [], dmv_core::reach::Detail::All);
    let mut objects = 0;
    while let Some(found) = reach.next(repo.objects())? {
        assert!(found.here, "{found:?}");
        objects += 1;
    }
    let mut theirs = dmv_core::reach::Reach::new([tip], [], dmv_core::reach::Detail::All);
    while theirs.next(of.again()?.objects())?.is_some() {
        objects -= 1;
    }
    assert_eq!(objects, 0);
    Ok(())
}

fn trouble<T>(done: Result<T, NetError>) -> Trouble {
    match done {
        Err(NetError::Bucket { trouble, place }) => {
            assert_eq!(place, ADDRESS);
            trouble
        }
        Err(e) => panic!("{e:?}"),
        Ok(_) => panic!("it should have failed"),
    }
}

/// Says in a bucket that files have expired, and takes a pack out.
fn expire_there(bucket: &BucketWriter, files: &[ObjectId], pack: Option<Name>) -> Done<Expiry> {
    let why = Expiry {
        at: 1_795_000_000,
        rule: "last:1".to_owned(),
        pattern: "/nightly/**".to_owned(),
    };
    let mut root = Root::decode(&bucket.files.get(ROOT).ok_or("a root")?)?;
    let listed = [(why.clone(), files.iter().copied().collect())];
    let (page, bytes) = Page::Expired(listed.into()).encode(Name([9; 16]))?;
    bucket.files.put(&page.name.path(root.repository), bytes);
    root.expired = vec![page];
    root.rows.retain(|row| Some(row.name) != pack);
    bucket.files.put(ROOT, root.encode()?);
    Ok(why)
}

#[test]
fn what_has_expired_is_left_out_of_a_fetch_and_does_not_count_as_kept() -> Done {
    for is_large in [false, true] {
        let theirs = Place::with_files(3, 10, 900)?;
        let mut bucket = BucketWriter::new()?;
        bucket.push(&theirs, "main", Packs::Apart)?;
        let mut rng = Rng::new(8);
        let len = if is_large { 3 << 20 } else { 900 };
        theirs.write("nightly", &rng.bytes(len))?;
        theirs.commit("old")?;
        bucket.push(&theirs, "main", Packs::Apart)?;
        let root = Root::decode(&bucket.files.get(ROOT).ok_or("a root")?)?;
        let packs = root.rows.iter().filter(|row| row.kind == RowKind::Data);
        let pack = packs.max_by_key(|row| row.generation).ok_or("a pack")?.name;
        let commit = theirs.repo.read_commit(&theirs.tip()?)?;
        let path = Repo::parse_path(b"nightly")?;
        let entry = lookup_path(theirs.repo.objects(), &commit.tree, &path)?;
        let entry = entry.ok_or("it is there")?;
        theirs.write("nightly", &rng.bytes(len))?;
        theirs.commit("new")?;
        bucket.push(&theirs, "main", Packs::Apart)?;
        expire_there(&bucket, &[entry.id], None)?;
        // A pack still has it, and gc may free it at any time.
        let (repo, job) = (theirs.again()?, Job::default());
        let mut client = connect(&repo, &bucket.files, &job)?;
        let ty = if is_large {
            ObjectType::List
        } else {
            ObjectType::Chunk
        };
        assert_eq!(client.unkept(&[(ty, entry.id)])?, [(ty, entry.id)]);

        let why = expire_there(&bucket, &[entry.id], Some(pack))?;
        let ours = Place::new()?;
        fetch(&ours, &bucket.files)?;
        let slice = ours.again()?.slice()?;
        let noted = slice.expired.get(&entry.id).map(|why| (**why).clone());
        assert_eq!((slice.expired.len(), noted), (1, Some(why)));
        ours.is_sound()?;
    }
    Ok(())
}

/// A repository with files of all sizes, and lists.
fn filled(seed: u64) -> Done<Place> {
    let place = Place::with_files(seed, 60, 900)?;
    let mut rng = Rng::new(seed);
    place.write("big", &rng.bytes(6 << 20))?;
    place.commit("big")?;
    Ok(place)
}

#[test]
fn a_clone_and_later_fetches_are_complete_with_few_requests() -> Done {
    for packs in [Packs::Joint, Packs::Apart, Packs::WithoutPlaces] {
        let theirs = filled(1)?;
        let mut bucket = BucketWriter::new()?;
        bucket.push(&theirs, "main", packs)?;
        let ours = Place::new()?;
        fetch(&ours, &bucket.files)?;
        is_complete(&ours, theirs.tip()?, &theirs)?;
        let requests = bucket.files.requests();
        assert!(requests.len() <= 4, "{packs:?}: {requests:?}");

        // Nothing new: one request.
        fetch(&ours, &bucket.files)?;
        assert_eq!(
            bucket.files.requests(),
            [(ROOT.to_owned(), None)],
            "{packs:?}"
        );

        // One small commit: the root and what was pushed.
        theirs.write("d1/f1", b"changed")?;
        theirs.commit("small")?;
        bucket.push(&theirs, "main", packs)?;
        fetch(&ours, &bucket.files)?;
        is_complete(&ours, theirs.tip()?, &theirs)?;
        let requests = bucket.files.requests();
        let most = match packs {
            Packs::Joint => 2,
            Packs::Apart => 3,
            Packs::WithoutPlaces => 5,
        };
        assert!(requests.len() <= most, "{packs:?}: {requests:?}");

        // A change within the large file: not the whole file again.
        let mut content = std::fs::read(theirs.dir.path().join("big"))?;
        content[3 << 20] ^= 1;
        theirs.write("big", &content)?;
        theirs.commit("change")?;
        bucket.push(&theirs, "main", packs)?;
        fetch(&ours, &bucket.files)?;
        is_complete(&ours, theirs.tip()?, &theirs)?;
        let read = bucket.files.requests().into_iter();
        let read: u64 = read
            .filter_map(|(_, range)| range)
            .map(|r| r.end - r.start)
            .sum();
        assert!(read < 1 << 20, "{packs:?}: {read} bytes");
    }
    Ok(())
}

#[test]
fn many_small_pushes_are_fetched_in_one_request_each() -> Done {
    let theirs = Place::with_files(3, 10, 500)?;
    let mut bucket = BucketWriter::new()?;
    bucket.push(&theirs, "main", Packs::Joint)?;
    let ours = Place::new()?;
    fetch(&ours, &bucket.files)?;
    bucket.files.requests();
    for n in 0..30 {
        theirs.write(
            &format!("d{}/new{n}", n % 3),
            format!("text {n}").as_bytes(),
        )?;
        theirs.commit("more")?;
        bucket.push(&theirs, "main", Packs::Joint)?;
    }
    fetch(&ours, &bucket.files)?;
    is_complete(&ours, theirs.tip()?, &theirs)?;
    assert_eq!(bucket.files.requests().len(), 31);
    // A clone without any note reads the same packs.
    let clone = Place::new()?;
    fetch(&clone, &bucket.files)?;
    is_complete(&clone, theirs.tip()?, &theirs)?;
    assert_eq!(bucket.files.requests().len(), 32);
    Ok(())
}

#[test]
fn a_fetch_that_is_cut_goes_on_where_it_was() -> Done {
    let theirs = filled(4)?;
    let mut bucket = BucketWriter::new()?;
    bucket.push(&theirs, "main", Packs::Apart)?;
    for requests in 0..4 {
        let ours = Place::new()?;
        bucket.files.cut_after(Some(requests));
        let cut = fetch(&ours, &bucket.files);
        bucket.files.cut_after(None);
        if let Err(e) = cut {
            assert!(matches!(e, NetError::Bucket { .. }), "{e:?}");
        }
        fetch(&ours, &bucket.files)?;
        is_complete(&ours, theirs.tip()?, &theirs)?;
    }
    Ok(())
}

#[test]
fn a_shallow_fetch_and_one_of_a_part_bring_no_more_than_that() -> Done {
    let theirs = filled(5)?;
    theirs.write("d2/last", b"last")?;
    theirs.commit("last")?;
    let mut bucket = BucketWriter::new()?;
    bucket.push(&theirs, "main", Packs::Apart)?;
    let shallow = Place::new()?;
    fetch_history(&shallow, &bucket.files, History::Depth(1))?;
    shallow.is_sound()?;
    let repo = shallow.again()?;
    let commit = repo.read_commit(&theirs.tip()?)?;
    let parent = commit.parents[0];
    assert!(!dmv_core::object::ObjectRead::holds(
        repo.objects(),
        ObjectType::Commit,
        &parent
    )?);

    bucket.files.requests();
    let part = Place::new()?;
    part.repo.change_slice(|slice| {
        slice.subset = Subset::new([&b"d3"[..]]).expect("a pattern");
    })?;
    fetch(&part, &bucket.files)?;
    part.is_sound()?;
    let read = bucket.files.requests().into_iter();
    let read: u64 = read
        .filter_map(|(_, range)| range)
        .map(|r| r.end - r.start)
        .sum();
    assert!(read < 1 << 20, "{read} bytes of 6 MiB");

    // Content on demand: the chunks of the large file.
    let job = Job::default();
    let repo = part.again()?;
    let tree = repo.read_commit(&theirs.tip()?)?;
    let root = Content::Directory {
        tree: tree.tree,
        bytes: tree.tree_bytes,
        files: tree.tree_files,
    };
    let mut client = connect(&repo, &bucket.files, &job)?;
    assert_eq!(client.pick(vec![root])?, []);
    client.finish(Vec::new());
    assert!(repo.has_root(root)?);
    Ok(())
}

#[test]
fn a_bucket_says_which_content_it_has() -> Done {
    for packs in [Packs::Joint, Packs::Apart, Packs::WithoutPlaces] {
        let theirs = filled(6)?;
        let mut bucket = BucketWriter::new()?;
        bucket.push(&theirs, "main", packs)?;
        theirs.write("new", b"not pushed")?;
        theirs.commit("new")?;
        let repo = theirs.again()?;
        let tree = repo.read_commit(&theirs.tip()?)?.tree;
        let mut files = Vec::new();
        repo.list_subset(
            &dmv_core::object::name::RepoPath::root(),
            tree,
            &Subset::everything(),
            &mut |entry| {
                let ty = if entry.entry.is_list {
                    ObjectType::List
                } else {
                    ObjectType::Chunk
                };
                files.push((ty, entry.entry.id));
                Ok(std::ops::ControlFlow::Continue(()))
            },
        )?;
        let job = Job::default();
        let mut client = connect(&repo, &bucket.files, &job)?;
        let new = (ObjectType::Chunk, ObjectType::Chunk.id_of(b"not pushed"));
        assert_eq!(client.unkept(&files)?, [new], "{packs:?}");
        client.finish(Vec::new());
    }
    Ok(())
}

#[test]
fn damage_and_loss_are_told_and_nothing_false_is_stored() -> Done {
    let theirs = filled(7)?;
    let mut bucket = BucketWriter::new()?;
    bucket.push(&theirs, "main", Packs::Apart)?;
    let rows = bucket.root.rows.clone();
    for row in &rows {
        let path = bucket.path(row);
        let good = bucket.files.get(&path).ok_or("no pack")?;
        let mut damaged = good.clone();
        let at = good.len() / 3;
        damaged[at] ^= 1;
        bucket.files.put(&path, damaged);
        let ours = Place::new()?;
        let said = trouble(fetch(&ours, &bucket.files));
        assert!(
            matches!(&said, Trouble::Damaged(why) if why.contains(&path)),
            "{said:?}"
        );
        ours.is_sound()?;

        bucket.files.put(&path, good[..good.len() / 2].to_vec());
        let said = trouble(fetch(&Place::new()?, &bucket.files));
        assert!(
            matches!(&said, Trouble::Damaged(why) if why.contains(&path)),
            "{said:?}"
        );

        bucket.files.remove(&path);
        let said = trouble(fetch(&Place::new()?, &bucket.files));
        assert_eq!(said, Trouble::Lost(path.clone()));
        bucket.files.put(&path, good);
        fetch(&ours, &bucket.files)?;
        is_complete(&ours, theirs.tip()?, &theirs)?;
    }
    Ok(())
}

#[test]
fn a_root_that_is_lost_older_or_unreadable_is_told() -> Done {
    let theirs = Place::with_files(8, 10, 500)?;
    let mut bucket = BucketWriter::new()?;
    let ours = Place::new()?;
    assert_eq!(trouble(fetch(&ours, &Memory::default())), Trouble::NoRoot);
    let first = bucket.files.get(ROOT).ok_or("no root")?;
    bucket.push(&theirs, "main", Packs::Joint)?;
    fetch(&ours, &bucket.files)?;
    let root = bucket.files.get(ROOT).ok_or("no root")?;
    bucket.files.remove(ROOT);
    let lost = trouble(fetch(&ours, &bucket.files));
    assert_eq!(lost, Trouble::LostRoot(RootLoss::Gone));
    bucket.files.put(ROOT, first);
    assert_eq!(trouble(fetch(&ours, &bucket.files)), Trouble::Forked);
    let mut newer = root.clone();
    newer[8] = 4;
    bucket.files.put(ROOT, newer);
    assert_eq!(trouble(fetch(&ours, &bucket.files)), Trouble::TooNew);
    let mut damaged = root.clone();
    damaged[20] ^= 1;
    bucket.files.put(ROOT, damaged);
    assert!(matches!(
        trouble(fetch(&ours, &bucket.files)),
        Trouble::LostRoot(RootLoss::Damaged(_))
    ));
    bucket.files.put(ROOT, root);
    fetch(&ours, &bucket.files)?;
    Ok(())
}
