//! The guide, as part of the program: `dmv help TOPIC`.

use dmv_core::escape::Hint;

/// Pages of `docs/guide` with their names.
macro_rules! pages {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../docs/guide/", $name, ".md")))),*]
    };
}

/// The pages by the names of their files.
const PAGES: &[(&str, &str)] = pages! {
    "backup" "bucket" "bucket-trouble" "check-by-cron" "claims" "conflicts" "disk-space" "exploring-history"
    "first-repository" "for-git-users" "from-git" "hooks" "ignoring-files" "merging" "nas" "new-computer" "programs" "purging"
    "rearranging" "scripting" "signing" "slices" "small-repository" "subsets" "two-computers" "two-laptops"
    "undoing" "upgrade" "usb-disk" "web" "when-something-goes-wrong" "worktrees"
};

/// The word for the list of the pages.
pub const LIST: &str = "topics";

/// The page about `topic`, or the list of all.
pub fn page(topic: &str) -> Option<String> {
    if topic == LIST {
        return Some(list());
    }
    // A command may have the name of a page.
    let topic = topic.strip_prefix("guide/").unwrap_or(topic);
    let found = PAGES.iter().find(|(name, _)| *name == topic);
    found.map(|(_, text)| (*text).to_owned())
}

/// The pages with their titles.
fn list() -> String {
    let width = PAGES.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = "The pages of the guide; dmv help guide/TOPIC shows one:\n\n".to_owned();
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
    let close = crate::other_tools::near(topic, &names);
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
