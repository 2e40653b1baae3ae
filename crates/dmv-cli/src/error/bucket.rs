//! Failures of object stores.

use crate::failure::{
    EXIT_ABSENT, EXIT_BUSY, EXIT_DAMAGE, EXIT_NO_REPOSITORY, EXIT_OTHER, EXIT_PERMISSION,
    EXIT_REFUSED, EXIT_TOO_NEW, EXIT_UNREACHABLE,
};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_net::trouble::Trouble;

/// Code and exit code of trouble with a store.
pub fn sort_bucket(trouble: &Trouble) -> (&'static str, u8) {
    match trouble {
        Trouble::NoBucket => ("no-bucket", EXIT_NO_REPOSITORY),
        Trouble::NoRoot => ("no-repository", EXIT_NO_REPOSITORY),
        Trouble::LostRoot(_) => ("root-lost", EXIT_DAMAGE),
        Trouble::Forked | Trouble::Lost(_) | Trouble::Damaged(_) => ("damaged", EXIT_DAMAGE),
        Trouble::TooNew => ("too-new", EXIT_TOO_NEW),
        Trouble::NoKeys(_) => ("no-credentials", EXIT_PERMISSION),
        Trouble::Keys(_) => ("bad-credentials", EXIT_PERMISSION),
        Trouble::Expired => ("credentials-expired", EXIT_PERMISSION),
        Trouble::Denied(_) | Trouble::Mirror => ("not-let-in", EXIT_PERMISSION),
        Trouble::Clock(_) => ("clock", EXIT_PERMISSION),
        Trouble::Region(_) => ("wrong-region", EXIT_OTHER),
        Trouble::Page | Trouble::Unreachable(_) | Trouble::Cut(_) => {
            ("unreachable", EXIT_UNREACHABLE)
        }
        Trouble::Unanswered { .. } => ("unanswered", EXIT_UNREACHABLE),
        Trouble::Cold => ("cold", EXIT_ABSENT),
        Trouble::Full(_) => ("full", EXIT_OTHER),
        Trouble::Unsupported(_) => ("unsafe-store", EXIT_REFUSED),
        Trouble::NoRoomForClaims => ("no-room", EXIT_OTHER),
        Trouble::Busy => ("busy", EXIT_BUSY),
        Trouble::Purged => ("purged-meanwhile", EXIT_BUSY),
        Trouble::ContentExpired => ("expired-meanwhile", EXIT_BUSY),
        Trouble::Settings(_) => ("bad-setting", EXIT_OTHER),
        Trouble::Other(_) => ("store", EXIT_OTHER),
    }
}

