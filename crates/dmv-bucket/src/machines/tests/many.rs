//! Ten thousand pushes of one device, without gc between them.

use super::*;
use crate::format::{Name, Page, Row, RowKind};
use dmv_core::refs::Timestamp;
use dmv_core::store::RepositoryId;
use std::collections::HashMap;

const PUSHES: u64 = 10_000;
/// Requests of one push.
const MAX_REQUESTS: usize = 4;
const MAX_ROOT_BYTES: usize = 128 << 10;

fn number(n: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&n.to_le_bytes());
    id
}

/// A bucket that does what it is asked.
struct Bucket {
    root: Root,
    pages: HashMap<Name, Page>,
    ids: u64,
}

impl Bucket {
    fn tag(&self) -> Tag {
        Tag {
            etag: Some(self.root.generation.to_string()),
            version: None,
        }
    }

    /// Answers a request. Returns how many requests of a store it takes, too.
    fn answer(&mut self, request: &Request) -> (Answer, usize) {
        match request {
            Request::GetRoot { .. } => (Answer::Root(Box::new(self.root.clone()), self.tag()), 1),
            Request::GetPages(wanted) => {
                let pages = wanted.iter().map(|page| self.pages[&page.name].clone());
                (Answer::Pages(pages.collect()), wanted.len())
            }
            Request::PutPages(pages) => {
                for (name, bytes) in pages {
                    let page = Page::decode(bytes).expect("a page");
                    self.pages.insert(*name, page);
                }
                (Answer::Done, pages.len())
            }
            Request::PutRoot { bytes, over } => {
                assert_eq!(*over, Some(self.tag()));
                assert!(bytes.len() <= MAX_ROOT_BYTES, "{} bytes", bytes.len());
                self.root = Root::decode(bytes).expect("a root");
                (Answer::Replaced(self.tag()), 1)
            }
            Request::Delete(_) => panic!("a push deletes nothing"),
        }
    }

    /// Pushes one commit with one pack, and returns the number of requests.
    fn push(&mut self, n: u64) -> usize {
        let stamp = Stamp {
            id: number(n),
            time: Timestamp {
                seconds: 0,
                nanos: 0,
                tz_minutes: 0,
            },
            who: "ada@laptop".to_owned(),
            command: "dmv push studio".to_owned(),
            undoes: 0,
        };
        let key = "branch/main".to_owned();
        let old = (n > 1).then(|| [number(n - 1), number(0)].concat());
        let new = Some([number(n), number(0)].concat());
        let changes = vec![Change { key, old, new }];
        let mut push = Push::new(stamp, changes, None, Vec::new(), Limits::default());
        let (mut requests, mut ids) = (0, self.ids);
        let mut fresh = || {
            ids += 1;
            number(1 << 32 | ids)
        };
        let mut step = push.start(&mut fresh);
        loop {
            step = match step {
                Step::Ask(request) => {
                    let (answer, count) = self.answer(&request);
                    requests += count;
                    push.answer(answer, &mut fresh)
                }
                Step::Work(_) => {
                    requests += 1;
                    let row = Row {
                        generation: 1,
                        name: Name(number(1 << 33 | n)),
                        kind: RowKind::Joint,
                        metadata: 4_000,
                        commits_end: 4_300,
                        tail: 5_000,
                        len: 6_000,
                    };
                    let done = Preparation {
                        rows: vec![row],
                        ..Preparation::default()
                    };
                    push.prepared(Some(done), &mut fresh)
                }
                Step::Done(PushEnd::Landed { .. }) => break,
                other => panic!("{other:?}"),
            };
        }
        self.ids = ids;
        requests
    }
}

#[test]
fn no_push_of_ten_thousand_takes_more_than_four_requests_or_a_large_root() {
    let repository = RepositoryId::from_bytes([7; 16]);
    let mut bucket = Bucket {
        root: Root::first(repository, [1; 16]),
        pages: HashMap::new(),
        ids: 0,
    };
    for n in 1..=PUSHES {
        let requests = bucket.push(n);
        assert!(requests <= MAX_REQUESTS, "push {n}: {requests}");
    }
    assert_eq!(bucket.root.last.0, PUSHES);
    assert!(!bucket.pages.is_empty());
}
