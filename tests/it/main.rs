//! The integration tests: one binary, one module a suite. `tidy` checks that no file here is forgotten.

mod harness;

mod harness_works;
mod tidy;
