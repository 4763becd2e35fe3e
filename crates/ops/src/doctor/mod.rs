//! What is wrong with a host: one check, one file.
