//! Which credentials sign the requests to S3.
//!
//! The order is that of the AWS tools: a profile that the remote's settings name; keys in the
//! environment; `AWS_PROFILE`; a web identity; the default profile; the container; the machine. The
//! address of the machine's credentials is asked only on a machine that says it is one of Amazon's:
//! elsewhere the question would hang.

use super::keys::{AskedKeys, KeyError};
use super::profile::{DEFAULT, Env, KeySource, Keys, Profile};
use super::service::Service;
use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use std::sync::Arc;

/// Where the keys come from.
#[derive(Debug)]
pub enum Source {
    /// Keys that are at hand.
    Static(Keys),
    /// A program of this profile.
    Program(String, Vec<String>),
    /// A token file and a role.
    WebIdentity,
    /// The container that this runs in.
    Container,
    /// The machine that this runs on.
    Machine,
}

/// The profile in force, and the keys.
#[derive(Debug)]
pub struct ChosenProfile {
    /// The profile, for its region and endpoint.
    pub profile: Option<Profile>,
    /// The keys.
    pub source: Result<Source, KeyError>,
}

/// Chooses by the settings (`named`: the profile that the remote names) and the environment.
pub fn choose(named: Option<&str>, env: Env<'_>, is_amazon: impl Fn() -> bool) -> ChosenProfile {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let from_env = set("AWS_PROFILE").or_else(|| set("AWS_DEFAULT_PROFILE"));
    let wanted = named.map(str::to_owned).or(from_env);
    let name = wanted.clone().unwrap_or_else(|| DEFAULT.to_owned());
    let profile = match Profile::read(&name, env) {
        Ok(profile) => profile,
        Err(e) => {
            let why = e.to_string();
            return ChosenProfile {
                profile: None,
                source: Err(KeyError::Profile { profile: name, why }),
            };
        }
    };
    let of_profile = || of_profile(&name, profile.as_ref());
    let source = if named.is_some() {
        of_profile().and_then(|found| found.ok_or_else(|| without_keys(&name)))
    } else if let (Some(id), Some(secret)) =
        (set("AWS_ACCESS_KEY_ID"), set("AWS_SECRET_ACCESS_KEY"))
    {
        let token = set("AWS_SESSION_TOKEN");
        Ok(Source::Static(Keys {
            id,
            secret,
            token,
            end: None,
        }))
    } else if wanted.is_some() {
        of_profile().and_then(|found| found.ok_or_else(|| without_keys(&name)))
    } else if set("AWS_WEB_IDENTITY_TOKEN_FILE").is_some() && set("AWS_ROLE_ARN").is_some() {
        Ok(Source::WebIdentity)
    } else {
        match profile.as_ref().map(|_| of_profile()) {
            Some(Err(e)) => Err(e),
            Some(Ok(Some(source))) => Ok(source),
            Some(Ok(None)) | None => surroundings(&set, is_amazon),
        }
    };
    ChosenProfile { profile, source }
}

fn surroundings(
    set: &dyn Fn(&str) -> Option<String>,
    is_amazon: impl Fn() -> bool,
) -> Result<Source, KeyError> {
    let is_container = set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").is_some()
        || set("AWS_CONTAINER_CREDENTIALS_FULL_URI").is_some();
    let is_off = set("AWS_EC2_METADATA_DISABLED").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let is_asked_for = set("AWS_EC2_METADATA_SERVICE_ENDPOINT").is_some();
    if is_container {
        Ok(Source::Container)
    } else if !is_off && (is_asked_for || is_amazon()) {
        Ok(Source::Machine)
    } else {
        Err(KeyError::None)
    }
}

fn of_profile(name: &str, profile: Option<&Profile>) -> Result<Option<Source>, KeyError> {
    let profile = profile.ok_or_else(|| KeyError::NoProfile(name.to_owned()))?;
    let keys = profile.keys().map_err(|why| KeyError::Profile {
        profile: name.to_owned(),
        why: format!("its credential_process is not a command: {why}"),
    })?;
    Ok(keys.map(|keys| match keys {
        KeySource::Static(keys) => Source::Static(keys),
        KeySource::Program(program) => Source::Program(name.to_owned(), program),
    }))
}

