//! Keys of a program or a service. They are asked for when a request needs them, and again before they expire.

use super::profile::{Keys, run};
use super::service::{Service, client_of};
use object_store::client::HttpClient;
use object_store::{ClientOptions, CredentialProvider, aws::AwsCredential};
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// No credentials, or unusable ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There are none.
    #[error("no credentials were found")]
    None,
    /// A profile was named that is not in the files.
    #[error("there is no AWS profile '{0}'")]
    NoProfile(String),
    /// A profile cannot be used.
    #[error("AWS profile '{profile}': {why}")]
    Profile {
        /// Its name.
        profile: String,
        /// The reason.
        why: String,
    },
}

/// How long before their end keys are asked for again.
const EARLY: Duration = Duration::from_secs(300);

/// What gives the keys.
enum KeyGiver {
    /// A program of the profile with this name.
    Program(String, Vec<String>),
    Service(Service, HttpClient),
}

/// Keys, and what gives them.
pub struct AskedKeys {
    giver: KeyGiver,
    /// The keys at hand, in both forms. Requests that need new ones at the same time wait for one answer.
    known: Mutex<Option<(Keys, Arc<AwsCredential>)>>,
}

impl fmt::Debug for AskedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskedKeys")
    }
}

impl AskedKeys {
    /// Returns the keys that a program of a profile prints.
    pub fn of_program(profile: &str, program: &[String]) -> AskedKeys {
        AskedKeys {
            giver: KeyGiver::Program(profile.to_owned(), program.to_vec()),
            known: Mutex::default(),
        }
    }

    /// Returns the keys that a service hands out over a connection with these options.
    pub fn of_service(
        service: Service,
        options: &ClientOptions,
    ) -> object_store::Result<AskedKeys> {
        Ok(AskedKeys {
            giver: KeyGiver::Service(service, client_of(options)?),
            known: Mutex::default(),
        })
    }

    async fn ask(&self) -> Result<Keys, Box<dyn Error + Send + Sync>> {
        match &self.giver {
            KeyGiver::Service(service, client) => Ok(service.ask(client).await?),
            KeyGiver::Program(profile, program) => {
                let program = program.clone();
                let printed = tokio::task::spawn_blocking(move || run(&program)).await?;
                let profile = profile.clone();
                Ok(printed.map_err(|why| KeyError::Profile { profile, why })?)
            }
        }
    }

    async fn current(&self) -> Result<Arc<AwsCredential>, Box<dyn Error + Send + Sync>> {
        let mut known = self.known.lock().await;
        let soon = jiff::Timestamp::now() + EARLY;
        if let Some((keys, credential)) = &*known
            && keys.end.is_none_or(|end| end > soon)
        {
            return Ok(Arc::clone(credential));
        }
        let keys = self.ask().await?;
        let credential = Arc::new(AwsCredential {
            key_id: keys.id.clone(),
            secret_key: keys.secret.clone(),
            token: keys.token.clone(),
        });
        *known = Some((keys, Arc::clone(&credential)));
        Ok(credential)
    }
}

impl CredentialProvider for AskedKeys {
    type Credential = AwsCredential;

    // What the macro async_trait makes of an asynchronous function.
    fn get_credential<'s, 'f>(
        &'s self,
    ) -> Pin<Box<dyn Future<Output = object_store::Result<Arc<AwsCredential>>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let failed = |source| object_store::Error::Generic {
                store: "S3",
                source,
            };
            self.current().await.map_err(failed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_run_again_only_when_its_keys_expire() -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let dir = tempfile::tempdir()?;
        let count = dir.path().join("count");
        let count = count.to_str().expect("it is text");
        for (minutes, runs) in [(60, 1), (4, 3)] {
            let end = jiff::Timestamp::now() + Duration::from_secs(minutes * 60);
            let script = format!(
                "echo x >> {count}; echo '{{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\",\
                 \"Expiration\":\"{end}\"}}'"
            );
            let program = ["sh", "-c", &script].map(str::to_owned);
            std::fs::write(count, "")?;
            let keys = AskedKeys::of_program("p", &program);
            for _ in 0..3 {
                assert!(runtime.block_on(keys.current()).is_ok());
            }
            assert_eq!(std::fs::read_to_string(count)?.lines().count(), runs);
        }
        Ok(())
    }
}
