//! Keep rules: which versions of which paths stay when `expire` gives up content.
//!
//! Rules come from the `.dmvattributes` files of one commit and from the view, where the local ones
//! are. A local rule wins over all others, a deeper file over those above it, and a later line over
//! an earlier one. The module decides about paths. What a rule keeps of a path's versions is decided
//! by `versions`.

use crate::hash::ObjectId;
use crate::limits::{MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTE_FILES, MAX_IGNORE_BYTES, MAX_KEEP_BYTES};
use crate::object::name::{RepoPath, escape};
use crate::object::tree::{Kind, TreeEntry, TreeIter};
use crate::refs::Effect;
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::keys::KEEP_RULES;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::look::entries::{ListingLine, blob_of, path_in};
use crate::repo::look::lack;
use crate::subset::Extent;
use crate::worktree::attributes::{
    AttributeLine, DMVATTRIBUTES, Patterns, attribute_lines, check_pattern,
};
use crate::worktree::claim_rules::check_claim_word;
use crate::worktree::properties::is_about_properties;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

/// The attribute that has a rule.
const KEEP: &str = "keep";

/// What stays of the versions of a path. Whatever a rule says, the versions that branches, tags and
/// worktrees name stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeepRule {
    /// The newest versions on each branch: so many different contents.
    Last(u32),
    /// What a branch had within so many days.
    Days(u32),
    /// What a tag has.
    Tagged,
    /// Everything.
    All,
    /// Nothing but what stays in any case.
    None,
}

/// The error for a text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a keep rule; a rule is last:N, days:N, tagged, all or none")]
pub struct NotARule(pub String);

impl FromStr for KeepRule {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<KeepRule, NotARule> {
        let fail = || NotARule(escape(text.as_bytes()).to_string());
        let number = |digits: &str| {
            let is_plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
            let number = digits.parse::<u32>().ok().filter(|_| is_plain);
            number.ok_or_else(fail)
        };
        match text {
            "tagged" => Ok(KeepRule::Tagged),
            "all" => Ok(KeepRule::All),
            "none" => Ok(KeepRule::None),
            text => match text.split_once(':') {
                Some(("last", digits)) => Ok(KeepRule::Last(number(digits)?)),
                Some(("days", digits)) => Ok(KeepRule::Days(number(digits)?)),
                _ => Err(fail()),
            },
        }
    }
}

impl fmt::Display for KeepRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepRule::Last(number) => write!(f, "last:{number}"),
            KeepRule::Days(number) => write!(f, "days:{number}"),
            KeepRule::Tagged => f.write_str("tagged"),
            KeepRule::All => f.write_str("all"),
            KeepRule::None => f.write_str("none"),
        }
    }
}

/// Where a rule stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleSource {
    /// In a file of the commit: its path, and the number of the line.
    File(Vec<u8>, usize),
    /// Among the local rules.
    Local,
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleSource::File(path, line) => write!(f, "{}:{line}", escape(path)),
            RuleSource::Local => f.write_str("local"),
        }
    }
}

/// A rule and the pattern of the files that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleLine {
    /// Where it stands.
    pub source: RuleSource,
    /// The pattern.
    pub pattern: String,
    /// The rule.
    pub rule: KeepRule,
}

/// Something to say about an attribute file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    /// The file.
    pub path: RepoPath,
    /// The number of the line; 0 for the whole file.
    pub line: usize,
    /// What it is, as a clause.
    pub why: String,
    /// Whether it is unknown what the file wants to be kept. Then nothing may expire.
    pub is_fatal: bool,
}

impl RuleProblem {
    /// Returns the file and the line, as in `.dmvattributes:3`.
    pub fn place(&self) -> String {
        match self.line {
            0 => self.path.to_string(),
            line => format!("{}:{line}", self.path),
        }
    }
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.why)
    }
}

/// All keep rules of a repository.
#[derive(Debug, Default)]
pub struct KeepRules {
    /// The rules: those of files in the order of their paths, then the local ones.
    pub lines: Vec<RuleLine>,
    /// What is wrong with the files.
    pub problems: Vec<RuleProblem>,
    local: Option<Level>,
    /// The levels of files, by their directory.
    files: BTreeMap<Vec<u8>, Level>,
}

/// The rules of one file.
#[derive(Debug)]
struct Level {
    patterns: Patterns,
    /// The number of the first rule in `KeepRules::lines`.
    first: usize,
}

