//! The arguments.

pub(crate) struct Options {
    pub(crate) server: String,
    pub(crate) transport: String,
    pub(crate) seed: u64,
    pub(crate) bytes: Option<u64>,
    /// Percentage of reads; `None`: the default mix.
    pub(crate) reads: Option<u64>,
    /// Name and token.
    pub(crate) token: Option<(String, String)>,
    pub(crate) idlers: u64,
    /// Clients with the same number use the same keys.
    pub(crate) space: u64,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut next =
            || arguments.next().ok_or("usage: load HOST:PORT shm|tcp|grpc SEED [OPTION=VALUE]…");
        let (server, transport, seed) = (next()?, next()?, number(&next()?)?);
        let (bytes, reads, token, idlers, space) = (None, None, None, 0, 0);
        let mut options = Options { server, transport, seed, bytes, reads, token, idlers, space };
        for argument in arguments {
            match argument.split_once('=') {
                Some(("bytes", value)) => options.bytes = Some(number(value)?),
                Some(("reads", value)) => options.reads = Some(number(value)?),
                Some(("idlers", value)) => options.idlers = number(value)?,
                Some(("space", value)) => options.space = number(value)?,
                Some(("token", value)) => {
                    let (name, token) = value.split_once(':').ok_or("token=NAME:TOKEN")?;
                    options.token = Some((name.to_owned(), token.to_owned()));
                }
                _ => return Err(format!("unknown argument {argument}")),
            }
        }
        Ok(options)
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
