//! The old form.
use super::error::Problems;
use super::yaml::Node;
use crate::paths::Vars;
pub(super) struct Renewed {
    pub(super) tree: Node,
    pub(super) notice: String,
}
pub(super) fn renew(_root: &Node, _vars: &Vars, _problems: &Problems) -> Option<Renewed> {
    None
}