impl KeepRules {
    /// Returns the number of the rule in [`lines`](Self::lines) that decides about the file at `path`.
    pub fn decides(&self, path: &[u8]) -> Option<usize> {
        let found = |level: &Level, path: &[u8]| {
            let place = level.patterns.last(path)?;
            Some(level.first + place)
        };
        if let Some(number) = self.local.as_ref().and_then(|level| found(level, path)) {
            return Some(number);
        }
        if self.files.is_empty() {
            return None;
        }
        let mut end = path.iter().rposition(|b| *b == b'/');
        loop {
            let (dir, rest) = match end {
                Some(end) => (&path[..end], &path[end + 1..]),
                None => (&b""[..], path),
            };
            let level = self.files.get(dir);
            if let Some(number) = level.and_then(|level| found(level, rest)) {
                return Some(number);
            }
            let at = end?;
            end = path[..at].iter().rposition(|b| *b == b'/');
        }
    }

    /// Returns the rule for the file at `path`.
    pub fn rule(&self, path: &[u8]) -> KeepRule {
        let number = self.decides(path);
        number.map_or(KeepRule::All, |number| self.lines[number].rule)
    }

    /// Returns whether a later line of the same file has another rule for the same pattern. Then `problems`
    /// says so.
    pub fn is_replaced(&self, number: usize) -> bool {
        let file_of = |line: &RuleLine| match &line.source {
            RuleSource::File(path, _) => Some(path.clone()),
            RuleSource::Local => None,
        };
        let line = &self.lines[number];
        let (file, mut later) = (file_of(line), self.lines[number + 1..].iter());
        let next = later.find(|next| file_of(next) == file && next.pattern == line.pattern);
        file.is_some() && next.is_some_and(|next| next.rule != line.rule)
    }

    /// Adds the lines of the file at `path`.
    fn add_file(&mut self, path: &RepoPath, text: &[u8]) {
        let (lines, bad) = attribute_lines(text);
        for bad in bad {
            self.complain(path, bad.number, bad.why, true);
        }
        let first = self.lines.len();
        for line in lines {
            if let Some(rule) = self.rule_of(path, &line) {
                self.note_replaced(path, first, &line, rule);
                self.lines.push(RuleLine {
                    source: RuleSource::File(path.as_bytes().to_vec(), line.number),
                    pattern: line.pattern,
                    rule,
                });
            }
        }
        if self.lines.len() == first {
            return;
        }
        match Patterns::new(self.lines[first..].iter().map(|line| &line.pattern[..])) {
            Ok(patterns) => {
                let dir = path.parent().unwrap_or_default();
                let level = Level { patterns, first };
                self.files.insert(dir.as_bytes().to_vec(), level);
            }
            Err(why) => self.complain(path, 0, why, true),
        }
    }

    /// Returns the rule of a line, if it has one.
    fn rule_of(&mut self, path: &RepoPath, line: &AttributeLine) -> Option<KeepRule> {
        let mut rule = None;
        if line.words.is_empty() {
            let why = "it has a pattern and no attribute, such as keep=last:5".to_owned();
            self.complain(path, line.number, why, true);
        }
        for word in &line.words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            if is_about_properties(word) {
                continue;
            }
            if let Some(said) = check_claim_word(word) {
                let is_at_root = path.depth() == 1;
                let why = match said {
                    Ok(()) if is_at_root => continue,
                    Ok(()) => "claim has an effect only in the file at the root".to_owned(),
                    Err(why) => why,
                };
                self.complain(path, line.number, why, false);
                continue;
            }
            if key != KEEP {
                let why = format!("unknown attribute '{}'", escape(key.as_bytes()));
                self.complain(path, line.number, why, false);
                continue;
            }
            if value.is_empty() {
                let why = "keep has no value; write for example keep=last:5".to_owned();
                self.complain(path, line.number, why, true);
                continue;
            }
            match value.parse::<KeepRule>() {
                Ok(_) if rule.is_some() => {
                    let why = "it has more than one keep rule".to_owned();
                    self.complain(path, line.number, why, true);
                }
                Ok(found) => rule = Some(found),
                Err(e) => self.complain(path, line.number, e.to_string(), true),
            }
        }
        rule
    }

    /// Says that a line makes an earlier one of the same file pointless.
    fn note_replaced(
        &mut self,
        path: &RepoPath,
        first: usize,
        line: &AttributeLine,
        rule: KeepRule,
    ) {
        let mut earlier = self.lines[first..].iter();
        let Some(earlier) = earlier.rfind(|earlier| earlier.pattern == line.pattern) else {
            return;
        };
        if let (RuleSource::File(_, number), true) = (&earlier.source, earlier.rule != rule) {
            let pattern = escape(line.pattern.as_bytes());
            let why = format!(
                "it replaces line {number}, which says keep={} for '{pattern}'",
                earlier.rule
            );
            self.complain(path, line.number, why, false);
        }
    }

    fn complain(&mut self, path: &RepoPath, line: usize, why: String, is_fatal: bool) {
        self.problems.push(RuleProblem {
            path: path.clone(),
            line,
            why,
            is_fatal,
        });
    }

    fn add_local(&mut self, local: Vec<(String, KeepRule)>) -> Result<(), String> {
        if local.is_empty() {
            return Ok(());
        }
        let patterns = Patterns::new(local.iter().map(|(pattern, _)| &pattern[..]))?;
        let first = self.lines.len();
        self.local = Some(Level { patterns, first });
        let lines = local.into_iter().map(|(pattern, rule)| RuleLine {
            source: RuleSource::Local,
            pattern,
            rule,
        });
        self.lines.extend(lines);
        Ok(())
    }
}

