//! Objects of which two packs have a copy, one of them damaged. DMV finds and uses the intact copy,
//! whichever of the two the tables name.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::list::Blob;
use dmv_core::repo::VerifyDepth;
use dmv_core::store::PackId;
use dmv_tests::drops::{Contents, contents, drop_blobs, dropped, keeps_all_but};
use dmv_tests::packs::{damage_copy, data_packs, merge, small_files, store_again, take_away};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;

/// A repository with two packs, `named` and `hides`. Both have `x` and other files each. The tables
/// name only the copy of `x` in `named`.
struct Twice {
    place: Place,
    contents: Contents,
    x: ObjectId,
    named: PackId,
    hides: PackId,
    /// The other objects in `hides`.
    beside: Vec<ObjectId>,
}

impl Twice {
    fn new() -> Done<Twice> {
        let place = Place::new()?;
        let names = ["x", "a0", "a1", "a2", "b0", "b1", "b2"];
        let ids = small_files(&place, &names, &mut Rng::new(1))?;
        let contents = contents(&place.again()?)?;
        let first = data_packs(&place.again()?)?.pop_first().ok_or("a pack")?;
        let of = |numbers: [usize; 4]| numbers.map(|n| vec![ids[n]]);
        let a = store_again(&place, &of([0, 1, 2, 3]))?;
        let b = store_again(&place, &of([0, 4, 5, 6]))?;
        let repo = place.again()?;
        take_away(&repo, first)?;
        assert!(merge(&repo)?);
        let named = repo.store().pack_of(&ids[0])?.ok_or("it is here")?;
        let (hides, beside) = if named == a {
            (b, &ids[4..7])
        } else {
            (a, &ids[1..4])
        };
        Ok(Twice {
            place,
            contents,
            x: ids[0],
            named,
            hides,
            beside: beside.to_vec(),
        })
    }

    fn damage(&self, pack: PackId) -> Done {
        let (_, bytes) = &self.contents[&self.x];
        assert!(damage_copy(&self.place.again()?, pack, bytes)?);
        Ok(())
    }

    /// Damages the header of the frame with `x`, so that it is no longer a record.
    fn damage_header(&self, pack: PackId) -> Done {
        let path = self.place.again()?.store().pack_path(pack);
        let mut bytes = std::fs::read(&path)?;
        let (_, content) = &self.contents[&self.x];
        let at = last(&bytes, content).ok_or("it holds it")?;
        let header = last(&bytes[..at], b"DMVr").ok_or("a frame")?;
        bytes[header + 8] ^= 0x10;
        Ok(std::fs::write(&path, bytes)?)
    }

    /// Cuts off the table of a pack's last segment.
    fn cut_last_table(&self, pack: PackId) -> Done {
        let path = self.place.again()?.store().pack_path(pack);
        let bytes = std::fs::read(&path)?;
        let index = last(&bytes, b"DMVr\x02").ok_or("an index")?;
        Ok(std::fs::write(&path, &bytes[..index])?)
    }

    /// Checks that every file that was not dropped can be read.
    fn keeps_all(&self) -> Done {
        let repo = self.place.again()?;
        keeps_all_but(&repo, &self.contents, &dropped(&repo)?)
    }

    fn drop_what_is_beside(&self) -> Done<Option<String>> {
        let blobs: Vec<Blob> = self.beside.iter().map(|id| self.contents[id].0).collect();
        Ok(drop_blobs(&self.place.again()?, &blobs)?.why_not_freed)
    }
}

/// Returns the last place of `part` in `bytes`.
fn last(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).rposition(|window| window == part)
}

#[test]
fn a_copy_that_a_merged_index_hides_is_read_when_the_other_is_damaged() -> Done {
    let twice = Twice::new()?;
    twice.damage(twice.named)?;
    twice.keeps_all()?;
    let repo = twice.place.again()?;
    let report = repo.verify(VerifyDepth::Full, &Job::default())?;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(report.copies.len(), 1, "{report:?}");
    assert_eq!(report.copies[0].id, twice.x);
    // With both copies damaged, this object is lost, and no other.
    twice.damage(twice.hides)?;
    let mut bytes = Vec::new();
    let repo = twice.place.again()?;
    let read = repo
        .store()
        .read_into(ObjectType::Chunk, &twice.x, &mut bytes);
    assert!(read.is_err() && bytes.is_empty());
    let report = repo.verify(VerifyDepth::Full, &Job::default())?;
    let lost: Vec<ObjectId> = report.damaged.iter().map(|damaged| damaged.id).collect();
    assert_eq!(lost, [twice.x]);
    Ok(())
}

