//! Reads the keys of a backend that a command leads to.

use super::CommandSettings;
use super::fields::Fields;
use super::yaml::Value;

/// Reads them; without its words there is no such backend.
pub(super) fn read(fields: &Fields<'_>, id: u32) -> CommandSettings {
    let mut command = CommandSettings { words: Vec::new(), same_files: fields.flag("same_files").unwrap_or_default() };
    let Some(node) = fields.take("command") else {
        fields.wrong(id, "command", "is missing: the words that lead there, as [kubectl, exec, -i, my-pod, --]");
        return command;
    };
    let words: Vec<String> = match &node.value {
        Value::List(_) => fields.list_of("command", node).into_iter().map(|(_, word)| word.to_owned()).collect(),
        _ => fields.word("command", node, "a list of words").map(str::split_whitespace).into_iter().flatten().map(str::to_owned).collect(),
    };
    let listed = matches!(node.value, Value::List(_));
    if !listed && words.iter().any(|word| word.contains(['\'', '"', '\\', '$', '`', '|', ';', '&', '<', '>', '('])) {
        fields.wrong(node.id, "command", "it is no shell text: give its words as a list, [kubectl, exec, -i, my-pod, --]");
    } else if words.iter().any(|word| word.starts_with("${")) {
        // Everybody on this machine can read the arguments of a program.
        fields.wrong(node.id, "command", "${NAME} has no place in an argument list, which others can read: write the words out");
    } else if words.first().is_none_or(String::is_empty) {
        fields.wrong(node.id, "command", "expected the words that lead there, as [kubectl, exec, -i, my-pod, --]");
    } else if words.iter().any(|word| word.contains('\0')) {
        fields.wrong(node.id, "command", "a word cannot hold a NUL");
    } else if let Some(flag) = terminal(&words) {
        fields.wrong(node.id, "command", &format!("{flag} asks for a terminal, which joins stdout and stderr: leave it out"));
    }
    command.words = words;
    command
}

/// A word that gives the shell a terminal, for programs that are known to have such a word.
fn terminal(words: &[String]) -> Option<&str> {
    let program = words.first()?.rsplit('/').next()?;
    if !matches!(program, "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "ssh") {
        return None;
    }
    // What stands behind `--` is the place's own.
    let own = words.iter().skip(1).take_while(|word| *word != "--");
    own.map(String::as_str).find(|word| matches!(*word, "-t" | "-it" | "-ti" | "--tty" | "-tt"))
}
