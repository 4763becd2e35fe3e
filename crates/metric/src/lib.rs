//! One row per metric, and the text that Prometheus reads.
//!
//! A [`Row`] says what a metric is called, what it means, in which unit and of which kind; a name that
//! breaks Prometheus's conventions does not compile. An [`Exposition`] is one answer to one scrape: it
//! collects samples and is the text. It counts and keeps nothing: the caller adds the values that it has,
//! and adds none where it has none, because missing is not zero.
//!
//! ```
//! use metric::{Exposition, Prefix, Row};
//!
//! const SENT: Row = Row::counter("rdma_bytes_sent_total", "bytes", "Payload sent");
//!
//! let mut answer = Exposition::new(&Prefix::default());
//! answer.add(&SENT, &[("device", "mlx5_0")], 4096u64);
//! assert!(answer.to_string().ends_with("wirelane_rdma_bytes_sent_total{device=\"mlx5_0\"} 4096\n"));
//! ```
//!
//! Start at [`Row`].

mod exposition;
mod prefix;
mod row;
mod value;

pub use exposition::{CONTENT_TYPE, Exposition, Total};
pub use prefix::{Prefix, WrongPrefix};
pub use row::{Kind, Row};
pub use value::Value;