impl Repo {
    /// Returns the keep rules: the local ones, and those in the `.dmvattributes` files of the commit
    /// that the worktree is on.
    ///
    /// Fails with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if such a file is not
    /// stored here.
    pub fn keep_rules(&self) -> Result<KeepRules, RepoError> {
        let mut rules = KeepRules::default();
        if let Some(commit) = self.head_commit()? {
            let tree = self.read_commit(&commit)?.tree;
            add_files(self, tree, &mut rules)?;
        }
        let added = rules.add_local(local_rules(self)?);
        added.map_err(|why| damaged(self, &why))?;
        Ok(rules)
    }

    /// Returns the rules in the files of a commit.
    ///
    /// Fails with `AbsentError::Lacking` if a file is not stored here.
    pub fn keep_rules_of(&self, commit: &ObjectId) -> Result<KeepRules, RepoError> {
        let mut rules = KeepRules::default();
        add_files(self, self.read_commit(commit)?.tree, &mut rules)?;
        Ok(rules)
    }
}

/// Adds the rules of all attribute files in a tree.
fn add_files(repo: &Repo, tree: ObjectId, rules: &mut KeepRules) -> Result<(), RepoError> {
    let files = attribute_files(repo, tree)?;
    if files.len() > MAX_ATTRIBUTE_FILES {
        let why = format!("there are more than {MAX_ATTRIBUTE_FILES} such files");
        rules.complain(&files[MAX_ATTRIBUTE_FILES].0, 0, why, true);
        return Ok(());
    }
    let (mut readable, mut bytes) = (Vec::new(), 0);
    for (path, entry) in &files {
        bytes += entry.size;
        let why = match entry.kind {
            Kind::File | Kind::Executable if entry.size > MAX_IGNORE_BYTES => {
                format!("it is larger than {MAX_IGNORE_BYTES} bytes")
            }
            Kind::File | Kind::Executable if bytes > MAX_ATTRIBUTE_BYTES => {
                format!("with it, such files have more than {MAX_ATTRIBUTE_BYTES} bytes")
            }
            Kind::File | Kind::Executable => {
                readable.push((path, entry));
                continue;
            }
            Kind::Conflict => "it has a conflict".to_owned(),
            _ => "it is not a file".to_owned(),
        };
        rules.complain(path, 0, why, true);
    }
    let entries = readable
        .iter()
        .map(|(path, entry)| (path.as_bytes(), *entry));
    lack::check_entries_here(repo, entries)?;
    for (path, entry) in readable {
        let mut text = Vec::new();
        repo.cat(blob_of(entry), None, &mut text)?;
        rules.add_file(path, &text);
    }
    Ok(())
}

