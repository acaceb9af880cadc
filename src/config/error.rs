//! What is wrong with a config: all of it at once, each with its line.
//!
//! Invariant: no text here shows a value that may be a secret.

use super::{legacy, yaml};
use crate::report::{Kind, Report};
use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;

/// How many problems are told; more are only counted.
const TOLD: usize = 20;

/// Why a config cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file; none when the environment is wrong.
    pub file: Option<PathBuf>,
    /// What is wrong, in the order of the file; never empty.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1, where there is one.
    pub line: Option<usize>,
    /// What is wrong and what was expected.
    pub message: String,
    /// Whether it is about the environment and not the file.
    pub environment: bool,
}

impl ConfigError {
    /// Makes one about a whole file.
    pub(super) fn whole(file: Option<PathBuf>, message: impl Into<String>) -> Self {
        Self { file, problems: vec![Problem { line: None, message: message.into(), environment: false }] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match (&self.file, problem.line) {
                _ if problem.environment => f.write_str("environment: ")?,
                (Some(file), Some(line)) => write!(f, "{}:{line}: ", file.display())?,
                (Some(file), None) => write!(f, "{}: ", file.display())?,
                (None, Some(line)) => write!(f, "line {line}: ")?,
                (None, None) => {}
            }
            f.write_str(&problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl From<ConfigError> for Report {
    fn from(error: ConfigError) -> Self {
        Self::new(Kind::Config, error.to_string())
    }
}

/// Collects problems and remarks while a config is read.
#[derive(Debug, Default)]
pub(super) struct Problems {
    raised: RefCell<Vec<Raised>>,
    remarks: RefCell<Vec<(u32, String)>>,
}

#[derive(Debug)]
struct Raised {
    /// The node it is about; none when it is about the environment.
    id: Option<u32>,
    message: String,
    /// A second place, told as `(first on line N)`.
    first: Option<u32>,
}

impl Problems {
    /// Adds a problem at a node.
    pub(super) fn add(&self, id: u32, message: impl Into<String>) {
        self.raised.borrow_mut().push(Raised { id: Some(id), message: message.into(), first: None });
    }

    /// Adds a problem that has two places.
    pub(super) fn add_second(&self, id: u32, first: u32, message: impl Into<String>) {
        self.raised.borrow_mut().push(Raised { id: Some(id), message: message.into(), first: Some(first) });
    }

    /// Adds a problem of the environment.
    pub(super) fn environment(&self, message: impl Into<String>) {
        self.raised.borrow_mut().push(Raised { id: None, message: message.into(), first: None });
    }

    /// Adds something that is right but has no effect in this version.
    pub(super) fn remark(&self, id: u32, message: impl Into<String>) {
        self.remarks.borrow_mut().push((id, message.into()));
    }

    /// Gives the remarks with their lines.
    pub(super) fn remarks(&self, text: &str) -> Vec<(Option<usize>, String)> {
        self.remarks.borrow().iter().map(|(id, message)| (yaml::line_of(text, *id), message.clone())).collect()
    }

    /// Gives the error, when there is one, with lines looked up in the text.
    pub(super) fn into_error(self, file: Option<PathBuf>, text: &str) -> Result<(), ConfigError> {
        let mut raised = self.raised.into_inner();
        if raised.is_empty() {
            return Ok(());
        }
        raised.sort_by_key(|one| one.id.unwrap_or(u32::MAX));
        let more = raised.len().saturating_sub(TOLD);
        raised.truncate(TOLD);
        let mut problems: Vec<Problem> = raised
            .into_iter()
            .map(|one| {
                if let Some(variable) = one.id.and_then(legacy::variable) {
                    let message = one.message.split_once(": ").map_or(one.message.as_str(), |(_, rest)| rest);
                    return Problem { line: None, message: format!("{variable}: {message}"), environment: true };
                }
                let mut message = one.message;
                if let Some(first) = one.first.and_then(|first| yaml::line_of(text, first)) {
                    message.push_str(&format!(" (first on line {first})"));
                }
                Problem { line: one.id.and_then(|id| yaml::line_of(text, id)), message, environment: one.id.is_none() }
            })
            .collect();
        if more > 0 {
            problems.push(Problem { line: None, message: format!("{more} more problems"), environment: false });
        }
        Err(ConfigError { file, problems })
    }
}
