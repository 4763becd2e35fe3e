//! Files with credentials: keys, tokens, TLS. Each is read whole, up to a size limit. A file with a secret that other users can access
//! is refused.

mod error;
mod input_file;
pub mod key_file;
mod secret_file;
pub mod tls_file;
pub mod token;

pub use error::{FileError, FileErrorKind};
pub use input_file::InputFile;
