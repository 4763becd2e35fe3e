//! `wirelane token new`: a line with 32 random bytes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use access::Scope;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use clap::Args;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::output;
use crate::output::{Exit, Failure};
use access::files::token::line;

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// Name of the client, for reports and logs
    name: String,

    /// Permit reads only
    #[arg(long)]
    read_only: bool,

    /// Permit only keys with this prefix
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<OsString>,
}

pub(super) fn run(args: &NewArgs) -> Result<Exit, Failure> {
    let prefix = args.prefix.as_ref().map_or(&[][..], |prefix| prefix.as_bytes());
    let scope = Scope::new(!args.read_only, prefix);
    let line = line::render(&args.name, &random()?, &scope);
    // The printed line must parse to the same values: a name with a space would not.
    match line::parse(&line) {
        Some(Ok(identity)) if identity.name == args.name && identity.scope == scope => {}
        Some(Err(error)) => return Err(Failure::usage(format!("create a token: {error}"))),
        _ => return Err(Failure::usage("create a token: the name must be one word without `#`")),
    }
    output::answer(&format!("{line}\n"))?;
    Ok(Exit::Done)
}

/// A prefix that secret scanners can find, and 256 random bits.
fn random() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(32) => Ok(format!("wlt_{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))),
        _ => Err(Failure::failed(
            "create a token: no random numbers from the system — see getrandom(2)",
        )),
    }
}
