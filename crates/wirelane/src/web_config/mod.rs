//! A web config file, in the format of Prometheus's exporter-toolkit: TLS, users, headers, a rate limit; and pages protected by it.
//!
//! [`Config`](config::Config) is the contents of a file; `file` reads it, `fields` finds the fields of a section. `tls` creates the TLS
//! configuration, with Go's names for its parameters (`names`) and client certificates verified by `client_certificates`. `watched_file`
//! reloads the file when it changes. [`ProtectedSite`] serves [`Pages`] with the rules of such a file, or without any:
//!
//! ```text
//! let rules = AccessRules::open(args.web_config.as_deref())?;
//! let (stop, life) = watch::channel(Phase::Serving);
//! tokio::spawn(web::serve(listener, ProtectedSite::new(pages, rules), life));
//! ```

mod client_certificates;
mod config;
mod duration;
mod fields;
mod file;
mod limiter;
mod names;
mod site;
mod tls;
mod watched_file;

pub(crate) use site::{AccessRules, Pages, ProtectedSite};
