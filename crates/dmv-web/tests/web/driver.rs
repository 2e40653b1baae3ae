//! A browser that a test drives: Chromium through its driver, which speaks WebDriver over HTTP. It needs
//! so little of that protocol that a client fits here.

use data_encoding::BASE64;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The key of an element in answers of the driver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// One browser runs at a time: several would only wait for each other.
static ONE: Mutex<()> = Mutex::new(());

pub struct Browser {
    _turn: MutexGuard<'static, ()>,
    driver: Child,
    port: u16,
    session: String,
}

/// Keys as the protocol has them.
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";

impl Browser {
    /// Starts a browser. `None` where this machine has none: the test says so and ends.
    pub fn start() -> Option<Browser> {
        let is_there = |path: &&str| Path::new(path).exists();
        let binary = [
            "/usr/bin/chromium",
            "/usr/bin/chromium-browser",
            "/usr/bin/google-chrome",
        ];
        let driver = ["/usr/bin/chromedriver", "/usr/lib/chromium/chromedriver"];
        let (Some(binary), Some(driver)) = (
            binary.iter().find(|p| is_there(p)),
            driver.iter().find(|p| is_there(p)),
        ) else {
            dmv_random::skip(
                "Chromium and its driver are not installed (apt-get install chromium chromium-driver)",
            );
            return None;
        };
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the driver starts");
        let lines = BufReader::new(driver.stdout.take().expect("its output")).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let mut browser = Browser {
            _turn: ONE.lock().unwrap_or_else(PoisonError::into_inner),
            driver,
            port: port.unwrap_or(0),
            session: String::new(),
        };
        if browser.port == 0 {
            dmv_random::skip("the driver of Chromium does not start");
            return None;
        }
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1280,900",
            "--disable-background-networking",
        ];
        let options = json!({ "binary": binary, "args": args });
        let wanted =
            json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let session = browser.call("POST", "/session", &wanted);
        let Some(id) = session["sessionId"].as_str() else {
            // A machine that is too small for it, or lacks what it needs.
            dmv_random::skip(format_args!("Chromium does not start: {session}"));
            return None;
        };
        browser.session = id.to_owned();
        Some(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(180)))
            .expect("a timeout");
        let body = if method == "POST" {
            body.to_string()
        } else {
            String::new()
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream
            .write_all((head + &body).as_bytes())
            .expect("it is sent");
        let mut reply = BufReader::new(stream);
        let mut len = 0;
        loop {
            let mut line = String::new();
            reply.read_line(&mut line).expect("an answer");
            let line = line.trim().to_ascii_lowercase();
            if let Some(text) = line.strip_prefix("content-length:") {
                len = text.trim().parse().expect("a length");
            }
            if line.is_empty() {
                break;
            }
        }
        // The driver keeps the connection open.
        let mut body = vec![0; len];
        reply.read_exact(&mut body).expect("a body");
        let mut value: Value = serde_json::from_slice(&body).expect("JSON");
        value["value"].take()
    }

    fn ask(&self, method: &str, what: &str, body: Value) -> Value {
        let value = self.call(method, &format!("/session/{}/{what}", self.session), &body);
        assert!(value["error"].is_null(), "{what} {body}: {value}");
        value
    }

    pub fn open(&self, url: &str) {
        self.ask("POST", "url", json!({ "url": url }));
    }

    pub fn url(&self) -> String {
        self.ask("GET", "url", Value::Null)
            .as_str()
            .expect("an address")
            .to_owned()
    }

    pub fn title(&self) -> String {
        self.ask("GET", "title", Value::Null)
            .as_str()
            .expect("a title")
            .to_owned()
    }

    /// Shows pages in a light or dark scheme.
    pub fn emulate(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let params = json!({ "features": features });
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": params });
        self.ask("POST", "goog/cdp/execute", command);
    }

    pub fn size(&self, width: u32, height: u32) {
        self.ask(
            "POST",
            "window/rect",
            json!({ "width": width, "height": height }),
        );
    }

    /// Keeps a picture of the page in the directory that DMV_SHOTS names, to be looked at.
    pub fn shoot(&self, name: &str) {
        let Some(dir) = std::env::var_os("DMV_SHOTS") else {
            return;
        };
        let png = self.ask("GET", "screenshot", Value::Null);
        let png = BASE64.decode(png.as_str().expect("a picture").as_bytes());
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = name.chars().map(plain).collect();
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = Path::new(&dir).join(format!("{name}.png"));
        std::fs::write(path, png.expect("base 64")).expect("a file");
    }

    /// Runs a script of the test, with `arguments`.
    pub fn run(&self, script: &str, arguments: Value) -> Value {
        self.ask(
            "POST",
            "execute/sync",
            json!({ "script": script, "args": [arguments] }),
        )
    }

    /// Runs a script that ends by calling its last argument.
    pub fn run_later(&self, script: &str) -> Value {
        self.ask(
            "POST",
            "execute/async",
            json!({ "script": script, "args": [] }),
        )
    }

    /// The text that a reader sees.
    pub fn text(&self) -> String {
        self.run("return document.body.innerText", Value::Null)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Clicks the first link, button or choice whose text, name or address is `what`.
    pub fn click(&self, what: &str) {
        const FIND: &str = "const what = arguments[0];
            return [...document.querySelectorAll('a, button, input, label')].find((e) =>
                e.innerText.trim() === what || e.innerText.trim().startsWith(what + '\\n') || e.getAttribute('href') === what
                || e.ariaLabel === what || e.querySelector(':scope > .subject, :scope > span:not(.thumb)')?.innerText.trim() === what) ?? null";
        let found = self.run(FIND, json!(what));
        let id = found[ELEMENT]
            .as_str()
            .unwrap_or_else(|| panic!("no '{what}' in\n{}", self.text()));
        self.ask("POST", &format!("element/{id}/click"), json!({}));
        self.settle();
    }

    /// Types text, or presses keys, where the focus is.
    pub fn keys(&self, text: &str) {
        let strokes = text.chars().flat_map(|key| {
            let key = key.to_string();
            [
                json!({ "type": "keyDown", "value": key }),
                json!({ "type": "keyUp", "value": key }),
            ]
        });
        let strokes: Vec<Value> = strokes.collect();
        let keyboard = json!({ "type": "key", "id": "keys", "actions": strokes });
        self.ask("POST", "actions", json!({ "actions": [keyboard] }));
        self.settle();
    }

    /// Presses Tab until the focus is on what says `what`; at most `most` times.
    pub fn tab_to(&self, what: &str, most: usize) {
        const AT: &str = "const e = document.activeElement;
            return (e.innerText || e.ariaLabel || e.labels?.[0]?.innerText || e.id || '').trim()";
        for _ in 0..most {
            self.keys(TAB);
            let at = self.run(AT, Value::Null);
            if at
                .as_str()
                .is_some_and(|at| at == what || at.starts_with(&format!("{what}\n")))
            {
                return;
            }
        }
        panic!("'{what}' is not reached by Tab");
    }

    /// Waits until the text of the page has `what`.
    pub fn wait_for(&self, what: &str) {
        let begun = Instant::now();
        while !self.text().contains(what) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "no '{what}' in\n{}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn settle(&self) {
        let begun = Instant::now();
        let ready = || self.run("return document.readyState", Value::Null) == "complete";
        while !ready() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            self.call(
                "DELETE",
                &format!("/session/{}", self.session),
                &Value::Null,
            );
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
