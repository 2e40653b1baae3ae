//! The work of an artist in a real browser, by mouse and by keyboard, and content that tries to run.

use crate::changes::clash;
use crate::driver::{Browser, ENTER};
use crate::long::enlarge;
use crate::served::{Film, Served};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A picture that browsers show: one pixel of a colour, as a GIF.
fn pixel(colour: u8) -> Vec<u8> {
    let head = b"GIF89a\x01\0\x01\0\x80\0\0";
    let colours = [colour, 0, 0, 255, 255, 255];
    let image = b",\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    [&head[..], &colours, image].concat()
}

/// A sound: a sine of `hertz`, one channel of 16 bits.
fn tone(hertz: u32, seconds: f64) -> Vec<u8> {
    let rate = 48_000_u32;
    let samples = (f64::from(rate) * seconds) as u32;
    let mut out = b"RIFF".to_vec();
    out.extend((36 + samples * 2).to_le_bytes());
    out.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    out.extend(rate.to_le_bytes());
    out.extend((rate * 2).to_le_bytes());
    out.extend(b"\x02\0\x10\0data");
    out.extend((samples * 2).to_le_bytes());
    for n in 0..samples {
        let angle = f64::from(n) * f64::from(hertz) * std::f64::consts::TAU / f64::from(rate);
        out.extend(((angle.sin() * 12_000.0) as i16).to_le_bytes());
    }
    out
}

fn shots() -> Film {
    let film = Film::new();
    film.write("titles/title.gif", pixel(10));
    film.write("notes.txt", "one\ntwo\n");
    film.commit("first look");
    film.write("titles/title.gif", pixel(200));
    film.commit("warmer title");
    film
}

#[test]
fn an_artist_finds_compares_restores_commits_and_undoes() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let film = shots();
    let served = film.serve();
    browser.open(&served.address);
    assert!(
        browser.url().ends_with(&format!(":{}/", served.port)),
        "the token is not in the address"
    );
    browser.wait_for("Nothing has changed");
    browser.click("Files");
    browser.click("titles");
    browser.click("title.gif");
    browser.wait_for("Versions");
    browser.click("Compare A with B");
    browser.wait_for("Side by side");
    browser.wait_for("1 \u{d7} 1");
    let shown = || {
        browser.run(
            "return document.querySelector('[data-compare]').dataset.show",
            Value::Null,
        )
    };
    for (key, mode) in [
        ("2", "swipe"),
        ("3", "onion"),
        ("4", "difference"),
        ("5", "blink"),
        ("1", "side"),
    ] {
        browser.keys(key);
        assert_eq!(shown(), mode);
    }
    browser.keys("+");
    let scales =
        "return [...document.querySelectorAll('[data-compare] img')].map((i) => i.style.transform)";
    let scales = browser.run(scales, Value::Null);
    assert_eq!(scales[0], scales[1], "both pictures are zoomed");
    assert!(
        scales[0].as_str().is_some_and(|s| s.contains("1.5")),
        "{scales}"
    );
    browser.click("Files");
    browser.click("titles");
    browser.click("title.gif");
    browser.click("first look");
    browser.click("Restore this version");
    browser.wait_for("Restored titles/title.gif");
    assert_eq!(
        std::fs::read(film.root().join("titles/title.gif")).expect("a file"),
        pixel(10)
    );
    browser.click("Overview");
    browser.wait_for("1 file has changed");
    browser.run("document.getElementById('message').focus()", Value::Null);
    browser.keys("back to the first title");
    browser.click("Commit");
    browser.wait_for("Committed ");
    browser.click("Undo");
    browser.wait_for("Undone: dmv web: commit");
    browser.wait_for("1 file has changed");
    browser.click("Undo");
    browser.wait_for("Nothing has changed");
    assert_eq!(
        std::fs::read(film.root().join("titles/title.gif")).expect("a file"),
        pixel(200)
    );
}

#[test]
fn a_conflict_is_settled_by_keyboard_alone() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let film = clash();
    let served = film.serve();
    browser.open(&served.address);
    browser.wait_for("in conflict");
    browser.tab_to("Skip to content", 1);
    browser.tab_to("Conflicts", 12);
    browser.keys(ENTER);
    browser.wait_for("Use this version");
    browser.tab_to("Use this version", 30);
    browser.tab_to("Use this version", 10);
    browser.keys(ENTER);
    browser.wait_for("Resolved s4.png: theirs");
    browser.tab_to("Overview", 12);
    browser.keys(ENTER);
    browser.wait_for("What did you change?");
    browser.tab_to("What did you change?", 30);
    browser.keys("settled");
    browser.tab_to("Commit", 2);
    browser.keys(ENTER);
    browser.wait_for("Committed ");
    assert_eq!(
        std::fs::read(film.root().join("s4.png")).expect("a file"),
        b"\x89PNG theirs"
    );
}

