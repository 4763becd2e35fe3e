//! A web config file, in the format of Prometheus's exporter-toolkit: TLS, users, headers, a rate limit; and pages behind it.
//!
//! [`Config`](config::Config) is what a file says; `file` reads it, `fields` finds its fields in the document. TLS is made of
//! its section in `tls`, by names that are Go's (`names`), with callers' certificates verified by `client_certificates`. `watched_file` reads
//! the file again when it changes. [`Gated`] is a site of a few [`Pages`] behind such a file, or behind nothing:
//!
//! ```text
//! let gate = Gate::open(args.web_config.as_deref())?;
//! let (stop, life) = watch::channel(Phase::Serving);
//! tokio::spawn(web::serve(listener, Gated::new(pages, gate), life));
//! ```

mod client_certificates;
mod config;
mod duration;
mod fields;
mod file;
mod gate;
mod limiter;
mod names;
mod tls;
mod watched_file;

pub(crate) use gate::{Gate, Gated, Pages};
