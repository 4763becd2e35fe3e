//! Access options of `serve`, and checks of their combinations.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

use crate::links::endpoint::AuthMethod;
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

/// How clients authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Security {
    /// The token file.
    pub(super) tokens: Option<PathBuf>,
    /// The certificate files.
    pub(super) tls: Option<Paths>,
    /// Whether clients without credentials have all permissions.
    pub(super) anonymous: bool,
}

impl SecurityArgs {
    /// Checks the options, for these addresses of links and of HTTP.
    pub(super) fn check(
        &self,
        settings: &Settings,
        listen: SocketAddr,
        http: SocketAddr,
    ) -> Result<Security, Failure> {
        if self.allow_anonymous && settings.require_authentication {
            let text = "--allow-anonymous contradicts security.rdma.require_authentication: remove one of them";
            return Err(Failure::usage(text));
        }
        let set = Some(&settings.token_file).filter(|file| !file.is_empty()).map(PathBuf::from);
        if self.allow_anonymous && set.is_some() {
            return Err(Failure::usage(
                "--allow-anonymous contradicts security.token_file: remove one of them",
            ));
        }
        let tokens = self.token_file.clone().or(set);
        let authenticates = tokens.is_some() || self.tls_client_ca.is_some();
        let reachable = |address: SocketAddr| !address.ip().is_loopback();
        let closed = !self.allow_anonymous && !authenticates;
        if reachable(listen) && closed && settings.key_file.is_empty() {
            return Err(refuse("listen", listen));
        }
        if reachable(http) && closed {
            return Err(refuse("serve HTTP", http));
        }
        let anonymous = !authenticates
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
    /// Whether clients over gRPC and HTTP must authenticate.
    pub(super) fn authenticates(&self) -> bool {
        self.tokens.is_some() || self.accepts_certificates()
    }

    /// Whether clients can authenticate with certificates.
    pub(super) fn accepts_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some())
    }

    /// Whether every valid certificate has all permissions.
    pub(super) fn any_certificate(&self) -> bool {
        self.accepts_certificates() && self.tokens.is_none()
    }

    pub(super) fn auth_method(&self) -> AuthMethod {
        if self.authenticates() { AuthMethod::TokensOrTickets } else { AuthMethod::SharedKey }
    }
}

// A token may be limited to any prefix that a key can have.
const _: () = assert!(access::Scope::MAX_PREFIX_BYTES == kv_proto::limits::MAX_KEY_BYTES);

fn refuse(what: &str, address: SocketAddr) -> Failure {
    Failure::usage(format!(
        "{what} on {address}: other machines can reach this address, and no authentication is configured. Pass one of: \
         --token-file FILE (see `wirelane token new`); --tls-cert FILE --tls-key FILE --tls-client-ca FILE, for clients \
         with certificates; --allow-anonymous, on a trusted network"
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

    fn check(
        words: &[&str],
        settings: &Settings,
        listen: &str,
        http: &str,
    ) -> Result<Security, String> {
        let line = Line::try_parse_from([&["serve"], words].concat())
            .map_err(|error| error.to_string())?;
        let [listen, http] = [listen, http].map(|address| address.parse().expect("an address"));
        line.args.check(settings, listen, http).map_err(|failure| failure.to_string())
    }

    const LOOPBACK: &str = "127.0.0.1:1";
    const EVERYWHERE: &str = "0.0.0.0:1";

    fn defaults() -> Settings {
        crate::settings::defaults()
    }

    #[test]
    fn reachable_addresses_need_credentials_or_allow_anonymous() {
        let settings = defaults();
        let open = check(&[], &settings, LOOPBACK, LOOPBACK).unwrap();
        assert!(open.anonymous && !open.authenticates());
        for (listen, http) in [(EVERYWHERE, LOOPBACK), (LOOPBACK, EVERYWHERE)] {
            let refused = check(&[], &settings, listen, http).unwrap_err();
            for option in ["--token-file FILE", "--tls-client-ca FILE", "--allow-anonymous"] {
                assert!(refused.contains(option), "{refused}");
            }
            assert!(check(&["--allow-anonymous"], &settings, listen, http).unwrap().anonymous);
            let tokens = check(&["--token-file", "f"], &settings, listen, http).unwrap();
            assert!(tokens.authenticates() && !tokens.anonymous);
        }
    }

    #[test]
    fn a_key_file_authenticates_links_only() {
        let keyed = Settings { key_file: "cluster.key".to_owned(), ..defaults() };
        assert!(!check(&[], &keyed, EVERYWHERE, LOOPBACK).unwrap().anonymous);
        assert!(check(&[], &keyed, LOOPBACK, LOOPBACK).unwrap().anonymous, "loopback stays open");
        assert!(check(&[], &keyed, EVERYWHERE, EVERYWHERE).is_err());
    }

    #[test]
    fn a_server_certificate_authenticates_no_client() {
        let tls = ["--tls-cert", "c", "--tls-key", "k"];
        assert!(check(&tls, &defaults(), EVERYWHERE, LOOPBACK).is_err());
        assert!(!check(&tls, &defaults(), LOOPBACK, LOOPBACK).unwrap().authenticates());
        let mutual = [&tls[..], &["--tls-client-ca", "a"]].concat();
        let security = check(&mutual, &defaults(), EVERYWHERE, EVERYWHERE).unwrap();
        assert!(security.any_certificate() && !security.anonymous);
        let both = [&mutual[..], &["--token-file", "f"]].concat();
        let both = check(&both, &defaults(), EVERYWHERE, EVERYWHERE).unwrap();
        assert!(both.accepts_certificates() && !both.any_certificate());
        for wrong in
            [&tls[..2], &tls[2..], &mutual[4..], &[&mutual[..], &["--allow-anonymous"]].concat()]
        {
            assert!(check(wrong, &defaults(), LOOPBACK, LOOPBACK).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn tokens_are_required_on_loopback_too() {
        let set = Settings { token_file: "set".to_owned(), ..defaults() };
        let security = check(&[], &set, LOOPBACK, LOOPBACK).unwrap();
        assert!(security.authenticates() && !security.anonymous);
        let typed = check(&["--token-file", "typed"], &set, LOOPBACK, LOOPBACK).unwrap();
        assert_eq!(typed.tokens, Some(PathBuf::from("typed")));
        assert!(check(&["--allow-anonymous"], &set, LOOPBACK, LOOPBACK).is_err());
        assert!(
            check(&["--allow-anonymous", "--token-file", "f"], &defaults(), LOOPBACK, LOOPBACK)
                .is_err()
        );
        assert!(check(&["--max-rate", "0"], &defaults(), LOOPBACK, LOOPBACK).is_err());
    }
}