#[test]
fn nothing_in_a_repository_runs() {
    let Some(browser) = Browser::start() else {
        return;
    };
    // What runs would call here.
    let calls = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let counted = calls.clone();
    std::thread::spawn(move || {
        for _ in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let film = Film::new();
    let call = format!("fetch('http://127.0.0.1:{port}/');document.title='ran'");
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"{call}\"><script>{call}</script><image href=\"http://127.0.0.1:{port}/\"/></svg>"
    );
    let html = format!(
        "<img src=x onerror=\"{call}\"><script>{call}</script><iframe src=\"http://127.0.0.1:{port}/\"></iframe>"
    );
    film.write("a.svg", &svg);
    film.write("a.html", &html);
    film.write("a.txt", &html);
    film.write("\"><script>document.title='ran'<\\script>.txt", &html);
    film.write("<img src=x onerror=document.title='ran'>.svg", &svg);
    film.commit(&format!("{html}\n\n{svg}"));
    let served = film.serve();
    browser.open(&served.address);
    let base = format!("http://127.0.0.1:{}", served.port);
    let names = [
        "a.svg",
        "a.html",
        "a.txt",
        "%22%3E%3Cscript%3Edocument.title='ran'%3C%5Cscript%3E.txt",
        "%3Cimg%20src=x%20onerror=document.title='ran'%3E.svg",
    ];
    let mut targets = vec![
        "/".to_owned(),
        "/log".to_owned(),
        "/tree/@".to_owned(),
        "/tree/@?view=grid".to_owned(),
    ];
    for name in names {
        targets.push(format!("/file/@/{name}"));
        targets.push(format!("/raw/@/{name}"));
        targets.push(format!("/log/{name}"));
        targets.push(format!("/file/@/{name}none"));
    }
    for target in targets {
        browser.open(&format!("{base}{target}"));
        std::thread::sleep(std::time::Duration::from_millis(60));
        assert_ne!(browser.title(), "ran", "{target}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

/// The rules of axe-core, which DMV_AXE names (npm pack axe-core), on each page, light and dark. DMV_SHOTS names a
/// directory for pictures of all these pages.
#[test]
fn pages_keep_the_rules_of_accessibility() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let Some(axe) = std::env::var_os("DMV_AXE").and_then(|path| std::fs::read_to_string(path).ok())
    else {
        dmv_random::skip("DMV_AXE does not name axe.min.js of axe-core");
        return;
    };
    let film = clash();
    film.write("notes.txt", "new");
    film.write("tone.wav", tone(220, 0.2));
    film.write("light.hdr", b"#?RADIANCE and nothing else");
    film.commit("sounds");
    film.write("tone.wav", tone(440, 0.2));
    let cache = tempfile::tempdir().expect("a directory");
    let served = Served::with_previews(film.root(), cache.path());
    browser.open(&served.address);
    let views = [
        ("light", 360),
        ("light", 1280),
        ("dark", 360),
        ("dark", 1280),
    ];
    // The changes make commits, so that addresses that count from the newest one mean others: they come last.
    for has_changes in [false, true] {
        for (scheme, width) in views {
            browser.emulate(scheme);
            browser.size(width, 900);
            let check = |page: &str| check(&browser, &axe, &format!("{page} {scheme} {width}"));
            if has_changes {
                check_change(&browser, &served, &film, &check)
            } else {
                check_each(&browser, &served, &check)
            }
        }
    }
}

fn check(browser: &Browser, axe: &str, page: &str) {
    browser.run(axe, Value::Null);
    let found = browser.run_later("const done = arguments[0]; axe.run().then((r) => done(r.violations.map((v) => v.id + ': ' + v.nodes[0].html)))");
    assert_eq!(found, json!([]), "{page}");
    let wider = browser.run(
        "return document.documentElement.scrollWidth > innerWidth",
        Value::Null,
    );
    assert_eq!(wider, json!(false), "{page} is wider than the window");
    browser.shoot(page);
}

/// The page of a change while it is under way, and after somebody stopped it, it succeeded and it failed.
fn check_change(browser: &Browser, served: &Served, film: &Film, check: &dyn Fn(&str)) {
    let base = format!("http://127.0.0.1:{}", served.port);
    let doing = format!("{base}/doing");
    let commit = |message| {
        browser.open(&base);
        browser.wait_for("What did you change?");
        browser.run("document.getElementById('message').focus()", Value::Null);
        browser.keys(message);
        browser.click("Commit");
    };
    let huge = film.root().join("huge.bin");
    enlarge(&huge);
    commit("much");
    browser.wait_for("Committing your files");
    browser.wait_for("If you stop, nothing is committed");
    check("/doing, under way");
    browser.click("Stop");
    browser.wait_for("You stopped the commit.");
    browser.open(&doing);
    browser.wait_for("To do: press Commit");
    check("/doing, stopped");
    std::fs::remove_file(&huge).expect("removed");
    film.write("note.txt", format!("{:?}", std::time::Instant::now()));
    commit("little");
    browser.wait_for("Committed ");
    browser.open(&doing);
    browser.wait_for("Committed ");
    browser.wait_for("Undo");
    check("/doing, done");
    // A form that an attentive page would not send.
    let token = "document.querySelector('[name=token]').value";
    let failed = browser.run_later(&format!(
        "const done = arguments[0], body = new URLSearchParams({{ token: {token} }});
         fetch('/undo?json', {{ method: 'POST', body }}).then((answer) => done(answer.status))"
    ));
    assert_eq!(failed, json!(400));
    browser.open(&doing);
    browser.wait_for("an undo names the operation");
    check("/doing, failed");
}

fn check_each(browser: &Browser, served: &Served, check: &dyn Fn(&str)) {
    let base = format!("http://127.0.0.1:{}", served.port);
    for target in [
        "/",
        "/log",
        "/tree/@",
        "/tree/@?view=grid",
        "/file/@/s4.png",
        "/file/@~2/s4.png",
        "/compare?a=@~2:s4.png&b=side:s4.png",
        "/compare?a=@~2:&b=side:",
        "/worktree",
        "/copies",
        "/file/@/tone.wav",
        "/file/@/light.hdr",
        "/compare?a=@:tone.wav&b=:tone.wav",
        "/compare?a=@:notes.txt&b=:notes.txt",
        "/log/s4.png",
        "/conflicts",
        "/none",
        "/doing",
    ] {
        browser.open(&format!("{base}{target}"));
        check(target);
    }
}

/// What the pixels of picture A are after the filter that the page puts on it.
const PIXEL: &str = "
    const done = arguments[0], img = document.querySelector('.a img');
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 1;
    const context = canvas.getContext('2d');
    context.filter = getComputedStyle(img).filter === 'none' ? 'none' : 'url(#look)';
    context.drawImage(img, 0, 0);
    done([...context.getImageData(0, 0, 1, 1).data]);";

#[test]
fn channels_and_exposure_show_real_pixels_by_keyboard() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let film = shots();
    film.write("titles/title.gif", pixel(90));
    let served = film.serve();
    browser.open(&served.address);
    let base = format!("http://127.0.0.1:{}", served.port);
    browser.open(&format!(
        "{base}/compare?a=@:titles/title.gif&b=:titles/title.gif"
    ));
    browser.wait_for("your file, as it is now");
    browser.wait_for("1 \u{d7} 1");
    let pixel = || browser.run_later(PIXEL);
    assert_eq!(pixel(), json!([200, 0, 0, 255]));
    for (key, want) in [
        ("r", json!([200, 200, 200, 255])),
        ("g", json!([0, 0, 0, 255])),
        ("b", json!([0, 0, 0, 255])),
        ("a", json!([255, 255, 255, 255])),
        ("c", json!([200, 0, 0, 255])),
    ] {
        browser.keys(key);
        assert_eq!(pixel(), want, "{key}");
    }
    // Half of the light of 200 is 146: sRGB is no straight line.
    browser.keys("[");
    let red = pixel()[0].as_i64().expect("a number");
    assert!((145..=147).contains(&red), "{red}");
    browser.keys("]");
    assert_eq!(pixel(), json!([200, 0, 0, 255]));
}

#[test]
fn two_sounds_play_from_one_clock() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let film = Film::new();
    film.write("tone.wav", tone(220, 1.5));
    film.commit("low");
    film.write("tone.wav", tone(440, 1.5));
    film.commit("high");
    let served = film.serve();
    browser.open(&served.address);
    let base = format!("http://127.0.0.1:{}", served.port);
    browser.open(&format!("{base}/compare?a=@~1:tone.wav&b=@:tone.wav"));
    browser.wait_for("Play both");
    browser.keys(" ");
    browser.wait_for("Sample-exact: both play from one clock");
    const AT: &str = "const e = document.querySelector('[data-players]').exact; return [e.now(), e.isB(), e.buffers[0].length === e.buffers[1].length]";
    let before = browser.run(AT, Value::Null);
    assert_eq!((&before[1], &before[2]), (&json!(false), &json!(true)));
    browser.keys("b");
    let after = browser.run(AT, Value::Null);
    assert_eq!(after[1], json!(true), "B is heard");
    assert!(
        after[0].as_f64() >= before[0].as_f64(),
        "it plays on: {before} {after}"
    );
    // What is too large says so, and plays all the same.
    browser.open(&format!("{base}/compare?a=@~1:tone.wav&b=@:tone.wav"));
    browser.run(
        "document.querySelector('[data-players]').dataset.bytes = 1e12",
        Value::Null,
    );
    browser.keys(" ");
    browser.wait_for("Not sample-exact: they are larger than");
}

/// Shifts of the layout and the largest paint, as the browser measures them, when the page is complete.
const PAINTS: &str = "
    const done = arguments[0], found = { shift: 0, paint: 0, moved: [] };
    const watch = (type, note) => new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ type, buffered: true });
    watch('layout-shift', (e) => { found.shift += e.value; found.moved.push(...e.sources.map((s) => s.node?.outerHTML ?? s.node?.textContent)); });
    watch('largest-contentful-paint', (e) => { found.paint = e.startTime; });
    const wait = () => document.querySelector('[data-load]') ? setTimeout(wait, 20) : setTimeout(() => done(found), 300);
    wait();";

