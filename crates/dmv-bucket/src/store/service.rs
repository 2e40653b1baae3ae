//! Keys that a service hands out: the container's, the machine's, or that of a token (STS).
//!
//! What a service answers is not trusted to be what it should: a proxy may answer in its place. No
//! message shows an answer or a token.

use super::profile::{Env, Keys, keys_in};
use dmv_net::transport::without_secret;
use futures_util::StreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use std::fmt;
use std::time::Duration;

/// Where a container asks, below a path that its environment names.
const CONTAINER: &str = "http://169.254.170.2";
/// Where a machine of Amazon's asks.
const MACHINE: &str = "http://169.254.169.254";
/// Hosts that may be asked without encryption: they are on this machine, or beside it.
const NEAR: [&str; 6] = [
    "127.0.0.1",
    "localhost",
    "[::1]",
    "169.254.170.2",
    "169.254.170.23",
    "[fd00:ec2::23]",
];
/// The longest answer.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// How long one request may take, and how often it is made.
const PATIENCE: Duration = Duration::from_secs(5);
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// Why a service gives no keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// It cannot be reached.
    #[error("{place} does not answer, which hands out credentials: {why}")]
    Silent {
        /// Its address.
        place: String,
        /// The reason.
        why: String,
    },
    /// It answers, but with no keys; or it cannot be asked.
    #[error("{place} hands out no credentials: {why}")]
    Useless {
        /// Its address.
        place: String,
        /// The reason.
        why: String,
    },
}

/// A service that hands out keys, and how to ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// That of the container.
    Container {
        /// Its address.
        url: String,
        /// What proves that this is the container.
        token: Option<Secret>,
    },
    /// That of the machine, at this address.
    Machine(String),
    /// STS, which changes a token into keys.
    Tokens {
        /// Its address.
        url: String,
        /// The file with the token.
        file: String,
        /// The role that the keys are for.
        role: String,
        /// A name for the session.
        session: String,
    },
}

