//! The files of a bucket decode or are refused; what decodes has these bytes and no others.
#![no_main]

use dmv_bucket::format::{Name, Page, Places, Root};
use dmv_core::hash::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(places) = Places::decode(data) {
        assert_eq!(places.encode().as_deref(), Ok(data));
    }
    files(data);
    // No mutation would pass the check.
    if let Some(end) = data.len().checked_sub(8) {
        files(&[&data[..end], &check(&[&data[..end]])].concat());
    }
});

fn files(data: &[u8]) {
    if let Ok(root) = Root::decode(data) {
        assert_eq!(root.encode().as_deref(), Ok(data));
        assert!(root.can_follow(&root));
    }
    if let Ok(page) = Page::decode(data) {
        let (named, bytes) = page.encode(Name([1; 16])).expect("it was decoded");
        assert_eq!(bytes, data);
        assert_eq!(named.items as usize, page.items());
    }
}