/// Returns the attribute files of a tree in the order of their paths, as far as their directories are
/// stored on purpose. Their content may be absent.
fn attribute_files(repo: &Repo, tree: ObjectId) -> Result<Vec<(RepoPath, TreeEntry)>, RepoError> {
    let subset = repo.slice()?.subset;
    let mut found = Vec::new();
    let mut dirs = vec![(RepoPath::root(), tree)];
    while let Some((dir, tree)) = dirs.pop() {
        for entry in TreeIter::new(repo.objects(), tree) {
            let entry = entry?;
            let is_file = entry.name.as_bytes() == DMVATTRIBUTES;
            if is_file || entry.kind == Kind::Directory {
                let path = path_in(repo, &dir, tree, &entry)?;
                if is_file {
                    found.push((path, entry));
                } else if subset.extent(path.as_bytes()) != Extent::None {
                    dirs.push((path, entry.id));
                }
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

impl Repo {
    /// Returns the numbers of the rules that decide about no file of the commit that the worktree is
    /// on.
    pub fn idle_rules(&self, rules: &KeepRules) -> Result<Vec<usize>, RepoError> {
        let mut idle = vec![true; rules.lines.len()];
        if let Some(commit) = self.head_commit()? {
            let tree = self.read_commit(&commit)?.tree;
            let subset = self.slice()?.subset;
            let mut visit = |listed: ListingLine| {
                if let Some(number) = rules.decides(listed.path.as_bytes()) {
                    idle[number] = false;
                }
                Ok(ControlFlow::Continue(()))
            };
            self.list_subset(&RepoPath::root(), tree, &subset, &mut visit)?;
        }
        let idle = idle.into_iter().enumerate().filter(|(_, idle)| *idle);
        Ok(idle.map(|(number, _)| number).collect())
    }
}

/// Returns the local rules with their patterns, in order.
fn local_rules(repo: &Repo) -> Result<Vec<(String, KeepRule)>, RepoError> {
    let value = repo.refs.get(KEEP_RULES)?.unwrap_or_default();
    parse_local(&value).ok_or_else(|| damaged(repo, "they do not read back"))
}

/// Parses the local rules as `keep/rules` has them: lines of a rule, a space and a pattern.
fn parse_local(value: &[u8]) -> Option<Vec<(String, KeepRule)>> {
    if value.len() > MAX_KEEP_BYTES {
        return None;
    }
    let parse = |line: &str| {
        let (rule, pattern) = line.split_once(' ')?;
        check_pattern(pattern).ok()?;
        Some((pattern.to_owned(), rule.parse().ok()?))
    };
    let text = std::str::from_utf8(value).ok()?;
    text.lines().map(parse).collect()
}

fn damaged(repo: &Repo, why: &str) -> RepoError {
    RepoError::Place(PlaceError::Damaged {
        path: repo.refs.path().to_owned(),
        why: format!("the local keep rules are invalid: {why}"),
    })
}

impl Repo {
    /// Gives a pattern a local keep rule, as the last one. Returns the rule that the pattern had.
    pub fn set_keep_rule(
        &self,
        pattern: &str,
        rule: KeepRule,
        request: OperationRequest,
    ) -> Result<Option<KeepRule>, RepoError> {
        let refuse = |why: String| {
            let pattern = escape(pattern.as_bytes());
            RepoError::Text(format!("pattern '{pattern}': {why}"))
        };
        check_pattern(pattern).map_err(refuse)?;
        let mut rules = local_rules(self)?;
        let at = rules.iter().position(|(known, _)| known == pattern);
        let old = at.map(|at| rules.remove(at).1);
        rules.push((pattern.to_owned(), rule));
        store_local(self, &rules, request)?;
        Ok(old)
    }

    /// Removes the local keep rule of a pattern. Returns it, or `None` if there is none.
    pub fn remove_keep_rule(
        &self,
        pattern: &str,
        request: OperationRequest,
    ) -> Result<Option<KeepRule>, RepoError> {
        let mut rules = local_rules(self)?;
        let Some(at) = rules.iter().position(|(known, _)| known == pattern) else {
            return Ok(None);
        };
        let (_, rule) = rules.remove(at);
        store_local(self, &rules, request)?;
        Ok(Some(rule))
    }
}

fn store_local(
    repo: &Repo,
    rules: &[(String, KeepRule)],
    request: OperationRequest,
) -> Result<(), RepoError> {
    let lines: Vec<String> = rules
        .iter()
        .map(|(pattern, rule)| format!("{rule} {pattern}\n"))
        .collect();
    let value = lines.concat().into_bytes();
    if value.len() > MAX_KEEP_BYTES {
        let text = format!("local keep rules take at most {MAX_KEEP_BYTES} bytes");
        return Err(RepoError::Text(text));
    }
    let value = (!value.is_empty()).then_some(value);
    let mut tx = Transaction::begin(repo, &request);
    tx.set(KEEP_RULES.to_owned(), value)?;
    tx.publish_changes(Effect::Kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> RepoPath {
        RepoPath::parse(path.as_bytes()).expect("a sound path")
    }

    fn rules(files: &[(&str, &str)], local: &[(&str, &str)]) -> KeepRules {
        let mut rules = KeepRules::default();
        for (name, text) in files {
            rules.add_file(&path(name), text.as_bytes());
        }
        let local = local.iter().map(|(pattern, rule)| {
            let rule = rule.parse().expect("a sound rule");
            ((*pattern).to_owned(), rule)
        });
        rules.add_local(local.collect()).expect("sound patterns");
        rules
    }

    #[test]
    fn rules_read_back_and_others_are_refused() {
        for text in [
            "last:5",
            "days:90",
            "tagged",
            "all",
            "none",
            "last:4294967295",
        ] {
            let rule: KeepRule = text.parse().expect("it is a rule");
            assert_eq!(rule.to_string(), text);
        }
        for text in [
            "",
            "last",
            "last:",
            "last:0",
            "last:05",
            "last:+5",
            "last:-1",
            "last:4294967296",
            "days:1d",
            "All",
            "all ",
            "tagged:1",
        ] {
            assert!(text.parse::<KeepRule>().is_err(), "{text}");
        }
    }

    #[test]
    fn local_rules_win_then_deeper_files_then_later_lines() {
        let rules = rules(
            &[
                (
                    ".dmvattributes",
                    "*.exr keep=days:90\n/renders/** keep=last:5\n/final keep=all\n",
                ),
                ("final/old/.dmvattributes", "*.exr keep=none\n"),
            ],
            &[("*.psd", "last:2"), ("/renders/keep", "all")],
        );
        for (name, want) in [
            ("a.exr", "days:90"),
            ("renders/a.exr", "last:5"),
            ("renders", "all"),
            ("final/a.exr", "all"),
            ("final/old/a.exr", "none"),
            ("final/old/deep/a.exr", "none"),
            ("final/old/a.mov", "all"),
            ("final/x.psd", "last:2"),
            ("renders/keep/a.exr", "all"),
            ("other", "all"),
        ] {
            assert_eq!(rules.rule(name.as_bytes()).to_string(), want, "{name}");
        }
        assert!(rules.problems.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_and_what_is_unclear_is_fatal() {
        let text = "a keep=last:1 text\na keep=all\nb keep=old:3\nc keep=all keep=none\nd\n\
                    !e keep=all\nf keep=all\na keep=all\n";
        let rules = rules(&[("dir/.dmvattributes", text)], &[]);
        let said: Vec<_> = rules
            .problems
            .iter()
            .map(|problem| (problem.line, problem.is_fatal))
            .collect();
        let want = [
            (6, true),
            (1, false),
            (2, false),
            (3, true),
            (4, true),
            (5, true),
        ];
        assert_eq!(said, want);
        let first = rules.problems[1].to_string();
        assert_eq!(first, "dir/.dmvattributes:1: unknown attribute 'text'");
        let second = rules.problems[2].to_string();
        assert!(second.contains("replaces line 1"), "{second}");
        assert_eq!(rules.rule(b"dir/a"), KeepRule::All);
        let last = rules
            .decides(b"dir/f")
            .map(|n| rules.lines[n].source.to_string());
        assert_eq!(last.as_deref(), Some("dir/.dmvattributes:7"));
    }

    #[test]
    fn local_rules_are_lines_of_the_view() {
        let value = b"last:5 *.mov\nall a b\n";
        let rules = parse_local(value).expect("they are sound");
        let want = [
            ("*.mov".to_owned(), KeepRule::Last(5)),
            ("a b".to_owned(), KeepRule::All),
        ];
        assert_eq!(rules, want);
        for bad in [
            &b"last:5"[..],
            b"first:1 a\n",
            b"all !a\n",
            b"all \n",
            b"\xff a\n",
        ] {
            assert!(parse_local(bad).is_none(), "{bad:?}");
        }
        assert!(parse_local(&vec![b'\n'; MAX_KEEP_BYTES + 1]).is_none());
        assert_eq!(parse_local(b""), Some(Vec::new()));
    }
}