/// A token, or the file that has it.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The token.
    Text(String),
    /// The file.
    File(String),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Service {
    /// Returns the service of the container that the environment describes.
    pub fn container(env: Env<'_>) -> Service {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let below = set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let below = below.map(|path| format!("{CONTAINER}{path}"));
        let url = below.or_else(|| set("AWS_CONTAINER_CREDENTIALS_FULL_URI"));
        let file = set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(Secret::File);
        let text = || set("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::Text);
        Service::Container {
            url: url.unwrap_or_default(),
            token: file.or_else(text),
        }
    }

    /// Returns the service of the machine.
    pub fn machine(env: Env<'_>) -> Service {
        let named = env("AWS_EC2_METADATA_SERVICE_ENDPOINT").filter(|url| !url.is_empty());
        let url = named.unwrap_or_else(|| MACHINE.to_owned());
        Service::Machine(url.trim_end_matches('/').to_owned())
    }

    /// Returns STS in a region, with the token and the role that the environment names.
    pub fn tokens(env: Env<'_>, region: &str) -> Service {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let url = set("AWS_ENDPOINT_URL_STS");
        let session = set("AWS_ROLE_SESSION_NAME");
        Service::Tokens {
            url: url.unwrap_or_else(|| format!("https://sts.{region}.amazonaws.com")),
            file: set("AWS_WEB_IDENTITY_TOKEN_FILE").unwrap_or_default(),
            role: set("AWS_ROLE_ARN").unwrap_or_default(),
            session: session.unwrap_or_else(|| "dmv".to_owned()),
        }
    }

    fn url(&self) -> &str {
        match self {
            Service::Container { url, .. } | Service::Tokens { url, .. } => url,
            Service::Machine(url) => url,
        }
    }

    fn useless(&self, why: impl fmt::Display) -> ServiceError {
        ServiceError::Useless {
            place: without_secret(self.url()),
            why: why.to_string(),
        }
    }

    /// Asks for keys.
    pub async fn ask(&self, client: &HttpClient) -> Result<Keys, ServiceError> {
        match self {
            Service::Container { url, token } => {
                if !is_near(url) {
                    return Err(self.useless("it is not encrypted, and on another machine"));
                }
                let token = token
                    .as_ref()
                    .map(|token| self.text_of(token))
                    .transpose()?;
                let header = token.as_deref().map(|token| ("authorization", token));
                let answer = self.send(client, "GET", url, header).await?;
                self.keys(&answer)
            }
            Service::Machine(url) => self.ask_machine(client, url).await,
            Service::Tokens { .. } => self.ask_for_role(client).await,
        }
    }

    async fn ask_machine(&self, client: &HttpClient, url: &str) -> Result<Keys, ServiceError> {
        let at = format!("{url}/latest/api/token");
        let lasts = ("x-aws-ec2-metadata-token-ttl-seconds", "600");
        let token = self.send(client, "PUT", &at, Some(lasts)).await?;
        let header = Some(("x-aws-ec2-metadata-token", token.trim()));
        let roles = format!("{url}/latest/meta-data/iam/security-credentials/");
        let answer = self.send(client, "GET", &roles, header).await?;
        let role = answer.lines().next().unwrap_or_default().trim();
        let is_fit = |c: char| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c);
        if role.is_empty() || !role.chars().all(is_fit) {
            return Err(self.useless("it names no role"));
        }
        let keys = self
            .send(client, "GET", &format!("{roles}{role}"), header)
            .await?;
        self.keys(&keys)
    }

    async fn ask_for_role(&self, client: &HttpClient) -> Result<Keys, ServiceError> {
        let Service::Tokens {
            url,
            file,
            role,
            session,
        } = self
        else {
            return Err(self.useless("it is another service"));
        };
        if !is_near(url) {
            return Err(self.useless("it is not encrypted, and on another machine"));
        }
        let token = self.text_of(&Secret::File(file.clone()))?;
        let fields = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("DurationSeconds", "3600"),
            ("RoleArn", role),
            ("RoleSessionName", session),
            ("Version", "2011-06-15"),
            ("WebIdentityToken", &token),
        ];
        let fields = fields.map(|(name, value)| format!("{name}={}", encoded(value)));
        let at = format!("{}/?{}", url.trim_end_matches('/'), fields.join("&"));
        let answer = self.send(client, "POST", &at, None).await?;
        let field = |name: &str| {
            let (open, close) = (format!("<{name}>"), format!("</{name}>"));
            let (_, rest) = answer.split_once(&open)?;
            Some(rest.split_once(&close)?.0.trim().to_owned())
        };
        let end = field("Expiration").and_then(|end| end.parse().ok());
        let keys = || {
            Some(Keys {
                id: field("AccessKeyId")?,
                secret: field("SecretAccessKey")?,
                token: Some(field("SessionToken")?),
                end,
            })
        };
        keys().ok_or_else(|| self.useless(NO_KEYS))
    }

    fn keys(&self, answer: &str) -> Result<Keys, ServiceError> {
        keys_in(answer.as_bytes()).ok_or_else(|| self.useless(NO_KEYS))
    }

    fn text_of(&self, secret: &Secret) -> Result<String, ServiceError> {
        let text = match secret {
            Secret::Text(text) => text.clone(),
            Secret::File(path) => std::fs::read_to_string(path)
                .map_err(|e| self.useless(format_args!("cannot read the token in {path}: {e}")))?,
        };
        Ok(text.trim().to_owned())
    }

    /// Sends a request, again if the service does not answer or is busy. Returns the text of a success.
    async fn send(
        &self,
        client: &HttpClient,
        method: &str,
        url: &str,
        header: Option<(&'static str, &str)>,
    ) -> Result<String, ServiceError> {
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            match self.send_once(client, method, url, header).await {
                Err(ServiceError::Silent { .. }) => {}
                done => return done,
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.send_once(client, method, url, header).await
    }

    async fn send_once(
        &self,
        client: &HttpClient,
        method: &str,
        url: &str,
        header: Option<(&'static str, &str)>,
    ) -> Result<String, ServiceError> {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = method.parse().map_err(|e| self.useless(e))?;
        *request.uri_mut() = url
            .parse()
            .map_err(|_| self.useless("its address is none"))?;
        if let Some((name, value)) = header {
            let value = value.parse();
            let value = value.map_err(|_| self.useless("the token is none"))?;
            request.headers_mut().insert(name, value);
        }
        let silent = |why: String| ServiceError::Silent {
            place: without_secret(self.url()),
            why,
        };
        let answer = async {
            let response = client.execute(request).await?;
            let status = response.status();
            let mut parts = response.into_body().bytes_stream();
            let mut bytes = Vec::new();
            // One part more than the limit shows that it is too long.
            while bytes.len() <= MAX_ANSWER_BYTES
                && let Some(part) = parts.next().await
            {
                bytes.extend_from_slice(&part?);
            }
            Ok::<_, object_store::client::HttpError>((status, bytes))
        };
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        let answer = answer.map_err(|_| silent("the time is up".to_owned()))?;
        let (status, bytes) = answer.map_err(|e| silent(innermost(&e)))?;
        if status.is_server_error() || status.as_u16() == 429 {
            return Err(silent(format!("status {}", status.as_u16())));
        }
        if !status.is_success() {
            return Err(self.useless(format_args!("status {}", status.as_u16())));
        }
        if bytes.len() > MAX_ANSWER_BYTES {
            return Err(self.useless("its answer is too long"));
        }
        String::from_utf8(bytes).map_err(|_| self.useless(NO_KEYS))
    }
}

/// What is said of an answer that does not decode. It may be a secret, so it is not shown.
const NO_KEYS: &str = "its answer has none that can be used";

/// Returns the system's own word for an error.
pub fn innermost(e: &dyn std::error::Error) -> String {
    let mut e = e;
    while let Some(cause) = e.source() {
        e = cause;
    }
    e.to_string()
}

/// Returns whether a service may be asked: keys and tokens go over the network.
fn is_near(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return url.starts_with("https://");
    };
    let place = rest.split(['/', '?']).next().unwrap_or_default();
    let host = match place.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => place,
    };
    NEAR.contains(&host)
}