#[test]
fn nothing_jumps_while_a_page_loads() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let film = shots();
    // So many that comparing them takes longer than the overview waits.
    for n in 0..12_000 {
        film.write(format!("d{}/f{n}", n % 40), "x");
    }
    film.commit("many");
    film.write("d1/f1", "changed");
    let served = film.serve();
    browser.open(&served.address);
    let base = format!("http://127.0.0.1:{}", served.port);
    for width in [360, 1280] {
        browser.size(width, 900);
        for target in [
            "/",
            "/log",
            "/tree/@",
            "/tree/@?view=grid",
            "/file/@/titles/title.gif",
            "/copies",
        ] {
            // On a busy machine the font may come late, and a word moves by a part of a pixel. What really moves does
            // so each time.
            let found = (0..3).map(|_| {
                browser.open(&format!("{base}{target}"));
                browser.run_later(PAINTS)
            });
            let mut all = Vec::new();
            let is_still = found
                .inspect(|found| all.push(found.clone()))
                .any(|found| found["shift"] == json!(0));
            assert!(is_still, "{target} at {width}: {all:?}");
        }
    }
    browser.open(&base);
    browser.wait_for("1 file has changed");
}

#[test]
fn an_artist_works_by_keyboard_alone() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let film = shots();
    let served = film.serve();
    browser.open(&served.address);
    browser.wait_for("Nothing has changed");
    let press = |name: &str, most| {
        browser.tab_to(name, most);
        browser.keys(ENTER);
    };
    press("Files", 12);
    press("titles", 30);
    press("title.gif", 30);
    browser.wait_for("Versions");
    press("Compare A with B", 30);
    browser.wait_for("Side by side");
    for (key, mode) in [
        ("2", "swipe"),
        ("3", "onion"),
        ("4", "difference"),
        ("5", "blink"),
        ("1", "side"),
    ] {
        browser.keys(key);
        let shown = browser.run(
            "return document.querySelector('[data-compare]').dataset.show",
            Value::Null,
        );
        assert_eq!(shown, mode);
    }
    press("titles/title.gif", 30);
    browser.wait_for("Restore this version");
    press("Restore this version", 30);
    browser.wait_for("Restored titles/title.gif");
    press("Overview", 12);
    browser.wait_for("1 file has changed");
    browser.tab_to("What did you change?", 40);
    browser.keys("back to the first title");
    press("Commit", 2);
    browser.wait_for("Committed ");
    press("Undo", 40);
    browser.wait_for("Undone: dmv web: commit");
    press("Undo", 40);
    browser.wait_for("Undone: dmv web: restore");
    let now = std::fs::read(film.root().join("titles/title.gif")).expect("a file");
    assert_eq!(now, pixel(200));
}
