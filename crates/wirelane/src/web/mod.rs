//! The HTTP server of `serve` and `exporter`: a few pages, and limits so that no caller can hold it up.
//!
//! A [`Site`] is what is served at one address: how connections begin (plain or TLS) and what is answered.
//! [`serve`] takes connections for it until it is told to stop. [`Gated`] is a site that is a few [`Pages`] behind a
//! Prometheus web config file (`gate`, `config`), or behind nothing:
//!
//! ```text
//! let gate = Gate::open(args.web_config.as_deref())?;
//! let (stop, life) = watch::channel(Phase::Serving);
//! tokio::spawn(web::serve(listener, Gated::new(pages, gate), life));
//! ```

pub(crate) mod config;
mod gate;
mod limiter;
mod reply;
mod server;
mod stream;
mod watched;

pub(crate) use gate::{Gate, Gated, Pages};
pub(crate) use reply::{PLAIN, Reply, misdirected, text};
pub(crate) use server::{Head, Site, serve};
pub(crate) use stream::Stream;
