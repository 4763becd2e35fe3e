//! As whom this program calls a store: by a token, if the user has one.

use std::path::PathBuf;

use clap::Args;
use fabric::session::Credentials;

use crate::cli::Global;
use crate::endpoint::Known;
use crate::exit::Failure;
use crate::token;

#[derive(Debug, Clone, Args)]
pub(crate) struct CallerArgs {
    /// A file with the token to show: NAME TOKEN on its first line; so does the variable WIRELANE_TOKEN_FILE
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl CallerArgs {
    /// By what the store will know us. Reads the token.
    pub(crate) fn known(&self, global: &Global) -> Result<Known, Failure> {
        let Some(file) = self.token_file.as_ref().or(global.token_file.as_ref()) else {
            return Ok(Known::ByKey);
        };
        Ok(Known::As(Credentials::Key(token::caller(file)?)))
    }
}
