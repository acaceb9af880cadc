//! ssh machines as backends: russh behind a wrapper of our own.
