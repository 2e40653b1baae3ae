//! The library's clients for an address: one that repeats what fails, for everything but the root;
//! and one that never repeats, for the root. A repeated conditional write is refused because of the
//! first one, and it could not be told.

use super::Settings;
use super::counting::{Counters, CountingConnector};
use super::credentials::{self, ChosenProfile};
use super::profile::Env;
use super::service::innermost;
use dmv_net::session::NetError;
use dmv_net::transport::without_secret;
use dmv_net::transport::{BucketAddress, Scheme};
use dmv_net::trouble::Trouble;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::azure::{AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::{HttpBuilder, HttpStore};
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, Certificate, ClientOptions, ObjectStore, RetryConfig};
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(15);
/// How often a request is repeated, and for how long in all. A user with less patience waits less.
const REPEATS: usize = 8;
const REPEAT_TIME: Duration = Duration::from_secs(240);
/// Connections that stay open for the next requests.
const IDLE_CONNECTIONS: usize = 64;

/// The clients for one address.
pub struct Clients {
    /// Repeats requests that fail.
    pub bulk: Arc<dyn ObjectStore>,
    /// The same client, for uploads in parts; `None`: the place is for reading only.
    pub parts: Option<Arc<dyn MultipartStore>>,
    /// Never repeats a request.
    pub once: Arc<dyn ObjectStore>,
}

/// Makes the clients. Fails if settings or credentials are unusable. Sends nothing.
pub fn make(
    address: &BucketAddress,
    settings: &Settings,
    counters: &Arc<Counters>,
    env: Env<'_>,
) -> Result<Clients, NetError> {
    // The library of encryption that iroh uses, too. A second installation changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let counting = CountingConnector {
        counters: Arc::clone(counters),
        bucket: address.bucket.clone(),
        is_web: address.scheme.is_web(),
        has_answered: Arc::default(),
        patience: settings.patience,
        base: settings
            .endpoint
            .as_deref()
            .map(path_of)
            .unwrap_or_default(),
        shared: address.scheme.is_web().then(Arc::default),
    };
    let maker = Maker {
        address,
        settings,
        counting,
        env,
    };
    match address.scheme {
        Scheme::S3 => maker.s3(),
        Scheme::Google => {
            let make = |once| maker.google(once);
            Ok(Clients::of(Arc::new(make(false)?), Arc::new(make(true)?)))
        }
        Scheme::Azure => {
            let make = |once| maker.azure(once);
            Ok(Clients::of(Arc::new(make(false)?), Arc::new(make(true)?)))
        }
        Scheme::Https | Scheme::LocalHttp => Ok(Clients {
            bulk: Arc::new(maker.web(false)?),
            parts: None,
            once: Arc::new(maker.web(true)?),
        }),
    }
}

impl Clients {
    fn of<S: ObjectStore + MultipartStore>(bulk: Arc<S>, once: Arc<S>) -> Clients {
        Clients {
            parts: Some(Arc::clone(&bulk) as Arc<dyn MultipartStore>),
            bulk,
            once,
        }
    }
}

struct Maker<'a> {
    address: &'a BucketAddress,
    settings: &'a Settings,
    counting: CountingConnector,
    env: Env<'a>,
}

