//! Profiles of the AWS tools: `~/.aws/config` and `~/.aws/credentials`, and the programs that hand
//! out credentials for them.
//!
//! This reads regions, endpoints and static keys itself. For everything else (single sign-on, roles,
//! second factors) it runs what the user already has: the profile's `credential_process`, or the
//! `aws` command. No message shows a key.

use dmv_net::transport::words;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The profile that counts where none is named.
pub const DEFAULT: &str = "default";
/// Bytes of a settings file of the AWS tools.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// An environment: variables by name.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A key with which requests are signed.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The id of the key.
    pub id: String,
    /// The secret.
    pub secret: String,
    /// The token of temporary keys.
    pub token: Option<String>,
    /// When they expire.
    pub end: Option<jiff::Timestamp>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

/// The settings of one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    name: String,
    values: BTreeMap<String, String>,
}

/// Where a profile's keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// They stand in the file.
    Static(Keys),
    /// A program prints them.
    Program(Vec<String>),
}

impl Profile {
    /// Reads the profile `name` from both files. Returns `None` if neither has it.
    pub fn read(name: &str, env: Env<'_>) -> io::Result<Option<Profile>> {
        let place = |variable: &str, file: &str| {
            let named = env(variable).filter(|path| !path.is_empty());
            let home = env("HOME").filter(|home| home.starts_with('/'));
            named
                .map(PathBuf::from)
                .or_else(|| Some(PathBuf::from(home?).join(".aws").join(file)))
        };
        let config = text_of(place("AWS_CONFIG_FILE", "config"))?;
        let credentials = text_of(place("AWS_SHARED_CREDENTIALS_FILE", "credentials"))?;
        Ok(Profile::find(name, &config, &credentials))
    }

    fn find(name: &str, config: &str, credentials: &str) -> Option<Profile> {
        let long = format!("profile {name}");
        let is_ours = |section: &str| section == long || (name == DEFAULT && section == DEFAULT);
        let from_config = section(config, is_ours);
        let from_credentials = section(credentials, |section| section == name);
        if from_config.is_none() && from_credentials.is_none() {
            return None;
        }
        let mut values = from_config.unwrap_or_default();
        values.extend(from_credentials.unwrap_or_default());
        Some(Profile {
            name: name.to_owned(),
            values,
        })
    }

    /// Returns a setting of the profile.
    pub fn get(&self, key: &str) -> Option<&str> {
        let value = self.values.get(key).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// Returns where the profile's keys come from. `None`: it has none.
    pub fn keys(&self) -> Result<Option<KeySource>, &'static str> {
        if let (Some(id), Some(secret)) = (
            self.get("aws_access_key_id"),
            self.get("aws_secret_access_key"),
        ) {
            return Ok(Some(KeySource::Static(Keys {
                id: id.to_owned(),
                secret: secret.to_owned(),
                token: self.get("aws_session_token").map(str::to_owned),
                end: None,
            })));
        }
        if let Some(line) = self.get("credential_process") {
            return words(line).map(|words| Some(KeySource::Program(words)));
        }
        let elsewhere = [
            "sso_session",
            "sso_start_url",
            "role_arn",
            "source_profile",
            "login_session",
        ];
        if elsewhere.iter().any(|key| self.get(key).is_some()) {
            let words = ["aws", "configure", "export-credentials", "--profile"];
            let mut program: Vec<String> = words.map(str::to_owned).to_vec();
            program.push(self.name.clone());
            program.extend(["--format".to_owned(), "process".to_owned()]);
            return Ok(Some(KeySource::Program(program)));
        }
        Ok(None)
    }
}

/// Runs a program that prints keys. The error never shows what it printed to standard output.
pub fn run(program: &[String]) -> Result<Keys, String> {
    let (name, arguments) = program.split_first().ok_or("it names no program")?;
    let done = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot run {name}: {e}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let line = said.lines().map(str::trim).find(|line| !line.is_empty());
        let why = line.unwrap_or("it does not say why");
        return Err(format!("{name} failed: {why}"));
    }
    keys_in(&done.stdout).ok_or_else(|| format!("{name} printed no usable credentials"))
}

/// Reads what such a program prints: JSON with `AccessKeyId`, `SecretAccessKey`, `SessionToken` and
/// `Expiration`. Services of containers and machines call the third one `Token`.
pub(super) fn keys_in(text: &[u8]) -> Option<Keys> {
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    let field = |name: &str| {
        let text = value.get(name)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    };
    let end = match field("Expiration") {
        Some(time) => Some(time.parse().ok()?),
        None => None,
    };
    Some(Keys {
        id: field("AccessKeyId")?,
        secret: field("SecretAccessKey")?,
        token: field("SessionToken").or_else(|| field("Token")),
        end,
    })
}

