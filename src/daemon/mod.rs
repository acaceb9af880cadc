//! The daemon.
mod call;
mod connection;
mod dispatch;
mod errors;
mod hello;
mod hub;
mod service;
mod stream;
