//! Who may call, as the user said it; and what cannot be meant.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

use crate::links::endpoint::Known;
use crate::output::Failure;
use crate::settings::Settings;
use access::files::tls_file::Paths;

#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
pub(super) struct SecurityArgs {
    /// Accept clients with a token of this file, with the permissions on its line (see `wirelane token new`); reread on SIGHUP
    #[arg(long, value_name = "FILE", conflicts_with = "allow_anonymous")]
    token_file: Option<PathBuf>,

    /// Serve gRPC and HTTP over TLS only, with this certificate (PEM); reread on SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Accept clients with a certificate signed by one of these (PEM), with all permissions, or, with --token-file, with
    /// those of its line `NAME cert …`
    #[arg(long, value_name = "FILE", requires = "tls_cert", conflicts_with = "allow_anonymous")]
    tls_client_ca: Option<PathBuf>,

    /// Accept clients without credentials, even on addresses that other machines can reach
    #[arg(long)]
    allow_anonymous: bool,

    /// Maximum requests per second of each identity, over links and gRPC together (default: unlimited)
    #[arg(long, value_name = "N")]
    pub(super) max_rate: Option<NonZeroU32>,
}

/// Who may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Security {
    /// Where tokens are.
    pub(super) tokens: Option<PathBuf>,
    /// Where certificates are.
    pub(super) tls: Option<Paths>,
    /// Whether callers that show nothing may do everything.
    pub(super) anonymous: bool,
}

impl SecurityArgs {
    /// What it comes to, for these addresses of links and of HTTP.
    pub(super) fn judge(
        &self,
        settings: &Settings,
        listen: SocketAddr,
        http: SocketAddr,
    ) -> Result<Security, Failure> {
        if self.allow_anonymous && settings.require_authentication {
            let text = "--allow-anonymous contradicts security.rdma.require_authentication: drop one of them";
            return Err(Failure::usage(text));
        }
        let set = Some(&settings.token_file).filter(|file| !file.is_empty()).map(PathBuf::from);
        if self.allow_anonymous && set.is_some() {
            return Err(Failure::usage(
                "--allow-anonymous contradicts security.token_file: drop one of them",
            ));
        }
        let tokens = self.token_file.clone().or(set);
        let known = tokens.is_some() || self.tls_client_ca.is_some();
        let reachable = |address: SocketAddr| !address.ip().is_loopback();
        let closed = !self.allow_anonymous && !known;
        if reachable(listen) && closed && settings.key_file.is_empty() {
            return Err(refuse("listen", listen));
        }
        if reachable(http) && closed {
            return Err(refuse("serve HTTP", http));
        }
        let anonymous = !known
            && !settings.require_authentication
            && (self.allow_anonymous || !reachable(listen));
        Ok(Security { tokens, tls: self.tls(), anonymous })
    }

    fn tls(&self) -> Option<Paths> {
        let (certificate, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(Paths { certificate, key, client_ca: self.tls_client_ca.clone() })
    }
}

impl Security {
    /// Whether callers by gRPC and HTTP can show who they are.
    pub(super) fn asks(&self) -> bool {
        self.tokens.is_some() || self.takes_certificates()
    }

    /// Whether callers may show certificates.
    pub(super) fn takes_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some())
    }

    /// Whether every good certificate may do everything.
    pub(super) fn any_certificate(&self) -> bool {
        self.takes_certificates() && self.tokens.is_none()
    }

    pub(super) fn known(&self) -> Known {
        if self.asks() { Known::Others } else { Known::ByKey }
    }
}

// A token may be limited to any prefix that a key can have.
const _: () = assert!(access::Scope::MAX_PREFIX_BYTES == kv_proto::limits::MAX_KEY_BYTES);

fn refuse(what: &str, address: SocketAddr) -> Failure {
    Failure::usage(format!(
        "{what} on {address}: other machines reach it, and nobody would be asked who they are. Three ways to go \
         on: --token-file FILE, made with `wirelane token new NAME`; --tls-cert FILE --tls-key FILE --tls-client-ca \
         FILE, for callers with certificates; or --allow-anonymous, on a network that you trust"
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: SecurityArgs,
    }

    fn judge(
        words: &[&str],
        settings: &Settings,
        listen: &str,
        http: &str,
    ) -> Result<Security, String> {
        let line = Line::try_parse_from([&["serve"], words].concat())
            .map_err(|error| error.to_string())?;
        let [listen, http] = [listen, http].map(|address| address.parse().expect("an address"));
        line.args.judge(settings, listen, http).map_err(|failure| failure.to_string())
    }

    const HERE: &str = "127.0.0.1:1";
    const WORLD: &str = "0.0.0.0:1";

    fn usual() -> Settings {
        crate::settings::defaults()
    }

    #[test]
    fn the_world_needs_credentials_or_a_word() {
        let settings = usual();
        let open = judge(&[], &settings, HERE, HERE).unwrap();
        assert!(open.anonymous && !open.asks());
        for (listen, http) in [(WORLD, HERE), (HERE, WORLD)] {
            let refused = judge(&[], &settings, listen, http).unwrap_err();
            for way in ["--token-file FILE", "--tls-client-ca FILE", "--allow-anonymous"] {
                assert!(refused.contains(way), "{refused}");
            }
            assert!(judge(&["--allow-anonymous"], &settings, listen, http).unwrap().anonymous);
            let tokens = judge(&["--token-file", "f"], &settings, listen, http).unwrap();
            assert!(tokens.asks() && !tokens.anonymous);
        }
    }

    #[test]
    fn a_key_opens_links_alone() {
        let keyed = Settings { key_file: "cluster.key".to_owned(), ..usual() };
        assert!(!judge(&[], &keyed, WORLD, HERE).unwrap().anonymous);
        assert!(judge(&[], &keyed, HERE, HERE).unwrap().anonymous, "as it always was");
        assert!(judge(&[], &keyed, WORLD, WORLD).is_err());
    }

    #[test]
    fn a_certificate_of_our_own_lets_nobody_in() {
        let tls = ["--tls-cert", "c", "--tls-key", "k"];
        assert!(judge(&tls, &usual(), WORLD, HERE).is_err());
        assert!(!judge(&tls, &usual(), HERE, HERE).unwrap().asks());
        let mutual = [&tls[..], &["--tls-client-ca", "a"]].concat();
        let security = judge(&mutual, &usual(), WORLD, WORLD).unwrap();
        assert!(security.any_certificate() && !security.anonymous);
        let both = [&mutual[..], &["--token-file", "f"]].concat();
        let both = judge(&both, &usual(), WORLD, WORLD).unwrap();
        assert!(both.takes_certificates() && !both.any_certificate());
        for wrong in
            [&tls[..2], &tls[2..], &mutual[4..], &[&mutual[..], &["--allow-anonymous"]].concat()]
        {
            assert!(judge(wrong, &usual(), HERE, HERE).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn tokens_are_asked_for_on_loopback_too() {
        let set = Settings { token_file: "set".to_owned(), ..usual() };
        let security = judge(&[], &set, HERE, HERE).unwrap();
        assert!(security.asks() && !security.anonymous);
        let typed = judge(&["--token-file", "typed"], &set, HERE, HERE).unwrap();
        assert_eq!(typed.tokens, Some(PathBuf::from("typed")));
        assert!(judge(&["--allow-anonymous"], &set, HERE, HERE).is_err());
        assert!(judge(&["--allow-anonymous", "--token-file", "f"], &usual(), HERE, HERE).is_err());
        assert!(judge(&["--max-rate", "0"], &usual(), HERE, HERE).is_err());
    }
}