fn text_of(path: Option<PathBuf>) -> io::Result<String> {
    let Some(path) = path else {
        return Ok(String::new());
    };
    let fail = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    match std::fs::metadata(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(e) => return Err(fail(e)),
        Ok(stat) if !stat.is_file() || stat.len() > MAX_FILE_BYTES => {
            return Err(fail(io::Error::other("it is not a settings file")));
        }
        Ok(_) => {}
    }
    std::fs::read_to_string(&path).map_err(fail)
}

/// Returns the settings of the sections with a fitting name; `None` if there is no such section.
fn section(text: &str, is_ours: impl Fn(&str) -> bool) -> Option<BTreeMap<String, String>> {
    let mut found = None;
    let mut is_in = false;
    for line in text.lines() {
        // An indented line continues a nested setting, which is none of ours.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        let line = line.trim_end();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            let words: Vec<&str> = name.0.split_whitespace().collect();
            is_in = is_ours(&words.join(" ").replace(['"', '\''], ""));
            if is_in {
                found.get_or_insert_with(BTreeMap::new);
            }
        } else if let (true, Some((key, value))) = (is_in, line.split_once('=')) {
            let value = value.split(" #").next().unwrap_or_default();
            if let Some(values) = &mut found {
                values.insert(key.trim().to_lowercase(), value.trim().to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "# comment\n[default]\nregion = eu-west-1\n\n[profile studio]\n\
        region=eu-central-1 # here\ns3 =\n  addressing_style = path\n\
        endpoint_url = https://s3.example.org\ncredential_process = /opt/keys --for \"a b\"\n\
        [profile sso]\nsso_session = corp\n[sso-session corp]\nsso_region = x\n[profile empty]\n";
    const CREDENTIALS: &str = "[default]\naws_access_key_id = AKIA1\n\
        aws_secret_access_key=s/1=\n[keys]\naws_access_key_id = AKIA2\n\
        aws_secret_access_key = s2\naws_session_token = t2\n";

    fn find(name: &str) -> Option<Profile> {
        Profile::find(name, CONFIG, CREDENTIALS)
    }

    #[test]
    fn both_files_make_one_profile() {
        let default = find(DEFAULT).expect("it is there");
        assert_eq!(default.get("region"), Some("eu-west-1"));
        let Ok(Some(KeySource::Static(keys))) = default.keys() else {
            panic!("it has static keys");
        };
        assert_eq!((&keys.id[..], &keys.secret[..]), ("AKIA1", "s/1="));
        let studio = find("studio").expect("it is there");
        assert_eq!(studio.get("region"), Some("eu-central-1"));
        assert_eq!(studio.get("endpoint_url"), Some("https://s3.example.org"));
        assert_eq!(studio.get("addressing_style"), None);
        let program = ["/opt/keys", "--for", "a b"].map(str::to_owned).to_vec();
        assert_eq!(studio.keys(), Ok(Some(KeySource::Program(program))));
        let keys = find("keys").expect("it is there").keys();
        assert!(matches!(keys, Ok(Some(KeySource::Static(keys))) if keys.token.is_some()));
        assert_eq!(find("empty").map(|p| p.keys()), Some(Ok(None)));
        assert_eq!(
            find("corp"),
            None,
            "a session of single sign-on is not a profile"
        );
        assert_eq!(find("none"), None);
    }

    #[test]
    fn what_the_files_cannot_give_comes_from_the_aws_command() {
        let Some(Ok(Some(KeySource::Program(program)))) = find("sso").map(|p| p.keys()) else {
            panic!("a program gives the keys");
        };
        let line = "aws configure export-credentials --profile sso --format process";
        assert_eq!(program.join(" "), line);
    }

    #[test]
    fn a_program_prints_keys_and_no_message_shows_them() {
        let shell = |script: &str| run(&["sh", "-c", script].map(str::to_owned));
        let keys = shell(
            "echo '{\"Version\":1,\"AccessKeyId\":\"AKIA3\",\"SecretAccessKey\":\"tops3cret\",\
             \"SessionToken\":\"t0ken\",\"Expiration\":\"2026-11-23T06:00:00+00:00\"}'",
        );
        let keys = keys.expect("they are there");
        assert_eq!(keys.id, "AKIA3");
        assert!(keys.end.is_some_and(|end| end < jiff::Timestamp::now()));
        assert!(!format!("{keys:?}").contains("s3cret"));
        for script in [
            "echo '{\"SecretAccessKey\":\"tops3cret\"}'",
            "echo tops3cret",
            "echo tops3cret; echo 'the token has expired' >&2; exit 3",
        ] {
            let why = shell(script).expect_err(script);
            assert!(!why.contains("tops3cret"), "{why}");
        }
        let why = shell("echo 'the token has expired' >&2; exit 3");
        assert!(why.is_err_and(|why| why.contains("has expired")));
        assert!(run(&["/no/such/program".to_owned()]).is_err());
    }
}
