//! Error kinds, exit codes and hints.
