//! The guide, as part of the program: `dmv help TOPIC`.

use dmv_core::escape::Hint;

/// The pages by the names of their files.
const PAGES: [(&str, &str); 27] = [
    ("backup", include_str!("../../../docs/guide/backup.md")),
    ("bucket", include_str!("../../../docs/guide/bucket.md")),
    (
        "bucket-trouble",
        include_str!("../../../docs/guide/bucket-trouble.md"),
    ),
    (
        "check-by-cron",
        include_str!("../../../docs/guide/check-by-cron.md"),
    ),
    (
        "conflicts",
        include_str!("../../../docs/guide/conflicts.md"),
    ),
    (
        "disk-space",
        include_str!("../../../docs/guide/disk-space.md"),
    ),
    (
        "exploring-history",
        include_str!("../../../docs/guide/exploring-history.md"),
    ),
    (
        "first-repository",
        include_str!("../../../docs/guide/first-repository.md"),
    ),
    (
        "for-git-users",
        include_str!("../../../docs/guide/for-git-users.md"),
    ),
    (
        "ignoring-files",
        include_str!("../../../docs/guide/ignoring-files.md"),
    ),
    ("merging", include_str!("../../../docs/guide/merging.md")),
    ("nas", include_str!("../../../docs/guide/nas.md")),
    (
        "new-computer",
        include_str!("../../../docs/guide/new-computer.md"),
    ),
    ("purging", include_str!("../../../docs/guide/purging.md")),
    (
        "rearranging",
        include_str!("../../../docs/guide/rearranging.md"),
    ),
    (
        "scripting",
        include_str!("../../../docs/guide/scripting.md"),
    ),
    ("slices", include_str!("../../../docs/guide/slices.md")),
    (
        "small-repository",
        include_str!("../../../docs/guide/small-repository.md"),
    ),
    ("subsets", include_str!("../../../docs/guide/subsets.md")),
    (
        "two-computers",
        include_str!("../../../docs/guide/two-computers.md"),
    ),
    (
        "two-laptops",
        include_str!("../../../docs/guide/two-laptops.md"),
    ),
    ("undoing", include_str!("../../../docs/guide/undoing.md")),
    ("upgrade", include_str!("../../../docs/guide/upgrade.md")),
    ("usb-disk", include_str!("../../../docs/guide/usb-disk.md")),
    ("web", include_str!("../../../docs/guide/web.md")),
    (
        "when-something-goes-wrong",
        include_str!("../../../docs/guide/when-something-goes-wrong.md"),
    ),
    (
        "worktrees",
        include_str!("../../../docs/guide/worktrees.md"),
    ),
];

/// The word for the list of the pages.
pub const LIST: &str = "topics";

/// The page about `topic`, or the list of all.
pub fn page(topic: &str) -> Option<String> {
    if topic == LIST {
        return Some(list());
    }
    let found = PAGES.iter().find(|(name, _)| *name == topic);
    found.map(|(_, text)| (*text).to_owned())
}

/// The pages with their titles.
fn list() -> String {
    let width = PAGES.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = "The pages of the guide; dmv help TOPIC shows one:\n\n".to_owned();
    for (name, page) in PAGES {
        text += &format!("  {name:<width$}  {}\n", title(page));
    }
    text
}

fn title(page: &str) -> &str {
    let first = page.lines().next().unwrap_or_default();
    first.trim_start_matches('#').trim()
}

/// What to run where there is neither a command nor a page of this name.
pub fn near(topic: &str) -> Option<Hint> {
    let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
    let close = crate::verbs::near(topic, &names);
    let first = close.first()?;
    Some(Hint::of_page(format!("dmv help {first}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_the_guide_is_a_topic() -> std::io::Result<()> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir("../../docs/guide")? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            files.extend(name.strip_suffix(".md").map(str::to_owned));
        }
        files.retain(|name| name != "index");
        files.sort();
        let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, files);
        for (name, _) in PAGES {
            assert!(
                page(name).is_some_and(|text| text.starts_with("# ")),
                "{name}"
            );
            assert!(list().contains(&format!("\n  {name} ")), "{name}");
        }
        assert_eq!(page("nothing"), None);
        assert_eq!(
            near("undoin").as_ref().map(Hint::as_str),
            Some("dmv help undoing")
        );
        Ok(())
    }
}
