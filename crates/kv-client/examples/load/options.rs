//! What a client was told to do.

pub(crate) struct Options {
    pub(crate) server: String,
    pub(crate) way: String,
    pub(crate) seed: u64,
    pub(crate) bytes: Option<u64>,
    /// How many of a hundred requests read; none: the usual mixture.
    pub(crate) reads: Option<u64>,
    /// Name and token.
    pub(crate) token: Option<(String, String)>,
    pub(crate) idlers: u64,
    /// Clients of one number have the same keys.
    pub(crate) space: u64,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut next = || words.next().ok_or("load HOST:PORT shm|tcp|grpc SEED [WHAT=VALUE]…");
        let (server, way, seed) = (next()?, next()?, number(&next()?)?);
        let (bytes, reads, token, idlers, space) = (None, None, None, 0, 0);
        let mut options = Options { server, way, seed, bytes, reads, token, idlers, space };
        for word in words {
            match word.split_once('=') {
                Some(("bytes", value)) => options.bytes = Some(number(value)?),
                Some(("reads", value)) => options.reads = Some(number(value)?),
                Some(("idlers", value)) => options.idlers = number(value)?,
                Some(("space", value)) => options.space = number(value)?,
                Some(("token", value)) => {
                    let (name, token) = value.split_once(':').ok_or("token=NAME:TOKEN")?;
                    options.token = Some((name.to_owned(), token.to_owned()));
                }
                _ => return Err(format!("{word} says nothing to me")),
            }
        }
        Ok(options)
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}
