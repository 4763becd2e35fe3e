//! Credentials of a client: a token or a certificate.

use std::path::PathBuf;

use clap::Args;
use fabric::session::Credentials;

use crate::links::endpoint::AuthMethod;
use crate::links::ticket::Tickets;
use crate::output::Failure;
use crate::settings::Global;
use access::files::{tls_file, token};

#[derive(Debug, Clone, Args)]
pub(crate) struct CredentialArgs {
    /// Token file, with NAME TOKEN on its first line [env: WIRELANE_TOKEN_FILE]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "tls_ca")]
    token_file: Option<PathBuf>,

    /// Authenticate by certificate: the CA certificates that the server's certificate is verified with (PEM)
    #[arg(long, global = true, value_name = "FILE", requires_all = ["tls_cert", "tls_key"])]
    tls_ca: Option<PathBuf>,

    /// The client's certificate (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "tls_ca")]
    tls_cert: Option<PathBuf>,

    /// The private key of the client's certificate (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "tls_ca")]
    tls_key: Option<PathBuf>,
}

impl CredentialArgs {
    /// How this client authenticates. Reads the token file.
    pub(crate) fn auth_method(&self, global: &Global) -> Result<AuthMethod, Failure> {
        if self.tls_ca.is_some() {
            return Ok(AuthMethod::TokensOrTickets);
        }
        let Some(file) = self.token_file.as_ref().or(global.token_file.as_ref()) else {
            return Ok(AuthMethod::SharedKey);
        };
        Ok(AuthMethod::Credentials(Credentials::Key(token::caller(file)?)))
    }

    /// The source of tickets, if this client authenticates by certificate. Reads the files.
    pub(crate) fn tickets(&self) -> Result<Option<Tickets>, Failure> {
        let (Some(ca), Some(certificate), Some(key)) =
            (&self.tls_ca, &self.tls_cert, &self.tls_key)
        else {
            return Ok(None);
        };
        let tickets = Tickets::new(
            &tls_file::certificate(ca)?,
            &tls_file::certificate(certificate)?,
            tls_file::key(key)?.as_bytes(),
        );
        let failure = |error| {
            let file = certificate.display();
            Failure::usage(format!(
                "use the certificate {file}: {error} — see --tls-ca, --tls-cert and --tls-key"
            ))
        };
        tickets.map(Some).map_err(failure)
    }
}