#[test]
fn healing_makes_tables_name_the_whole_copy() -> Done {
    let twice = Twice::new()?;
    twice.damage(twice.named)?;
    let (job, repo) = (Job::default(), twice.place.again()?);
    let (report, healed) = repo.begin_to_heal(VerifyDepth::Full, &job)?.finish(&job)?;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(healed.len(), 1);
    assert_eq!(healed[0].object.id, twice.x);
    assert_eq!(healed[0].object.paths, [dmv_core::Repo::parse_path(b"x")?]);
    let repo = twice.place.again()?;
    assert_eq!(repo.store().pack_of(&twice.x)?, Some(twice.hides));
    assert!(repo.store().has_undamaged(&twice.x)?);
    twice.keeps_all()
}

/// Only the merged index names the objects of the last segment.
#[test]
fn healing_keeps_a_merged_index_that_a_segment_cannot_do_without() -> Done {
    let twice = Twice::new()?;
    twice.cut_last_table(twice.named)?;
    twice.damage(twice.named)?;
    twice.keeps_all()?;
    let (job, repo) = (Job::default(), twice.place.again()?);
    let (report, healed) = repo.begin_to_heal(VerifyDepth::Full, &job)?.finish(&job)?;
    assert_eq!(report.copies.len(), 1, "{report:?}");
    assert!(healed.is_empty(), "{healed:?}");
    twice.keeps_all()
}

#[test]
fn no_pack_is_freed_where_a_segment_cannot_do_without_the_merged_index() -> Done {
    let twice = Twice::new()?;
    twice.cut_last_table(twice.named)?;
    assert!(twice.drop_what_is_beside()?.is_some());
    twice.keeps_all()?;
    assert!(data_packs(&twice.place.again()?)?.contains(&twice.hides));
    Ok(())
}

#[test]
fn damage_in_a_copy_that_a_merged_index_hides_is_made_good_by_the_other() -> Done {
    let twice = Twice::new()?;
    twice.damage_header(twice.hides)?;
    let repo = twice.place.again()?;
    let report = repo.verify(VerifyDepth::Full, &Job::default())?;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(report.made_good.len(), 1, "{report:?}");
    // Now no copy is intact.
    twice.damage(twice.named)?;
    let repo = twice.place.again()?;
    let report = repo.verify(VerifyDepth::Full, &Job::default())?;
    assert_eq!(report.damaged.len(), 1, "{report:?}");
    assert_eq!(report.files.len(), 1, "{report:?}");
    Ok(())
}

#[test]
fn a_copy_in_a_pack_that_is_gone_is_replaced_by_one_that_a_merged_index_hides() -> Done {
    let twice = Twice::new()?;
    std::fs::remove_file(twice.place.again()?.store().pack_path(twice.named))?;
    let mut bytes = Vec::new();
    let repo = twice.place.again()?;
    assert!(
        repo.store()
            .read_into(ObjectType::Chunk, &twice.x, &mut bytes)?
    );
    assert_eq!(bytes, twice.contents[&twice.x].1);
    let report = repo.verify(VerifyDepth::Normal, &Job::default())?;
    assert!(report.damaged.is_empty(), "{report:?}");
    let lost: Vec<_> = report.lost_packs.iter().map(|pack| pack.id).collect();
    assert_eq!(lost, [twice.named]);
    assert_eq!(report.lost_packs[0].objects, 4, "what it held: {report:?}");
    Ok(())
}

#[test]
fn a_pack_that_hides_the_last_whole_copy_is_not_freed() -> Done {
    let twice = Twice::new()?;
    twice.damage(twice.named)?;
    let why = twice.drop_what_is_beside()?.ok_or("it was freed")?;
    assert!(why.contains("the only intact copy"), "{why}");
    twice.keeps_all()?;
    assert!(data_packs(&twice.place.again()?)?.contains(&twice.hides));
    Ok(())
}

#[test]
fn a_pack_that_hides_a_copy_of_what_is_whole_elsewhere_is_freed() -> Done {
    let twice = Twice::new()?;
    assert_eq!(twice.drop_what_is_beside()?, None);
    twice.keeps_all()?;
    assert!(!data_packs(&twice.place.again()?)?.contains(&twice.hides));
    Ok(())
}

/// Tables name both copies. When one pack is rewritten, the damage to the other copy is not known
/// yet.
#[test]
fn what_is_moved_out_of_a_pack_does_not_count_on_a_copy_that_nobody_has_read() -> Done {
    let place = Place::new()?;
    let ids = small_files(&place, &["x", "goes", "goes too"], &mut Rng::new(3))?;
    let contents = contents(&place.again()?)?;
    let first = data_packs(&place.again()?)?.pop_first().ok_or("a pack")?;
    let other = store_again(&place, &[vec![ids[0]]])?;
    let (_, bytes) = &contents[&ids[0]];
    assert!(damage_copy(&place.again()?, other, bytes)?);
    let blobs: Vec<Blob> = ids[1..].iter().map(|id| contents[id].0).collect();
    drop_blobs(&place.again()?, &blobs)?;
    assert!(!data_packs(&place.again()?)?.contains(&first));
    let now = place.again()?;
    keeps_all_but(&now, &contents, &dropped(&now)?)
}