/// What to do about trouble with the store at `place`.
pub fn bucket_hint(place: &str, trouble: &Trouble) -> Option<Hint> {
    let hint = match trouble {
        Trouble::NoBucket => {
            "check the name of the bucket; dmv makes no bucket, only the repository in it"
        }
        Trouble::NoRoot if place.starts_with("http") => "check the path of the address",
        Trouble::NoRoot => {
            return Some(hint!(
                "check the path after the bucket; a first push makes a repository there. If there was one: \
                 dmv recover --at {}",
                Argument::value(place)
            ));
        }
        Trouble::LostRoot(_) if place.starts_with("http") => {
            "tell the people who publish these files; they can restore it"
        }
        Trouble::LostRoot(_) => {
            return Some(hint!(
                "if the bucket keeps versions, restore the last good version of 'root' with the tools of the \
                 store; otherwise: dmv recover --at {}",
                Argument::value(place)
            ));
        }
        Trouble::Forked => {
            "do not push; look for an older version of the file 'root' in the bucket, if it keeps versions"
        }
        Trouble::Lost(_) | Trouble::Damaged(_) => {
            "restore the file if the bucket keeps versions; a device that has everything can push to a new place"
        }
        Trouble::TooNew => "install the newest dmv",
        Trouble::NoKeys(_) if place.starts_with("az://") => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
        }
        Trouble::NoKeys(_) if place.starts_with("gs://") => {
            "set GOOGLE_APPLICATION_CREDENTIALS=FILE, or run: gcloud auth application-default login"
        }
        Trouble::NoKeys(_) => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run: aws configure; to use a \
             profile: dmv config set remote.NAME.profile PROFILE"
        }
        Trouble::Keys(_) => {
            "check the key and its secret; aws sts get-caller-identity shows whose it is"
        }
        Trouble::Expired => "get new ones, for example: aws sso login",
        Trouble::Denied(_) => {
            "this key needs the right to read, and to push also the right to write; there may also \
             be no repository here, and the first push needs the right to list"
        }
        Trouble::Mirror => {
            "use the bucket whose files the mirror shows; dmv remote lists your remotes"
        }
        Trouble::Clock(_) => "set this device's clock: timedatectl set-ntp true",
        Trouble::Region(Some(region)) => {
            let region = Argument::value(region);
            return Some(hint!(
                "dmv config set remote.NAME.region {}, or AWS_REGION={}",
                region,
                region
            ));
        }
        Trouble::Region(None) => "dmv config set remote.NAME.region REGION, or AWS_REGION=REGION",
        Trouble::Page if place.starts_with("http") => {
            "the address must be that of the files of a bucket, with the file 'root' below it"
        }
        Trouble::Page => "log in to the network in a browser, or check the proxy and the endpoint",
        Trouble::Cold => {
            "restore the files of the bucket from cold storage; no lifecycle rule may move them there"
        }
        Trouble::Full(_) => {
            "free space in the store, or raise the quota; then run the same command again"
        }
        Trouble::Unsupported(_) => "dmv remote check NAME",
        Trouble::NoRoomForClaims => "dmv release, or end those of a device: dmv release --of",
        Trouble::Busy | Trouble::Cut(_) | Trouble::Purged | Trouble::ContentExpired => {
            "run the same command again to continue"
        }
        Trouble::Unanswered { operation, .. } => {
            return Some(hint!(
                "dmv op log --at {}, which lists operation {} if it has happened; or run the same \
                 command again: it does nothing twice",
                Argument::value(place),
                Argument::value(operation)
            ));
        }
        Trouble::Unreachable(why) if why.contains("certificate") => {
            "if the store's certificate is of an authority of your own: AWS_CA_BUNDLE=FILE, or \
             SSL_CERT_FILE=FILE"
        }
        Trouble::Unreachable(_) => "check the network, and the endpoint of the store",
        Trouble::Settings(_) | Trouble::Other(_) => return None,
    };
    Some(hint.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_net::trouble::RootLoss;

    #[test]
    fn trouble_with_a_store_has_the_exit_codes_of_the_guide() {
        for (trouble, exit) in [
            (Trouble::NoBucket, 10),
            (Trouble::LostRoot(RootLoss::Gone), 7),
            (Trouble::NoKeys(String::new()), 12),
            (Trouble::Denied(String::new()), 12),
            (Trouble::Mirror, 12),
            (Trouble::Expired, 12),
            (Trouble::Clock(None), 12),
            (Trouble::Region(None), 20),
            (Trouble::Page, 13),
            (Trouble::Cold, 6),
            (Trouble::Full(String::new()), 20),
            (Trouble::Unsupported(String::new()), 5),
            (Trouble::Busy, 11),
            (Trouble::Cut(String::new()), 13),
            (
                Trouble::Unanswered {
                    operation: String::new(),
                    undoes: None,
                },
                13,
            ),
        ] {
            assert_eq!(sort_bucket(&trouble).1, exit, "{trouble:?}");
        }
        let certificate =
            Trouble::Unreachable("invalid peer certificate: UnknownIssuer".to_owned());
        let certificate = bucket_hint("s3://b", &certificate);
        assert!(certificate.is_some_and(|hint| hint.as_str().contains("AWS_CA_BUNDLE")));
        let region = bucket_hint("s3://b", &Trouble::Region(Some("eu-west-1".to_owned())));
        assert!(region.is_some_and(|hint| hint.as_str().contains("region eu-west-1")));
    }
}