impl Maker<'_> {
    fn s3(&self) -> Result<Clients, NetError> {
        let chosen = credentials::choose(
            self.settings.profile.as_deref(),
            self.env,
            credentials::is_amazon,
        );
        // The library asks no other source for keys.
        let counting = CountingConnector {
            shared: Some(Arc::default()),
            ..self.counting.clone()
        };
        let make = |once| self.s3_client(&chosen, counting.clone(), once);
        Ok(Clients::of(Arc::new(make(false)?), Arc::new(make(true)?)))
    }

    fn s3_client(
        &self,
        chosen: &ChosenProfile,
        mut counting: CountingConnector,
        once: bool,
    ) -> Result<AmazonS3, NetError> {
        let source = chosen.source.as_ref();
        let source = source.map_err(|e| self.fail(Trouble::NoKeys(e.to_string())))?;
        let of_profile = |key: &str| chosen.profile.as_ref()?.get(key).map(str::to_owned);
        let region = self
            .settings
            .region
            .clone()
            .or_else(|| self.set("AWS_REGION"))
            .or_else(|| self.set("AWS_DEFAULT_REGION"))
            .or_else(|| of_profile("region"));
        let endpoint = self
            .settings
            .endpoint
            .clone()
            .or_else(|| self.set("AWS_ENDPOINT_URL_S3"))
            .or_else(|| self.set("AWS_ENDPOINT_URL"))
            .or_else(|| of_profile("endpoint_url"));
        let bundle = self
            .set("AWS_CA_BUNDLE")
            .or_else(|| of_profile("ca_bundle"));
        let options = self.options(bundle.as_deref())?;
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        counting.base = endpoint.as_deref().map(path_of).unwrap_or_default();
        let builder = AmazonS3Builder::new()
            .with_bucket_name(&self.address.bucket)
            .with_region(&region)
            .with_retry(self.retry(once))
            .with_http_connector(counting);
        let with_keys = credentials::apply(builder, source, self.env, &region, &options);
        let mut builder = with_keys.map_err(|e| self.unusable(&e))?;
        // A certificate for *.s3.amazonaws.com does not cover a name with dots.
        let is_path_style = self.settings.path_style || self.address.bucket.contains('.');
        builder = match endpoint {
            Some(endpoint) => {
                self.check_endpoint(&endpoint)?;
                let is_plain = endpoint.starts_with("http://");
                builder
                    .with_endpoint(endpoint)
                    .with_client_options(options.with_allow_http(is_plain))
            }
            None => builder
                .with_virtual_hosted_style_request(!is_path_style)
                .with_client_options(options),
        };
        builder.build().map_err(|e| self.unusable(&e))
    }

    fn retry(&self, once: bool) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(20),
                base: 2.,
            },
            max_retries: if once { 0 } else { REPEATS },
            retry_timeout: self.settings.patience.min(REPEAT_TIME),
        }
    }

    fn google(&self, once: bool) -> Result<GoogleCloudStorage, NetError> {
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_bucket_name(&self.address.bucket)
            .with_retry(self.retry(once))
            .with_http_connector(self.counting.clone());
        if let Some(endpoint) = &self.settings.endpoint {
            builder = builder.with_config(GoogleConfigKey::BaseUrl, endpoint);
        }
        let builder = builder.with_client_options(self.options_at_endpoint()?);
        builder.build().map_err(|e| self.unusable(&e))
    }

    fn azure(&self, once: bool) -> Result<MicrosoftAzure, NetError> {
        let mut builder = MicrosoftAzureBuilder::from_env()
            .with_container_name(&self.address.bucket)
            .with_retry(self.retry(once))
            .with_http_connector(self.counting.clone());
        if let Some(endpoint) = &self.settings.endpoint {
            builder = builder.with_config(AzureConfigKey::Endpoint, endpoint);
        }
        let builder = builder.with_client_options(self.options_at_endpoint()?);
        builder.build().map_err(|e| match e.to_string() {
            why if why.contains("Account must be specified") => {
                self.fail(Trouble::NoKeys("no account of Azure is named".to_owned()))
            }
            _ => self.unusable(&e),
        })
    }

    /// Returns the options of a client. Plain HTTP is allowed if the settings name such an endpoint.
    fn options_at_endpoint(&self) -> Result<ClientOptions, NetError> {
        let options = self.options(self.set("AWS_CA_BUNDLE").as_deref())?;
        let Some(endpoint) = &self.settings.endpoint else {
            return Ok(options);
        };
        self.check_endpoint(endpoint)?;
        Ok(options.with_allow_http(endpoint.starts_with("http://")))
    }

    fn web(&self, once: bool) -> Result<HttpStore, NetError> {
        let is_plain = self.address.scheme == Scheme::LocalHttp;
        let scheme = if is_plain { "http" } else { "https" };
        let bundle = self.set("AWS_CA_BUNDLE");
        // No service is asked for keys here, so plain HTTP needs none of the system's certificates, which Wine cannot
        // tell.
        let options = self.options(bundle.as_deref())?;
        let options = options
            .with_allow_http(is_plain)
            .with_no_system_certificates(is_plain);
        let builder = HttpBuilder::new()
            .with_url(format!("{scheme}://{}", self.address.bucket))
            .with_retry(self.retry(once))
            .with_client_options(options)
            .with_http_connector(self.counting.clone());
        builder.build().map_err(|e| self.unusable(&e))
    }

    /// Returns the options of a connection, with the certificates of a bundle.
    fn options(&self, bundle: Option<&str>) -> Result<ClientOptions, NetError> {
        // Limits on whole requests would cut large files on slow lines. `CountingConnector` limits silence.
        let mut options = ClientOptions::new()
            .with_timeout_disabled()
            .with_connect_timeout(CONNECT)
            .with_pool_max_idle_per_host(IDLE_CONNECTIONS)
            .with_default_content_type("application/octet-stream");
        if let Some(path) = bundle {
            let read = std::fs::read(path).map_err(|e| e.to_string());
            let read = read
                .and_then(|text| Certificate::from_pem_bundle(&text).map_err(|e| e.to_string()));
            let certificates =
                read.map_err(|why| self.bad(format!("cannot use certificates of {path}: {why}")))?;
            for certificate in certificates {
                options = options.with_root_certificate(certificate);
            }
        }
        Ok(options)
    }

    fn check_endpoint(&self, endpoint: &str) -> Result<(), NetError> {
        check_endpoint(endpoint).map_err(|why| {
            self.bad(format!(
                "'{}' is not an endpoint: {why}",
                without_secret(endpoint).escape_debug()
            ))
        })
    }

    fn set(&self, variable: &str) -> Option<String> {
        (self.env)(variable).filter(|value| !value.is_empty())
    }

    fn unusable(&self, e: &object_store::Error) -> NetError {
        // The library's own words; its builders name settings, never their values.
        self.bad(innermost(e))
    }

    fn bad(&self, why: String) -> NetError {
        self.fail(Trouble::Settings(why))
    }

    fn fail(&self, trouble: Trouble) -> NetError {
        super::failed(self.address, trouble)
    }
}