fn without_keys(name: &str) -> KeyError {
    KeyError::Profile {
        profile: name.to_owned(),
        why: "it has no credentials".to_owned(),
    }
}

/// Returns whether this machine says that it is one of Amazon's.
pub fn is_amazon() -> bool {
    let says = |path: &str, wanted: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.to_lowercase().starts_with(wanted)
    };
    says("/sys/class/dmi/id/sys_vendor", "amazon") || says("/sys/hypervisor/uuid", "ec2")
}

/// Gives the builder of a client its credentials. `options` are those of connections to services that
/// hand out keys.
pub fn apply(
    builder: AmazonS3Builder,
    source: &Source,
    env: Env<'_>,
    region: &str,
    options: &ClientOptions,
) -> object_store::Result<AmazonS3Builder> {
    let service = match source {
        Source::Static(keys) => {
            let builder = builder
                .with_access_key_id(&keys.id)
                .with_secret_access_key(&keys.secret);
            return Ok(match &keys.token {
                Some(token) => builder.with_token(token),
                None => builder,
            });
        }
        Source::Program(profile, program) => {
            let keys = AskedKeys::of_program(profile, program);
            return Ok(builder.with_credentials(Arc::new(keys)));
        }
        Source::WebIdentity => Service::tokens(env, region),
        Source::Container => Service::container(env),
        Source::Machine => Service::machine(env),
    };
    let keys = AskedKeys::of_service(service, options)?;
    Ok(builder.with_credentials(Arc::new(keys)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn chosen(named: Option<&str>, vars: &[(&str, &str)], is_amazon: bool) -> ChosenProfile {
        let vars: BTreeMap<&str, &str> = vars.iter().copied().collect();
        let env = |name: &str| vars.get(name).map(|value| (*value).to_owned());
        choose(named, &env, || is_amazon)
    }

    #[test]
    fn the_order_is_that_of_the_aws_tools() -> std::io::Result<()> {
        let home = tempfile::tempdir()?;
        std::fs::create_dir(home.path().join(".aws"))?;
        let config = "[default]\nregion = eu-west-1\n[profile p]\ncredential_process = keys\n";
        std::fs::write(home.path().join(".aws/config"), config)?;
        let home = home.path().to_str().expect("it is text");
        let keys = [
            ("HOME", home),
            ("AWS_ACCESS_KEY_ID", "AKIA"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
        ];
        let source =
            |named, vars: &[(&str, &str)], is_amazon| chosen(named, vars, is_amazon).source;
        assert!(matches!(source(Some("p"), &keys, true), Ok(Source::Program(p, _)) if p == "p"));
        let with_profile = [&keys[..], &[("AWS_PROFILE", "p")]].concat();
        assert!(matches!(
            source(None, &with_profile, true),
            Ok(Source::Static(_))
        ));
        let profile = [("HOME", home), ("AWS_PROFILE", "p")];
        assert!(matches!(
            source(None, &profile, true),
            Ok(Source::Program(..))
        ));
        let none = [("HOME", home), ("AWS_PROFILE", "q")];
        assert_eq!(
            source(None, &none, true).err(),
            Some(KeyError::NoProfile("q".to_owned()))
        );
        let web = [
            ("HOME", home),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"),
            ("AWS_ROLE_ARN", "r"),
        ];
        assert!(matches!(source(None, &web, true), Ok(Source::WebIdentity)));
        let container = [
            ("HOME", home),
            ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/c"),
        ];
        assert!(matches!(
            source(None, &container, true),
            Ok(Source::Container)
        ));
        assert!(matches!(
            source(None, &[("HOME", home)], true),
            Ok(Source::Machine)
        ));
        assert_eq!(
            source(None, &[("HOME", home)], false).err(),
            Some(KeyError::None)
        );
        let off = [("HOME", home), ("AWS_EC2_METADATA_DISABLED", "true")];
        assert_eq!(source(None, &off, true).err(), Some(KeyError::None));
        let region = chosen(None, &keys, false)
            .profile
            .and_then(|p| p.get("region").map(str::to_owned));
        assert_eq!(
            region.as_deref(),
            Some("eu-west-1"),
            "the profile still gives the region"
        );
        Ok(())
    }
}