/// Returns a text as it stands in a query.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte.into());
            }
            byte => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// Returns a client for services: they are on this machine, or beside it.
pub fn client_of(options: &ClientOptions) -> object_store::Result<HttpClient> {
    ReqwestConnector::default().connect(&options.clone().with_allow_http(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    const KEYS: &str = "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"tops3cret\",\"Token\":\"t\",\
                        \"Expiration\":\"2036-11-23T06:00:00Z\"}";

    /// Answers each request by its head; returns the address.
    fn serve(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> std::io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let mut head = String::new();
                let mut reader = BufReader::new(&stream);
                while !head.ends_with("\r\n\r\n")
                    && reader.read_line(&mut head).is_ok_and(|n| n > 0)
                {}
                let (status, body) = answer(&head);
                let length = body.len();
                // A client that goes away ends its connection, and nothing else.
                let _ = write!(
                    &stream,
                    "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
            }
        });
        Ok(url)
    }

    fn ask(service: Service) -> Result<Keys, ServiceError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = client_of(&ClientOptions::new()).expect("the client is made");
        runtime.expect("it starts").block_on(service.ask(&client))
    }

    fn container(vars: &[(&str, &str)]) -> Result<Keys, ServiceError> {
        ask(Service::container(&|name| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }))
    }

    const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";

    #[test]
    fn an_answer_that_is_too_long_is_refused() -> std::io::Result<()> {
        // With these spaces it is valid, so only its length tells the two apart.
        let padded = |to: usize| format!("{KEYS}{}", " ".repeat(to - KEYS.len()));
        let answer = |to: usize| serve(move |_| (200, padded(to)));
        assert!(container(&[(FULL, &answer(MAX_ANSWER_BYTES)?)]).is_ok());
        let refused = container(&[(FULL, &answer(MAX_ANSWER_BYTES + 1)?)]);
        let refused = refused.map(drop).expect_err("it is too long");
        assert!(matches!(refused, ServiceError::Useless { .. }), "{refused}");
        Ok(())
    }

    #[test]
    fn a_container_proves_itself_with_a_token_or_a_file_or_not_at_all() -> std::io::Result<()> {
        let url = serve(|head| {
            let token = head.to_lowercase();
            let is_ours = token.contains("authorization: bearer x\r\n");
            (if is_ours { 200 } else { 401 }, KEYS.to_owned())
        })?;
        let literal = ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "bearer x");
        let got = container(&[(FULL, &url), literal]);
        assert!(got.is_ok_and(|keys| keys.secret == "tops3cret"));
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("token");
        std::fs::write(&file, "bearer x\n")?;
        let file = file.to_str().expect("it is text");
        let in_file = ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file);
        assert!(container(&[(FULL, &url), in_file]).is_ok());
        std::fs::write(file, "bear\ner x")?;
        let bad = container(&[(FULL, &url), in_file]);
        assert!(matches!(bad, Err(ServiceError::Useless { .. })), "{bad:?}");
        let none = container(&[(FULL, &url), (in_file.0, "/no/such/file")]);
        assert!(none.is_err_and(|e| e.to_string().contains("/no/such/file")));
        let without = container(&[(FULL, &url)]);
        assert!(without.is_err_and(|e| e.to_string().contains("status 401")));
        let open = serve(|_| (200, KEYS.to_owned()))?;
        assert!(container(&[(FULL, &open)]).is_ok());
        let far = container(&[(FULL, "http://example.org/keys")]);
        assert!(far.is_err_and(|e| e.to_string().contains("not encrypted")));
        Ok(())
    }

    #[test]
    fn whatever_a_service_answers_there_is_no_panic_and_no_secret_in_words() -> std::io::Result<()>
    {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("token");
        std::fs::write(&file, "tops3cret\n")?;
        let file = file.display().to_string();
        for answer in [
            "<html>\n<body>log in \u{1}</body>\n</html>",
            "{\"SecretAccessKey\":\"tops3cret\"}",
            "[]",
            "",
            "a\nb",
            "x y",
        ] {
            let url = serve(move |_| (200, answer.to_owned()))?;
            let services = [
                Service::Machine(url.clone()),
                Service::Container {
                    url: url.clone(),
                    token: Some(Secret::Text("tops3cret".to_owned())),
                },
                Service::Tokens {
                    url: url.clone(),
                    file: file.clone(),
                    role: "arn:aws:iam::1:role/x".to_owned(),
                    session: "s".to_owned(),
                },
            ];
            for service in services {
                let failed = ask(service).err().map(|e| e.to_string());
                let said = failed.unwrap_or_default();
                assert!(
                    said.contains("hands out no credentials"),
                    "{answer}: {said}"
                );
                assert!(!said.contains("s3cret"), "{said}");
            }
        }
        Ok(())
    }

    #[test]
    fn a_machine_is_asked_for_a_token_a_role_and_keys() -> std::io::Result<()> {
        let url = serve(|head| {
            let line = head.lines().next().unwrap_or_default();
            let has_token = head
                .to_lowercase()
                .contains("x-aws-ec2-metadata-token: tok\r\n");
            match line {
                line if line.starts_with("PUT /latest/api/token ") => (200, "tok\n".to_owned()),
                _ if !has_token => (401, String::new()),
                line if line.contains("security-credentials/ ") => (200, "role-1\n".to_owned()),
                line if line.contains("security-credentials/role-1 ") => (200, KEYS.to_owned()),
                _ => (404, String::new()),
            }
        })?;
        let got = ask(Service::Machine(url));
        assert!(got.is_ok_and(|keys| keys.id == "A"));
        let nobody = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let silent = ask(Service::Machine(format!("http://127.0.0.1:{nobody}")));
        assert!(
            matches!(silent, Err(ServiceError::Silent { .. })),
            "{silent:?}"
        );
        Ok(())
    }

    #[test]
    fn a_token_becomes_keys() -> std::io::Result<()> {
        let url = serve(|head| {
            let line = head.lines().next().unwrap_or_default();
            let is_right = line.starts_with("POST /?Action=AssumeRoleWithWebIdentity")
                && line.contains("&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx&")
                && line.contains("&WebIdentityToken=a%2Bb.c ");
            let body = "<R><Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>s\
                        </SecretAccessKey><SessionToken>t</SessionToken><Expiration>\
                        2036-11-23T06:00:00Z</Expiration></Credentials></R>";
            (if is_right { 200 } else { 400 }, body.to_owned())
        })?;
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("token");
        std::fs::write(&file, "a+b.c\n")?;
        let vars = [
            ("AWS_ENDPOINT_URL_STS", url),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file.display().to_string()),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/x".to_owned()),
        ];
        let env = |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone())
        };
        let got = ask(Service::tokens(&env, "eu-west-1"));
        assert!(got.as_ref().is_ok_and(|keys| keys.secret == "s"), "{got:?}");
        Ok(())
    }
}
