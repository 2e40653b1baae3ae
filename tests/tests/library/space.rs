//! What paths take in packs: counted from the frames, so that the parts add up to the packs.

use crate::deltas::{LEN, next_version, repack};
use dmv_core::job::Job;
use dmv_core::object::name::{RepoPath, SafeName};
use dmv_core::repo::{Repo, Selection};
use dmv_core::store::PackKind;
use dmv_core::subset::Subset;
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;

/// Bytes that stand in packs besides an object's own: in the table of its frame and in the index.
const MOST_BESIDE: u64 = 64;

/// Returns what a path of the newest commit takes; without a name, all of it.
fn stored(repo: &Repo, path: &[&[u8]]) -> Done<u64> {
    let path = at(path)?;
    let commit = repo.head_commit()?.ok_or("no commit")?;
    let located = repo.locate("@", &repo.read_commit(&commit)?, &path)?;
    let wanted = Selection {
        path: &path,
        located: &located,
        subset: &Subset::everything(),
    };
    Ok(repo.disk_use(wanted, &Job::default())?.stored_bytes)
}

fn at(names: &[&[u8]]) -> Done<RepoPath> {
    let mut path = RepoPath::root();
    for name in names {
        path.push(&SafeName::new(name)?)?;
    }
    Ok(path)
}

/// Fails unless `stored` is what the data packs have, without the bytes beside the objects.
fn is_all(repo: &Repo, stored: u64) -> Done {
    let packs = repo.refs().catalogue()?.packs.into_iter();
    let data: u64 = packs
        .filter(|row| row.kind == PackKind::Data)
        .map(|row| row.len)
        .sum();
    let beside = MOST_BESIDE * (repo.store_stats()?.chunks + 8);
    assert!(
        (data.saturating_sub(beside)..=data).contains(&stored),
        "{stored} of {data}, {beside} beside"
    );
    Ok(())
}

#[test]
fn content_that_compresses_takes_less_than_noise_and_the_parts_add_up() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(1);
    // Commits of their own: which files share a frame depends on who is ready first, and a text in a frame
    // with noise would count for more.
    place.write("noise", &rng.bytes(4_000_000))?;
    place.commit("noise")?;
    place.write("text", &b"the same line\n".repeat(200_000))?;
    place.commit("text")?;
    for n in 0..300 {
        place.write(&format!("small/noise/{n}"), &rng.bytes(3_000))?;
        place.write(
            &format!("small/text/{n}"),
            format!("{n}\n").repeat(1_000).as_bytes(),
        )?;
    }
    place.commit("all")?;
    let repo = place.again()?;
    assert!((4_000_000..4_010_000).contains(&stored(&repo, &[b"noise"])?));
    assert!(stored(&repo, &[b"text"])? < 20_000);
    let small = stored(&repo, &[b"small"])?;
    let [noise, text] = [&b"noise"[..], b"text"].map(|name| stored(&repo, &[b"small", name]));
    assert_eq!(noise? + text?, small);
    let all = stored(&repo, &[])?;
    assert_eq!(
        stored(&repo, &[b"noise"])? + stored(&repo, &[b"text"])? + small,
        all
    );
    is_all(&repo, all)?;
    // The same for all history, in which the largest comes first.
    let found = repo.history_use(&[], &Job::default())?;
    assert_eq!(found.paths[0].path, at(&[b"noise"])?);
    assert_eq!(
        found
            .paths
            .iter()
            .map(|used| used.stored_bytes)
            .sum::<u64>(),
        all
    );
    let of_text = found
        .paths
        .iter()
        .find(|used| used.path.as_bytes() == b"text");
    assert_eq!(
        of_text.map(|used| used.stored_bytes),
        Some(stored(&repo, &[b"text"])?)
    );
    Ok(())
}

#[test]
fn versions_that_are_stored_as_differences_take_what_the_differences_take() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(2);
    let mut version = rng.bytes(LEN);
    place.write("other", &rng.bytes(LEN))?;
    for _ in 0..4 {
        place.write("built", &version)?;
        place.commit("build")?;
        version = next_version(&version, &mut rng);
    }
    let built = |repo: &Repo| -> Done<(u64, u64)> {
        let found = repo.history_use(&[], &Job::default())?;
        is_all(repo, found.paths.iter().map(|used| used.stored_bytes).sum())?;
        let used = found
            .paths
            .iter()
            .find(|used| used.path.as_bytes() == b"built");
        let used = used.ok_or("no such path")?;
        Ok((used.stored_bytes, used.earlier_stored_bytes))
    };
    let len = LEN as u64;
    let (before, earlier) = built(&place.again()?)?;
    assert!(before > 3 * len && earlier > 2 * len, "{before}, {earlier}");
    repack(&place.repo)?;
    let repo = place.again()?;
    let (after, earlier) = built(&repo)?;
    assert!(after < 2 * len && earlier < after, "{after}, {earlier}");
    assert!((len..len + 5_000).contains(&stored(&repo, &[b"other"])?));
    Ok(())
}