/// Returns the path of an endpoint, without a slash at its end.
fn path_of(endpoint: &str) -> String {
    let rest = endpoint.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    match path.trim_matches('/') {
        "" => String::new(),
        path => format!("/{path}"),
    }
}

/// Checks the address of a store: `https://HOST[:PORT][/PATH]`, or `http://`.
pub fn check_endpoint(endpoint: &str) -> Result<(), &'static str> {
    let rest = endpoint
        .strip_prefix("https://")
        .or_else(|| endpoint.strip_prefix("http://"))
        .ok_or("it does not begin with https:// or http://")?;
    let host = rest.split('/').next().unwrap_or_default();
    // A secret key may have a slash.
    if rest.contains('@') {
        return Err("it contains a name or a password; credentials do not belong there");
    }
    if rest.contains(['?', '#']) || rest.chars().any(|c| c.is_control() || c == ' ') {
        return Err("it contains more than a host, a port and a path");
    }
    dmv_net::transport::check_host(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_no_more() {
        for good in [
            "https://s3.example.org",
            "http://127.0.0.1:7070",
            "https://x.example.org/s3/",
            "http://[::1]:9000",
        ] {
            assert_eq!(check_endpoint(good), Ok(()), "{good}");
        }
        for bad in [
            "s3.example.org",
            "ftp://x",
            "https://",
            "https://key:secret@host",
            "https://host:0",
            "https://host/?x",
            "https://ho st",
        ] {
            assert!(check_endpoint(bad).is_err(), "{bad}");
        }
    }
}
