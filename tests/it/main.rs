//! The integration tests: one binary, one module a suite. `tidy` checks that no file here is forgotten.

mod harness;

mod background;
mod bad_input;
mod cli_config;
mod cli_exec;
mod cli_look;
mod cli_use;
mod crash;
mod daemon;
mod doctor;
mod exec;
mod faults;
mod guardian;
mod harness_works;
mod kill;
mod logins;
mod machines;
mod notify;
mod process_ui;
mod prompts;
mod strays;
mod terminal_ui;
mod tidy;
mod tui_use;
