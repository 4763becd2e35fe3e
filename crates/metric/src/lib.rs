//! The type of a metric's definition, and the text that Prometheus reads.
//!
//! A [`Row`] has a metric's name, help, unit and kind; a name that
//! breaks Prometheus's conventions does not compile. An [`Exposition`] is the answer to one scrape: it
//! collects samples and formats them as text. It counts and stores nothing: the caller adds the values that it has,
//! and none where it has none, because missing is not zero.
//!
//! ```
//! use metric::{Exposition, Prefix, Row};
//!
//! const SENT: Row = Row::counter("rdma_transmit_payload_bytes_total", "bytes", "Payload sent");
//!
//! let mut answer = Exposition::new(&Prefix::default());
//! answer.add(&SENT, &[("device", "mlx5_0")], 4096u64);
//! assert!(answer.to_string().ends_with("wirelane_rdma_transmit_payload_bytes_total{device=\"mlx5_0\"} 4096\n"));
//! ```
//!
//! Start at [`Row`].

mod exposition;
mod prefix;
mod row;
mod value;

pub use exposition::{CONTENT_TYPE, Exposition, Total};
pub use prefix::{InvalidPrefix, Prefix};
pub use row::{Kind, Row};
pub use value::Value;
